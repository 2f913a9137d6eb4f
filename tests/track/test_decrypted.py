from __future__ import annotations

import io
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from h3probe.capture import PcapngWriter, read_capture
from h3probe.engine import Engine
from h3probe.events import Frame, Secrets, ToldAltSvc, ToldExchange
from h3probe.lab.authority import Authority, create_authority
from h3probe.track import decrypted
from h3probe.track.tracker import Tracker
from h3probe.vantage.files import open_capture
from tests.track.decrypted_builders import Http2Pair, QuicPair, TlsPair, exchanges, told

if TYPE_CHECKING:
    from h3probe.events import Told

FOLDER = Path(__file__).parents[1] / "data" / "decrypted"
PATH = "/some/path?token=…&…"


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    """A certificate for the servers."""
    return create_authority(tmp_path_factory.mktemp("authority"))


def recorded(name: str) -> list[Told]:
    """What a capture of curl against nginx says with its key log."""
    with open_capture(FOLDER / f"{name}.pcap") as reader:
        frames = [event for event in reader if isinstance(event, Frame)]
    return told((FOLDER / f"{name}.keys").read_bytes(), frames)


@pytest.mark.parametrize(
    ("name", "version", "paths", "offers"),
    [
        ("curl-h1", "HTTP/1.1", [PATH, PATH, PATH], 1),
        ("curl-h2", "HTTP/2", [PATH, f"{PATH}&second=…", f"{PATH}&third=…"], 0),
        ("curl-h3", "HTTP/3", [PATH, f"{PATH}&second=…"], 2),
        ("curl-tls12", "HTTP/2", [PATH], 1),
        ("curl-chacha", "HTTP/2", [PATH, PATH, PATH], 3),
    ],
)
def test_recordings_of_real_programs(name: str, version: str, paths: list[str], offers: int) -> None:
    """The exchanges of real clients come out as these programs, and tshark with the same key log, have them."""
    events = recorded(name)
    found = [event for event in events if isinstance(event, ToldExchange)]
    assert exchanges(events) == [(path, 200) for path in paths]
    assert {event.version for event in found} == {version}
    assert {event.origin.rpartition(":")[0] for event in found} == {"https://localhost"}
    assert sum(isinstance(event, ToldAltSvc) for event in events) == offers


def test_secrets_inside_a_capture(authority: Authority) -> None:
    """A pcapng that holds its secrets needs no key log beside it."""
    pair = QuicPair(authority)
    pair.exchange("/")
    stream = io.BytesIO()
    writer = PcapngWriter(stream, application="a test")
    writer.secrets(pair.secrets.getvalue().encode())
    for frame in pair.frames():
        writer.packet(frame)
    stream.seek(0)
    engine = Engine("test", "pcapng")
    for event in read_capture(stream):
        engine.feed(event)
    assert engine.tracker.decrypter is not None
    assert len(engine.tracker.decrypter.keys) == 1
    stream.seek(0)
    tracker = Tracker()
    for event in read_capture(stream):
        if isinstance(event, Secrets):
            tracker.add_secrets(event)
        elif isinstance(event, Frame):
            tracker.feed(event)
    assert exchanges(tracker.take().decrypted) == [("/", 200)]


def test_secrets_may_come_between_the_packets(authority: Authority, tmp_path: Path) -> None:
    """Secrets that stand in a capture behind the hellos, and before the data, are as good as a key log."""
    tls = TlsPair(authority, tmp_path)
    Http2Pair(tls).exchange("/tcp")
    quic = QuicPair(authority)
    quic.exchange("/quic")
    for secrets, frames, path in (
        (tls.secrets, tls.frames(), "/tcp"),
        (quic.secrets.getvalue().encode(), quic.frames(), "/quic"),
    ):
        tracker = Tracker()
        tracker.add_secrets(Secrets(b""))
        for frame in frames[:4]:
            tracker.feed(frame)
        tracker.add_secrets(Secrets(secrets))
        for frame in frames[4:]:
            tracker.feed(frame)
        assert exchanges(tracker.take().decrypted) == [(path, 200)]


def both(authority: Authority, tmp_path: Path) -> list[tuple[bytes, list[Frame], str]]:
    """A connection of each transport: its secrets, its packets, and the path that is asked for."""
    tls = TlsPair(authority, tmp_path)
    Http2Pair(tls).exchange("/tcp")
    quic = QuicPair(authority)
    quic.exchange("/quic")
    return [(tls.secrets, tls.frames(), "/tcp"), (quic.secrets.getvalue().encode(), quic.frames(), "/quic")]


def test_secrets_may_come_after_all_packets(authority: Authority, tmp_path: Path) -> None:
    """A client that writes its secrets late, one line after the other, is read as one that wrote them before."""
    for secrets, frames, path in both(authority, tmp_path):
        tracker = Tracker()
        tracker.add_secrets(Secrets(b"", growing=True))
        for frame in frames:
            tracker.feed(frame)
        assert tracker.take().decrypted == []
        for line in secrets.splitlines(keepends=True):
            tracker.add_secrets(Secrets(line, growing=True))
        assert exchanges(tracker.take().decrypted) == [(path, 200)]


def test_secrets_may_come_one_by_one_between_the_packets(authority: Authority, tmp_path: Path) -> None:
    """A part of a session's secrets ends nothing: the others may be written still."""
    for secrets, frames, path in both(authority, tmp_path):
        lines = secrets.splitlines(keepends=True)
        tracker = Tracker()
        tracker.add_secrets(Secrets(lines[0], growing=True))
        for frame in frames[:-1]:
            tracker.feed(frame)
        tracker.add_secrets(Secrets(b"".join(lines[1:]), growing=True))
        tracker.feed(frames[-1])
        assert exchanges(tracker.take().decrypted) == [(path, 200)]


@pytest.mark.parametrize("module", ["decrypted_tcp", "decrypted_quic"])
def test_packets_that_wait_for_secrets_are_bounded(
    authority: Authority, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, module: str
) -> None:
    """A connection whose secrets do not come is given up, after so many bytes or so long, and holds nothing then."""
    secrets, frames, _ = both(authority, tmp_path)[module == "decrypted_quic"]
    for name, value in (("GROWING_LIMIT", 2), ("GROWING_NS", -1)):
        with monkeypatch.context() as patch:
            patch.setattr(f"h3probe.track.{module}.{name}", value)
            tracker = Tracker()
            tracker.add_secrets(Secrets(b"", growing=True))
            for frame in frames:
                tracker.feed(frame)
            assert tracker.decrypter is not None
            assert tracker.decrypter.held == 0
            tracker.add_secrets(Secrets(secrets, growing=True))
            assert tracker.take().decrypted == []


def test_without_secrets_nothing_is_loaded() -> None:
    """A tracker that was given no secrets decrypts nothing, and does not load what it would take."""
    script = (
        "import sys, h3probe.engine; from h3probe.track.tracker import Tracker; tracker = Tracker(); "
        "assert tracker.decrypter is None and tracker.quic.on_packet is None; "
        "assert not {'hpack', 'pylsqpack', 'h3probe.track.decrypted'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", script], check=True)


def test_connections_that_are_too_many_give_way(
    authority: Authority, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The connection that was quiet longest is let go of, counted, and nothing more is told of it."""
    monkeypatch.setattr(decrypted, "FOLLOWED_LIMIT", 1)
    tls = TlsPair(authority, tmp_path)
    Http2Pair(tls).exchange("/")
    tracker = Tracker()
    tracker.add_secrets(Secrets(tls.secrets))
    frames = tls.frames()
    for frame in frames[:8]:
        tracker.feed(frame)
    other = [
        Frame(f.number, f.time_ns, 1, f.data[:26] + b"\x0a\x01\x01\x01" + f.data[30:], f.length) for f in frames[:8]
    ]
    for frame in [*other, *frames[8:]]:
        tracker.feed(frame)
    assert tracker.take().decrypted == []
    assert tracker.decrypter is not None
    assert tracker.decrypter.given_up >= 1


def test_memory_is_bounded_over_all_connections(
    authority: Authority, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A connection that needs more than there is left is given up."""
    monkeypatch.setattr(decrypted, "HELD_LIMIT", 4_000)
    tls = TlsPair(authority, tmp_path)
    http = Http2Pair(tls)
    http.answer(http.ask("/"), body=bytes(10_000))
    frames = tls.frames()
    tracker = Tracker()
    tracker.add_secrets(Secrets(tls.secrets))
    for frame in frames[:4] + frames[5:]:
        tracker.feed(frame)
    assert tracker.take().decrypted == []
    assert tracker.decrypter is not None
    assert (tracker.decrypter.given_up, tracker.decrypter._held) == (1, 0)


def test_what_is_held_is_accounted_for(authority: Authority, tmp_path: Path) -> None:
    """When all connections are settled, nothing is held any more."""
    tls = TlsPair(authority, tmp_path)
    Http2Pair(tls).exchange("/tcp")
    quic = QuicPair(authority)
    quic.exchange("/quic")
    tracker = Tracker()
    tracker.add_secrets(Secrets(tls.secrets + quic.secrets.getvalue().encode()))
    for frame in tls.frames()[:-2] + quic.frames():
        tracker.feed(frame)
    tracker.finish()
    assert tracker.decrypter is not None
    assert tracker.decrypter._held == 0
    assert "<KeyLog of 2 sessions>" in repr(tracker.decrypter.keys)
