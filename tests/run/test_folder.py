from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from h3probe.capture.bundle import CAPTURE, ENVIRONMENT, EVENTS, OBSERVED
from h3probe.engine import Engine
from h3probe.errors import UserError
from h3probe.events import Event, Frame, Secrets, TimePassed, ToldExchange
from h3probe.run.folder import FolderRecorder, bundle_of, folder_of, remove
from h3probe.show.ndjson_read import from_json
from h3probe.vantage.recorded import Recorded
from tests.run.test_recorder import Notes
from tests.run.traffic import Traffic

if TYPE_CHECKING:
    from collections.abc import Iterable

TOLD = ToldExchange(1, "decrypted", "https://example.org:443", "GET", "https://example.org/", "HTTP/3", 200)

FULL_DISK = """
import resource, sys
from pathlib import Path
from h3probe.run.folder import FolderRecorder
from tests.run.test_folder import record
from tests.run.test_recorder import Notes
from tests.run.traffic import Traffic

resource.setrlimit(resource.RLIMIT_FSIZE, (100_001, 100_001))
notes = Notes()
recorder = FolderRecorder(Path(sys.argv[1]), notes, {}, full=True, force=False)
traffic = Traffic()
engine = record(recorder, [traffic.initial() for _ in range(200)])
recorder.flush_if_due()
recorder.close(0)
print(*notes.notes, sep="\\n")
print(engine.tracker.packets)
"""


def record(recorder: FolderRecorder, events: Iterable[Event]) -> Engine:
    """Write events, and what is concluded from them, as a run does."""
    engine = Engine("test", "live")
    for event in events:
        records = engine.feed(event)
        recorder.take(event, engine.tracker)
        recorder.records(records)
    recorder.records(engine.finish())
    return engine


def recorder(folder: Path, *, force: bool = False, secrets: bool = False) -> FolderRecorder:
    """A recorder that keeps everything."""
    return FolderRecorder(folder, Notes(), {"os": "Linux"}, full=True, force=force, secrets=secrets)


def read(folder: Path) -> list[Event]:
    """What a folder holds."""
    with Recorded(folder) as reader:
        return list(reader)


def test_everything_is_readable_at_every_moment(tmp_path: Path) -> None:
    """Packets, observations and records are there after a flush, in a folder that nobody else may look into."""
    writing = recorder(tmp_path / "x.h3probe")
    engine = record(writing, [Traffic().initial(), TimePassed(5), *Traffic().connected()])
    writing.flush()
    found = read(tmp_path / "x.h3probe")
    assert [type(event) for event in found] == [Frame, TimePassed, Frame, Frame, Frame]
    lines = (tmp_path / "x.h3probe" / EVENTS).read_text().splitlines()
    assert [from_json(line).type for line in lines][-1] == "summary"
    assert len(lines) == sum(engine.counts.values())
    assert json.loads((tmp_path / "x.h3probe" / ENVIRONMENT).read_text()) == {
        "os": "Linux",
        "packets_kept": "whole packets",
    }
    assert (tmp_path / "x.h3probe").stat().st_mode & 0o777 == 0o700
    assert {path.stat().st_mode & 0o777 for path in (tmp_path / "x.h3probe").iterdir()} == {0o600}
    writing.close(0)


@pytest.mark.parametrize("secrets", [False, True])
def test_secrets_or_what_they_tell(tmp_path: Path, *, secrets: bool) -> None:
    """Secrets are kept where that is asked for; else what was decrypted with them is, and they are counted."""
    writing = recorder(tmp_path / "x", secrets=secrets)
    writing.observed(Secrets(b"CLIENT_RANDOM 00 11\n"))
    writing.decrypted(TOLD)
    record(writing, [Traffic().initial()])
    writing.close(0)
    found = [event for event in read(tmp_path / "x") if not isinstance(event, Frame)]
    assert found == [Secrets(b"CLIENT_RANDOM 00 11\n") if secrets else TOLD]
    assert writing.dropped_secrets == (not secrets)


def test_an_earlier_run_is_kept(tmp_path: Path) -> None:
    """What a run that was cut off left is named, with the way to make something of it; `force` replaces it."""
    recorder(tmp_path / "x").close(0)
    with pytest.raises(UserError, match="h3probe bundle"):
        recorder(tmp_path / "x")
    recorder(tmp_path / "x", force=True).close(0)
    (tmp_path / "file").write_text("")
    with pytest.raises(UserError, match="cannot be made"):
        recorder(tmp_path / "file")


def test_a_disk_that_fills_up_ends_the_files_and_not_the_run(tmp_path: Path) -> None:
    """One message; every packet is looked at all the same; all files end between two blocks, or lines."""
    folder = tmp_path / "x"
    done = subprocess.run([sys.executable, "-c", FULL_DISK, folder], capture_output=True, text=True, check=True)
    message, packets = done.stdout.splitlines()
    assert message.startswith(f"{folder / CAPTURE}: File too large; nothing more is written")
    assert packets == "200"
    with Recorded(folder) as reader:
        assert sum(isinstance(event, Frame) for event in reader) == 79
        assert not reader.truncated
    assert (folder / OBSERVED).read_bytes() == b""
    assert (folder / EVENTS).read_bytes()[-1:] in (b"", b"\n")


def test_names(tmp_path: Path) -> None:
    """A bundle's folder stands beside it, and a capture's bundle beside the capture."""
    assert folder_of(Path("a/office.h3probe.zip")) == Path("a/office.h3probe")
    (tmp_path / "office.h3probe").mkdir()
    names = ("office.h3probe", "trace.pcapng", "trace.pcap.gz", "trace")
    assert [bundle_of(tmp_path / name).name for name in names] == ["office.h3probe.zip", *["trace.h3probe.zip"] * 3]


def test_what_somebody_put_there_stays(tmp_path: Path) -> None:
    """A folder goes with what h3probe wrote into it, and not with anything else."""
    recorder(tmp_path / "x").close(0)
    (tmp_path / "x" / "notes.txt").write_text("mine")
    remove(tmp_path / "x")
    assert [path.name for path in (tmp_path / "x").iterdir()] == ["notes.txt"]
    (tmp_path / "x" / "notes.txt").unlink()
    remove(tmp_path / "x")
    assert not (tmp_path / "x").exists()
