"""Bundles of the disguised recordings, redacted: the same answer, and nothing of the original in any member."""

from __future__ import annotations

import json
import zipfile
from typing import TYPE_CHECKING, Any

import pytest

from h3probe.capture import PcapngWriter
from h3probe.capture.bundle import CAPTURE, MEMBERS
from h3probe.events import Endpoint, Frame
from h3probe.redact import Mapping
from h3probe.redact.records import RecordRedactor
from h3probe.run.bundling import bundle_captures
from h3probe.run.explaining import Asked, explained
from h3probe.run.redacting import redact
from h3probe.show.ndjson import to_json
from h3probe.show.progress import Progress
from h3probe.vantage.files import open_capture
from tests.captures.recordings import NAMES
from tests.captures.test_redacted import original, readable, secrets

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture(params=NAMES)
def bundles(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[Path, Path, Mapping]:
    """A bundle of a disguised recording, the same one redacted, and what stands for what."""
    capture = tmp_path / "capture.pcapng"
    with capture.open("wb") as stream:
        writer = PcapngWriter(stream, application="test")
        for frame in original(request.param):
            writer.packet(frame)
    whole, redacted, kept = tmp_path / "db.corp.x.h3probe.zip", tmp_path / "x.h3probe.zip", tmp_path / "map.json"
    bundle_captures(Asked((str(capture),)), whole, full=False, force=False, progress=Progress(None))
    done = redact(str(whole), str(redacted), kept=(), map_file=str(kept), force=False)
    assert not done.dropped
    return whole, redacted, Mapping.from_json(kept.read_text())


def answer(path: Path) -> list[dict[str, Any]]:
    """H3probe's records, without the names of files."""
    records = [json.loads(to_json(record)) for record in explained(Asked((str(path),))).all_records]
    return [{**record, "source": "redacted"} if record["type"] == "capture" else record for record in records]


def frames(path: Path) -> tuple[Frame, ...]:
    """The packets in a bundle."""
    capture = path.with_suffix(".pcapng")
    with zipfile.ZipFile(path) as archive:
        capture.write_bytes(archive.read(CAPTURE))
    with open_capture(capture) as reader:
        return tuple(event for event in reader if isinstance(event, Frame))


def spelled(secret: bytes) -> list[bytes]:
    """How it may stand in a file: as it is, in hex, as an address."""
    address = [Endpoint(secret, 0).address.encode()] if len(secret) in (4, 16) else []
    return [secret, secret.hex().encode(), *address]


def test_the_answer_is_the_same_and_nothing_is_left(bundles: tuple[Path, Path, Mapping]) -> None:
    """Each record is the original one in other names, and no member holds one of the old ones, nor an Initial in it."""
    whole, redacted, mapping = bundles
    records = RecordRedactor(mapping)
    assert answer(redacted) == [records.record(record) for record in answer(whole)]
    known = secrets(frames(whole))
    assert known
    with zipfile.ZipFile(redacted) as archive:
        assert set(archive.namelist()) == set(MEMBERS)
        held = {name: archive.read(name) for name in archive.namelist()}
    for secret in known:
        for spelling in spelled(secret):
            assert not any(spelling in data for data in held.values()), spelling
        assert not any(secret in data for data in readable(frames(redacted)))
