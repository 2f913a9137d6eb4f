from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import zipfile
from typing import TYPE_CHECKING, Any

import pytest

from h3probe.capture import PcapngWriter
from h3probe.capture.bundle import MEMBERS
from h3probe.errors import CaptureError, UserError
from h3probe.events import Endpoint
from h3probe.records import AnyRecord, SummaryRecord
from h3probe.run import explaining
from h3probe.run.bundling import bundle_captures, bundle_folder
from h3probe.run.explaining import Asked, explained
from h3probe.run.folder import FolderRecorder
from h3probe.show.ndjson import to_json
from h3probe.show.progress import Progress
from tests.captures.recordings import FOLDER, NAMES
from tests.run.test_folder import record
from tests.run.test_recorder import Notes
from tests.run.traffic import Traffic

if TYPE_CHECKING:
    from pathlib import Path

CAPTURE = FOLDER / "jdk26-udp-dropped-client-any.pcap"
needs_tshark = pytest.mark.skipif(
    shutil.which("tshark") is None, reason="tshark is not installed: `apt-get install tshark` brings it"
)


def bundled(target: Path, *sources: Path, full: bool = False, key_log: str | None = None) -> Path:
    """Make a bundle."""
    asked = Asked(tuple(map(str, sources)), key_log=key_log)
    bundle_captures(asked, target, full=full, force=False, progress=Progress(None))
    return target


def answer(records: list[AnyRecord]) -> list[dict[str, Any]]:
    """The records without the names of files."""
    found = [json.loads(to_json(each)) for each in records]
    for each in found:
        each.pop("source", None)
        each.pop("format", None)
    return found


def members(path: Path) -> dict[str, bytes]:
    """What is in a bundle."""
    with zipfile.ZipFile(path) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


@pytest.mark.parametrize("name", NAMES)
def test_the_bundle_gives_the_same_answer(name: str, tmp_path: Path) -> None:
    """Of each recording: every record is the same, read from the capture or from the bundle; so is what it has."""
    capture = FOLDER / f"{name}.pcap"
    path = bundled(tmp_path / "x.h3probe.zip", capture)
    expected = answer(explained(Asked((str(capture),))).all_records)
    assert answer(explained(Asked((str(path),))).all_records) == expected
    lines = [json.loads(line) for line in members(path)["events.ndjson"].splitlines()]
    assert [line["id"] for line in lines] == [record["id"] for record in expected]


def test_what_is_in_it(tmp_path: Path) -> None:
    """Ten lines to read first; nothing of the machine where it was made; nobody else may read it."""
    path = bundled(tmp_path / "x.h3probe.zip", CAPTURE)
    found = members(path)
    assert found.keys() == set(MEMBERS)
    assert b"stale-alt-svc" in found["report.html"]
    assert len(found["README.txt"].splitlines()) == 10
    environment = json.loads(found["environment.json"])
    assert environment["files"] == [CAPTURE.name]
    assert environment["dropped"]["packets"] is None
    assert "JDK 26 HttpClient" in environment["seen_on_the_wire"]["clients"]
    assert "interfaces" not in environment
    assert path.stat().st_mode & 0o777 == 0o600
    assert list(tmp_path.iterdir()) == [path]


def test_what_a_capture_lacked_is_not_forgotten(tmp_path: Path) -> None:
    """A capture that was cut off gives a bundle with whole packets, and the same answer."""
    cut = tmp_path / "cut.pcap"
    cut.write_bytes(CAPTURE.read_bytes()[:-10])
    path = bundled(tmp_path / "x.h3probe.zip", cut)
    expected = answer(explained(Asked((str(cut),))).all_records)
    assert expected[-1]["truncated"]
    assert answer(explained(Asked((str(path),))).all_records) == expected


def test_payload_is_cut_unless_it_is_wanted(tmp_path: Path) -> None:
    """A bundle is to be shown to others; the README says what is in it."""
    small, whole = (bundled(tmp_path / f"{full}.h3probe.zip", FOLDER / "curl-http3.pcap", full=full)
                    for full in (False, True))  # fmt: skip
    assert len(members(small)["capture.pcapng"]) < len(members(whole)["capture.pcapng"])
    assert b"no bodies, cookies" in members(small)["README.txt"]
    assert b"look before you share it" in members(whole)["README.txt"]


def test_a_bundle_of_a_bundle(tmp_path: Path) -> None:
    """It is a capture like any other, with what was observed beside it."""
    first = bundled(tmp_path / "a.h3probe.zip", CAPTURE)
    second = bundled(tmp_path / "b.h3probe.zip", first)
    for name in ("capture.pcapng", "observed.ndjson", "environment.json"):
        assert members(first)[name] == members(second)[name]


@pytest.mark.parametrize(
    "environment", ['{"os": 5}', '{"os": "\\ud800\\u001b[2J", "h3probe": ["\\n"]}', '{"packets_kept": {}}']
)
def test_a_bundle_of_a_bundle_that_says_odd_things(environment: str, tmp_path: Path) -> None:
    """Whatever somebody's bundle says of where it was recorded: it can be bundled again, and what is read is text."""
    first, odd = bundled(tmp_path / "a.h3probe.zip", CAPTURE), tmp_path / "odd.h3probe.zip"
    with zipfile.ZipFile(odd, "w") as archive:
        for name, data in members(first).items():
            archive.writestr(name, environment if name == "environment.json" else data)
    again = members(bundled(tmp_path / "b.h3probe.zip", odd))
    assert again["capture.pcapng"]
    assert again["README.txt"].decode().replace("\n", "").isprintable()


@needs_tshark
@pytest.mark.parametrize("name", ["jdk26-udp-dropped-client-any", "curl-http3-tinyproxy"])
def test_wireshark_shows_the_reasoning(name: str, tmp_path: Path) -> None:
    """Wireshark's reader takes it without a warning, and has a comment on every packet that proves a finding."""
    found = members(bundled(tmp_path / "x.h3probe.zip", FOLDER / f"{name}.pcap"))
    (tmp_path / "x.pcapng").write_bytes(found["capture.pcapng"])
    command = ["tshark", "-n", "-r", str(tmp_path / "x.pcapng"), "-Y", "frame.comment", "-T", "fields",
               "-e", "frame.number", "-e", "frame.comment"]  # fmt: skip
    environment = {**os.environ, "HOME": str(tmp_path)}
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60, env=environment)
    assert [line for line in done.stderr.splitlines() if line and not line.startswith("Running as user")] == []
    comments = {int(line.split("\t")[0]): line.split("\t")[1] for line in done.stdout.splitlines()}
    lines = [json.loads(line) for line in found["events.ndjson"].splitlines()]
    findings = [line for line in lines if line["type"] == "finding"]
    assert findings
    for finding in findings:
        for proof in finding["evidence"]:
            assert f"h3probe: {finding['rule']} ({finding['severity']}): " in comments[proof["frame"]]
    assert all(comment.startswith("h3probe: ") for comment in comments.values())


def test_what_a_run_that_was_cut_off_left(tmp_path: Path) -> None:
    """Its folder has packets and no verdict; its bundle has both, and the folder stays."""
    folder = tmp_path / "x.h3probe"
    recorder = FolderRecorder(folder, Notes(), {"os": "Linux"}, full=False, force=False)
    record(recorder, [Traffic().initial()])
    recorder.flush()
    events = folder / "events.ndjson"
    events.write_text(events.read_text().splitlines()[0] + "\n")
    found = bundle_folder(folder, tmp_path / "x.h3probe.zip", force=False, progress=Progress(None))
    assert found.in_words == "1 packet, 1 verdict, 0 findings"
    lines = [json.loads(line)["type"] for line in members(tmp_path / "x.h3probe.zip")["events.ndjson"].splitlines()]
    assert lines[-1] == "summary"
    assert (folder / "capture.pcapng").exists()
    recorder.close(0)


def test_what_is_refused(tmp_path: Path) -> None:
    """A bundle that is there, something that is no capture, a folder of something else; nothing is left behind."""
    target = tmp_path / "x.h3probe.zip"
    target.write_text("mine")
    with pytest.raises(UserError, match="--force"):
        bundled(target, CAPTURE)
    assert target.read_text() == "mine"
    target.unlink()
    (tmp_path / "letter.txt").write_text("Dear reader")
    with pytest.raises(CaptureError, match="letter"):
        bundled(target, tmp_path / "letter.txt")
    (tmp_path / "letter.txt").write_text('{"type":"proxy_died","time_ns":1,"exit_status":1}')
    with pytest.raises(UserError, match="no packets"):
        bundled(target, tmp_path / "letter.txt")
    with pytest.raises(CaptureError, match="no folder of h3probe's"):
        bundle_folder(tmp_path, target, force=False, progress=Progress(None))
    with pytest.raises(UserError, match="cannot be written"):
        bundled(tmp_path / "no" / "x.h3probe.zip", CAPTURE)
    assert [path.name for path in tmp_path.iterdir()] == ["letter.txt"]


def test_a_report_is_made_of_no_more_than_can_be_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Beyond the limit records are in the bundle, and not in memory."""
    monkeypatch.setattr(explaining, "MOST_RECORDS", 1)
    monkeypatch.setattr(explaining, "MOST_CONCLUSIONS", 2)
    monkeypatch.setattr(explaining, "MOST_MOMENTS", 3)
    target = tmp_path / "x.h3probe.zip"
    found = bundle_captures(Asked((str(CAPTURE),)), target, full=False, force=False, progress=Progress(None))
    assert [record.type for record in found.told.all_records[:1]] == ["capture"]
    assert isinstance(found.told.all_records[-1], SummaryRecord)
    assert (len(found.told.all_records), len(found.told.all_moments)) == (4, 3)
    assert len(re.findall(rb'"type":"finding"', members(target)["events.ndjson"])) == 5
    assert b"more happened than a page can show" in members(target)["report.html"]


def test_a_connection_that_had_begun_before(tmp_path: Path) -> None:
    """What is cut off its packets leaves a connection that is told of as before: by what they held on the wire."""
    capture = tmp_path / "late.pcapng"
    late = Traffic(server=Endpoint(bytes([127, 0, 0, 1]), 443))
    with capture.open("wb") as stream:
        writer = PcapngWriter(stream, application="test")
        for frame in [late.tcp(b"\x17\x03\x03\x00\x50" + bytes(80), back=True) for _ in range(3)]:
            writer.packet(frame)
    path = bundled(tmp_path / "x.h3probe.zip", capture)
    expected = answer(explained(Asked((str(capture),))).all_records)
    assert "incomplete-capture" in {record.get("rule") for record in expected}
    assert answer(explained(Asked((str(path),))).all_records) == expected
