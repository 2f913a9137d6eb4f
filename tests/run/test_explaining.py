"""Captures explained from beginning to end."""

from __future__ import annotations

from pathlib import Path

import pytest

from h3probe.errors import CaptureError
from h3probe.records import FindingRecord, SummaryRecord
from h3probe.run.explaining import Asked, Explained, explain, explained, frames
from tests.run.mixes import pcap

CAPTURE = str(Path(__file__).parents[2] / "captures/jdk26-udp-dropped-uri-only.pcap")


def test_gives_all_that_explain_prints() -> None:
    """The records end with the summary, findings are among them, and moments are there."""
    found = explained(Asked((CAPTURE,)))
    assert isinstance(found.all_records[-1], SummaryRecord)
    assert any(isinstance(record, FindingRecord) for record in found.all_records)
    assert found.all_moments


def test_frames_of_the_evidence_are_found_again() -> None:
    """The numbers that a finding names are those of the frames that a second look gives, and no others."""
    asked = Asked((CAPTURE,))
    finding = next(record for record in explained(asked).all_records if isinstance(record, FindingRecord))
    numbers = {evidence.frame for evidence in finding.evidence if evidence.frame is not None}
    assert set(frames(asked, numbers)) == numbers


def test_two_files_are_one_story(tmp_path: Path) -> None:
    """The same capture twice is one capture with each packet twice."""
    copy = tmp_path / "copy.pcap"
    copy.write_bytes(Path(CAPTURE).read_bytes())
    once, twice = (explained(Asked(files)).all_records[-1] for files in ((CAPTURE,), (CAPTURE, str(copy))))
    assert isinstance(once, SummaryRecord)
    assert isinstance(twice, SummaryRecord)
    assert twice.packets == 2 * once.packets


def test_what_is_no_capture_is_said(tmp_path: Path) -> None:
    """A file of something else is one error that names it."""
    path = tmp_path / "letter.txt"
    path.write_text("Dear reader, this is no capture.")
    with pytest.raises(CaptureError, match=r"letter\.txt"):
        explained(Asked((str(path),)))


class Told:
    """Notes how far reading is said to be."""

    def __init__(self) -> None:
        self.sizes: list[int] = []
        self.ended = 0

    def advance(self, size: int) -> None:
        """So many bytes more."""
        assert not self.ended
        self.sizes.append(size)

    def end(self) -> None:
        """All was read."""
        self.ended += 1


def test_it_is_told_how_far_reading_is(tmp_path: Path) -> None:
    """In steps that come to the size of the file but for its end, and the end is told before the verdicts are."""
    path = tmp_path / "many.pcap"
    path.write_bytes(pcap([(number, bytes(200), 200) for number in range(1, 1001)]))
    told, found = Told(), Explained()
    explain(Asked((str(path),)), found, reading=told)
    assert told.ended == 1
    assert len(told.sizes) == 4
    assert path.stat().st_size * 0.7 < sum(told.sizes) <= path.stat().st_size
    assert isinstance(found.all_records[-1], SummaryRecord)
