from __future__ import annotations

from typing import TYPE_CHECKING

from h3probe.events import Frame, Secrets
from h3probe.run import keyed_recorder
from h3probe.run.keyed_recorder import KeyedRecorder
from h3probe.track.tracker import Tracker
from h3probe.vantage.files import open_capture
from tests.run.test_recorder import Notes
from tests.run.traffic import Traffic

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

    from h3probe.events import Event

LINE = b"CLIENT_RANDOM " + b"11" * 32 + b" " + b"22" * 48 + b"\n"


def read(path: Path) -> list[Event]:
    """What is in a file, in order."""
    with open_capture(path) as reader:
        return list(reader)


def test_secrets_stand_before_packets_that_came_before_them(tmp_path: Path) -> None:
    """A packet waits a moment for the secrets that open it, and is kept whole; the end waits for nothing."""
    path = tmp_path / "trace.pcapng"
    recorder, tracker = KeyedRecorder(str(path), Notes(), force=False), Tracker()
    frame = Traffic().udp(b"\x00" + b"text" * 100)
    assert recorder.keeps_payload
    with recorder:
        tracker.feed(frame)
        recorder.frame(frame, tracker)
        recorder.observed(Secrets(b"", growing=True))
        recorder.observed(Secrets(LINE, growing=True))
        recorder.close(0)
    secrets, packet = read(path)
    assert isinstance(secrets, Secrets)
    assert isinstance(packet, Frame)
    assert (secrets.key_log, packet.data) == (LINE, frame.data)
    assert path.stat().st_mode & 0o777 == 0o600


def test_packets_do_not_wait_for_ever(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """After their time, and when there are too many, they are written, secrets or not."""
    path = tmp_path / "trace.pcapng"
    monkeypatch.setattr(keyed_recorder, "HOLD_LIMIT", 1_000)
    recorder, tracker = KeyedRecorder(str(path), Notes(), force=False), Tracker()
    with recorder:
        for _ in range(5):
            recorder.frame(Traffic().udp(bytes(400)), tracker)
        recorder.observed(Secrets(LINE))
        recorder.close(0)
    assert [type(event) for event in read(path)] == [Frame, Frame, Frame, Secrets, Frame, Frame]
    monkeypatch.setattr(keyed_recorder, "HOLD_S", 0.0)
    recorder = KeyedRecorder(str(path), Notes(), force=True)
    with recorder:
        recorder.frame(Traffic().udp(b"x"), tracker)
        recorder.observed(Secrets(LINE))
        recorder.close(0)
    assert [type(event) for event in read(path)] == [Frame, Secrets]
