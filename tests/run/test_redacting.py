"""From file to file: atomically, in private, never over another file."""

from __future__ import annotations

import gzip
import json
import stat
import zipfile
from pathlib import Path

import pytest

from h3probe.capture import PcapngWriter
from h3probe.errors import CaptureError, UserError
from h3probe.events import (
    ConnectionOwner,
    Dropped,
    Event,
    Frame,
    Process,
    ProxyLog,
    RunBegan,
    RunEnded,
    Secrets,
    TimePassed,
    TunnelAnswered,
    TunnelAsked,
)
from h3probe.records import ExchangeRecord, QuicRecord
from h3probe.redact import Mapping, Redactor
from h3probe.redact.records import RecordRedactor
from h3probe.run import redacting
from h3probe.run.bundling import bundle_captures, bundle_folder
from h3probe.run.explaining import Asked, explained
from h3probe.run.folder import FolderRecorder
from h3probe.run.redacting import redact
from h3probe.run.whole_file import open_whole
from h3probe.show.progress import Progress
from h3probe.vantage.files import open_capture
from h3probe.vantage.proxy_events import format_event, parse_event
from tests.redact.flows import CLIENT, MS, NAME, SERVER, START_NS, Wire, hello
from tests.run.test_bundling import answer
from tests.run.test_folder import record
from tests.run.test_recorder import Notes
from tests.wire import packets
from tests.wire.quic_builder import crypto, initial


def capture(path: Path, *, interface: str = "ann-vpn") -> Path:
    """A capture with a name in it, a comment, secrets, a loss, and a frame that cannot be redacted."""
    wire = Wire()
    with path.open("wb") as stream:
        writer = PcapngWriter(stream, application="ann's program", os="ann's machine")
        number = writer.interface(interface, 1)
        writer.secrets(b"CLIENT_RANDOM 00 11\n")
        for frame in (
            wire.udp(initial(crypto(0, hello()), size=1200)),
            packets.frame(packets.ethernet(b"x" * 50, 0x88CC)),
        ):
            writer.packet(Frame(1, frame.time_ns, 1, frame.data, frame.length, interface), comment="this is Ann")
        writer.statistics(number, None, 5)
    return path


def test_a_file(tmp_path: Path) -> None:
    """What is not a packet is left out and counted, what could not be redacted as well, and losses are still told."""
    source, target = capture(tmp_path / "in.pcapng"), tmp_path / "out.pcapng"
    done = redact(str(source), str(target), kept=(), map_file=None, force=False)
    assert (done.frames, done.written, done.comments, done.secrets) == (2, 1, 2, 1)
    assert dict(done.dropped) == {"EtherType 0x88cc": 1}
    data = target.read_bytes()
    for hidden in (b"ann", b"Ann", NAME, CLIENT.host, b"CLIENT_RANDOM"):
        assert hidden not in data
    with open_capture(target) as reader:
        events = list(reader)
    assert [type(event) for event in events] == [Frame, Dropped]
    assert not any(isinstance(event, Secrets) for event in events)
    assert reader.dropped == 5
    assert stat.S_IMODE(target.stat().st_mode) == 0o600
    assert sorted(path.name for path in tmp_path.iterdir()) == ["in.pcapng", "out.pcapng"]


def test_compressed_input(tmp_path: Path) -> None:
    """A compressed capture is read as it is."""
    packed = tmp_path / "in.pcapng.gz"
    packed.write_bytes(gzip.compress(capture(tmp_path / "in.pcapng").read_bytes()))
    assert redact(str(packed), str(tmp_path / "out"), kept=(), map_file=None, force=False).written == 1


def test_a_file_is_not_overwritten(tmp_path: Path) -> None:
    """Only --force replaces a file."""
    source, target = capture(tmp_path / "in.pcapng"), tmp_path / "out.pcapng"
    target.write_text("precious")
    with pytest.raises(UserError, match="--force"):
        redact(str(source), str(target), kept=(), map_file=None, force=False)
    assert target.read_text() == "precious"
    redact(str(source), str(target), kept=(), map_file=None, force=True)
    with open_capture(target) as reader:
        assert sum(isinstance(event, Frame) for event in reader) == 1


def test_what_fails_leaves_nothing(tmp_path: Path) -> None:
    """After an error there is no half a file."""
    (tmp_path / "in").write_bytes(b"no capture")
    with pytest.raises(CaptureError):
        redact(str(tmp_path / "in"), str(tmp_path / "out"), kept=(), map_file=None, force=False)
    with pytest.raises(ZeroDivisionError), open_whole(str(tmp_path / "out"), force=False):
        raise ZeroDivisionError
    with pytest.raises(UserError, match="cannot be written"), open_whole(str(tmp_path / "no" / "out"), force=False):
        pass
    assert [path.name for path in tmp_path.iterdir()] == ["in"]


def test_a_file_that_appears_meanwhile(tmp_path: Path) -> None:
    """A file that somebody made while this one was written stays."""
    writing = open_whole(str(tmp_path / "out"), force=False)
    writing.__enter__().write(b"mine")
    (tmp_path / "out").write_bytes(b"theirs")
    with pytest.raises(UserError, match="exists already"):
        writing.__exit__(None, None, None)
    assert (tmp_path / "out").read_bytes() == b"theirs"


def test_the_mapping_goes_on(tmp_path: Path) -> None:
    """With a file for it, two captures are redacted alike; it is private, and holds what undoes the redaction."""
    kept = str(tmp_path / "map.json")
    one, two = capture(tmp_path / "1.pcapng"), capture(tmp_path / "2.pcapng")
    redact(str(one), str(tmp_path / "a"), kept=(), map_file=kept, force=False)
    redact(str(two), str(tmp_path / "b"), kept=(), map_file=kept, force=False)
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()
    assert stat.S_IMODE((tmp_path / "map.json").stat().st_mode) == 0o600
    assert NAME.decode() in json.loads((tmp_path / "map.json").read_text())["hosts"]
    redact(str(two), str(tmp_path / "c"), kept=(), map_file=None, force=False)
    assert (tmp_path / "c").read_bytes() != (tmp_path / "a").read_bytes()
    (tmp_path / "map.json").write_text("[]")
    with pytest.raises(UserError, match=r"map\.json"):
        redact(str(two), str(tmp_path / "d"), kept=(), map_file=kept, force=False)


def test_a_kept_host(tmp_path: Path) -> None:
    """A name that is kept is found in the file again, inside the Initial."""
    source = capture(tmp_path / "in.pcapng")
    redact(str(source), str(tmp_path / "out"), kept=(NAME.decode(),), map_file=str(tmp_path / "map"), force=False)
    assert json.loads((tmp_path / "map").read_text())["hosts"][NAME.decode()] == NAME.decode()


def test_a_full_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is one line for the user, and no half a file."""

    class Full(PcapngWriter):
        def packet(self, frame: Frame, *, comment: str | None = None, pid: int | None = None) -> None:
            """Fail, as a full disk does."""
            raise OSError(28, f"No space left on device: {len(frame.data)} bytes, {comment}, {pid}")

    monkeypatch.setattr(redacting, "PcapngWriter", Full)
    with pytest.raises(UserError, match="No space left"):
        redact(str(capture(tmp_path / "in")), str(tmp_path / "out"), kept=(), map_file=None, force=False)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("name", ["out.pcapng", "./out.pcapng", "-"])
def test_the_mapping_is_never_the_output(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file that is to be shared is not overwritten with what undoes it, nor is that printed."""
    source = capture(tmp_path / "in.pcapng")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UserError, match="a file of its own"):
        redact(str(source), "out.pcapng", kept=(), map_file=name, force=True)
    assert list(tmp_path.iterdir()) == [source]


def test_without_its_mapping_there_is_no_output(tmp_path: Path) -> None:
    """Where the mapping cannot be written, no capture appears that nothing can be matched with."""
    source = capture(tmp_path / "in.pcapng")
    with pytest.raises(UserError, match=r"map\.json cannot be written"):
        redact(str(source), str(tmp_path / "o"), kept=(), map_file=str(tmp_path / "no" / "map.json"), force=False)
    assert list(tmp_path.iterdir()) == [source]


def test_the_input_is_never_the_output(tmp_path: Path) -> None:
    """With `--force` neither, and not as the mapping."""
    source = capture(tmp_path / "in.pcapng")
    before = source.read_bytes()
    for target, map_file in ((source, None), (tmp_path / "o", str(source))):
        with pytest.raises(UserError, match="is read"):
            redact(str(source), str(target), kept=(), map_file=map_file, force=True)
    assert source.read_bytes() == before


ENVIRONMENT = {
    "h3probe": "0.1.0",
    "os": "Linux 6.8.0-annsbox",
    "interfaces": [{"name": "ann-vpn", "addresses": ["192.168.7.23"], "up": True, "mtu": 1500}],
    "proxy_settings": {"https_proxy": "http://proxy.secret-host.org:3128", "NO_PROXY": ".secret-host.org,10.0.0.0/8"},
    "client": {"program": "java", "path": "~/hidden/bin/java", "java_version": "26.0.1"},
}


def run_of_ann(folder: Path) -> Path:
    """What a run left, with a name worth hiding wherever there is one."""
    wire = Wire()
    asked = TunnelAsked(START_NS, "t1", "c1", CLIENT, SERVER, "intranet", 443, "CONNECT")
    events: list[Event] = [
        RunBegan(1, "ann-vpn", "live", "wire", local=(CLIENT.host,), behind_proxy="annstool", narrowed=True),
        asked,
        packets.frame(packets.ethernet(b"x" * 50, 0x88CC)),  # left out
        wire.udp(initial(crypto(0, hello()), size=1200)),
        ConnectionOwner(START_NS + MS, 17, CLIENT, Process(7, "annstool"), wanted=True),
        TunnelAnswered(START_NS + MS, "t1", 502, 0.5, "proxy", "cannot connect to intranet:443 from 192.168.7.23"),
        TimePassed(START_NS + 60_000 * MS),
        RunEnded(START_NS + 90_000 * MS, client_over=True, dropped=0),
    ]
    with FolderRecorder(folder, Notes(), dict(ENVIRONMENT), full=False, force=False) as recorder:
        record(recorder, events)
        recorder.close(0)
    return folder


def test_a_bundle(tmp_path: Path) -> None:
    """All members are redacted with one mapping: nothing of the original is left, and the answer is the same."""
    source, target, kept = tmp_path / "ann.h3probe.zip", tmp_path / "x.h3probe.zip", tmp_path / "map.json"
    bundle_folder(run_of_ann(tmp_path / "ann.h3probe"), source, force=False, progress=Progress(None))
    done = redact(str(source), str(target), kept=(), map_file=str(kept), force=False)
    assert (done.frames, done.written, done.bundle) == (2, 1, "1 packet, 2 verdicts, 1 finding")
    with zipfile.ZipFile(target) as archive:
        held = {name: archive.read(name) for name in archive.namelist()}
    for name, data in held.items():
        for hidden in (
            b"annst",
            b"annsb",
            b"ann-",
            b"intranet",
            b"secret-host",
            b"192.168.7",
            b"hidden/bin",
            CLIENT.host,
            SERVER.host,
        ):
            assert hidden not in data, (name, hidden)
    environment = json.loads(held["environment.json"])
    assert environment["os"] == "Linux 6.8.0"
    assert environment["redacted"]["packets_left_out"] == {"EtherType 0x88cc": 1}
    assert b"are replaced" in held["README.txt"]
    records = RecordRedactor(Mapping.from_json(kept.read_text()))
    before, after = (answer(explained(Asked((str(path),))).all_records) for path in (source, target))
    said = [
        [(r["type"], r.get("sni"), r.get("client"), r.get("rule"), r.get("sentence"), r.get("process"))
         for r in records_of if r["type"] not in ("capture", "summary", "exchange")]
        for records_of in (map(records.record, before), after)
    ]  # fmt: skip
    assert said[1] == said[0]
    assert {"quic", "finding", "verdict"} <= {r["type"] for r in after}
    assert before[-1]["exit_status"] == after[-1]["exit_status"]


def test_a_bundle_with_secrets(tmp_path: Path) -> None:
    """They are left out; what they told is kept, with other names."""
    data = Path(__file__).parent.parent / "data" / "decrypted"
    asked = Asked((str(data / "curl-h3.pcap"),), key_log=str(data / "curl-h3.keys"))
    source, target = tmp_path / "a.h3probe.zip", tmp_path / "b.h3probe.zip"
    bundle_captures(asked, source, full=True, force=False, progress=Progress(None))
    done = redact(str(source), str(target), kept=(), map_file=None, force=False)
    assert done.secrets >= 1
    with zipfile.ZipFile(target) as archive:
        assert not any(b"_TRAFFIC_SECRET" in archive.read(name) for name in archive.namelist())
    before, after = ([(r.version, r.status) for r in explained(Asked((str(path),))).all_records
                      if isinstance(r, ExchangeRecord)] for path in (source, target))  # fmt: skip
    assert before
    assert after == before


def test_a_proxys_events(tmp_path: Path) -> None:
    """A file of events becomes another one; what its log said is left out, and so are lines that are none."""
    source, target = tmp_path / "in.ndjson", tmp_path / "out.ndjson"
    asked = TunnelAsked(START_NS, "t1", "c1", CLIENT, SERVER, "www.secret-host.org", 443, "CONNECT")
    lines = [format_event(asked), format_event(ProxyLog(5, "info", "hello Ann")), "nonsense"]
    source.write_text("".join(f"{line}\n" for line in lines))
    done = redact(str(source), str(target), kept=(), map_file=None, force=False)
    assert (done.frames, done.written, done.unreadable) == (2, 1, 1)
    assert done.dropped.total() == 1
    made = parse_event(target.read_text())
    assert isinstance(made, TunnelAsked)
    assert made.host.endswith(".org") is False
    assert made.client.port == CLIENT.port
    assert made.client.host != CLIENT.host


def test_a_bundle_stays_a_bundle(tmp_path: Path) -> None:
    """The name of what is written says what it is."""
    source = run_of_ann(tmp_path / "ann.h3probe")
    with pytest.raises(UserError, match=r"name it NAME\.h3probe\.zip"):
        redact(str(source), str(tmp_path / "x.pcapng"), kept=(), map_file=None, force=False)
    with pytest.raises(UserError, match="is no bundle"):
        redact(str(capture(tmp_path / "in")), str(tmp_path / "x.h3probe.zip"), kept=(), map_file=None, force=False)
    assert redact(str(source), str(tmp_path / "x.h3probe.zip"), kept=(), map_file=None, force=False).written == 1
    assert sorted(path.name for path in tmp_path.iterdir()) == ["ann.h3probe", "in", "x.h3probe.zip"]


def test_a_redacted_run(tmp_path: Path) -> None:
    """What a run writes with a redactor: no name in any file at any moment, and a bundle at the end."""
    folder, wire = tmp_path / "x.h3probe", Wire()
    redactor = Redactor(Mapping())
    with FolderRecorder(folder, Notes(), dict(ENVIRONMENT), full=False, force=False, redactor=redactor) as recorder:
        record(recorder, [
            RunBegan(1, "ann-vpn", "live", "wire", local=(CLIENT.host,)),
            wire.udp(initial(crypto(0, hello()[:60]), size=1200)),
            ConnectionOwner(START_NS + MS, 17, CLIENT, Process(7, "annstool"), wanted=True),
            wire.udp(initial(crypto(60, hello()[60:]), number=1, size=1200)),
        ])  # fmt: skip
        recorder.flush()
        held = {path.name: path.read_bytes() for path in folder.iterdir()}
        recorder.close(0)
    for data in held.values():
        for hidden in (b"ann", b"secret", b"192.168.7", CLIENT.host, SERVER.host):
            assert hidden not in data
    assert held["events.ndjson"] == b""  # it is made at the end, of what is left
    assert json.loads(held["observed.ndjson"].splitlines()[1])["after"] == 1
    found = bundle_folder(folder, tmp_path / "x.h3probe.zip", force=False, progress=Progress(None))
    assert found.in_words.startswith("2 packets, 1 verdict")
    told = explained(Asked((str(tmp_path / "x.h3probe.zip"),)))
    (quic,) = [record for record in told.all_records if isinstance(record, QuicRecord)]
    assert quic.process is not None
    assert quic.process.pid == 7
    assert quic.sni == redactor.mapping.host(NAME).decode()
