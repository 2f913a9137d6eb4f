"""From file to file: atomically, in private, never over another file."""

from __future__ import annotations

import gzip
import json
import stat
from typing import TYPE_CHECKING

import pytest

from h3probe.capture import PcapngWriter
from h3probe.errors import CaptureError, UserError
from h3probe.events import Dropped, Frame, Secrets
from h3probe.run import redacting
from h3probe.run.redacting import redact
from h3probe.run.whole_file import open_whole
from h3probe.vantage.files import open_capture
from tests.redact.flows import CLIENT, NAME, Wire, hello
from tests.wire import packets
from tests.wire.quic_builder import crypto, initial

if TYPE_CHECKING:
    from pathlib import Path


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
