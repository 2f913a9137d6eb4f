from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from h3probe.records import Evidence, FindingRecord, Moment, ProcessInfo, QuicRecord, RaceRecord, VerdictRecord
from h3probe.show import annotate
from h3probe.show.annotate import Annotation, Annotator

if TYPE_CHECKING:
    import pytest

MOMENT = Moment(
    time_ns=1, at=0.0, frame=1, connection="quic-1", transport="quic", process=None, client="127.0.0.1:5",
    server="127.0.0.1:443", outgoing=True, text="Initial v1", weight="start",
)  # fmt: skip
QUIC = QuicRecord(
    id="quic-1", at=0.0, time=None, client="127.0.0.1:5", server="127.0.0.1:443", version="v1", dcid="00",
    client_scid=None, server_scid=None, sni=None, alpn=["h3"], ja4=None, history="I", outcome="unanswered", close=None,
    initials_sent=1, first_packet=1, ready_at=None, ended_at=None, process=None, client_guess=None,
)  # fmt: skip
RACE = RaceRecord(
    id="race-1", at=0.0, time=None, origin=None, client="127.0.0.1", quic="quic-1", tcp="tcp-1", head_start=0.02,
    quic_ready_at=0.1, tcp_ready_at=0.193, first_ready="quic", ready_margin=0.093, carried=None,
    carried_known_from=None,
)  # fmt: skip


def finding(*evidence: Evidence) -> FindingRecord:
    """A finding with evidence."""
    return FindingRecord(
        id="finding-1", at=0.0, time=None, rule="quic-unanswered", severity="problem", origin=None, summary="",
        evidence=list(evidence), advice="", cost=None, connections=[],
    )  # fmt: skip


def lines(subject: Annotator, frame: int) -> list[str]:
    """What stands beside a packet."""
    found = subject.annotation(frame)
    return [] if found is None else found.text.split("\n")


def test_a_packet_has_what_it_showed_and_what_it_proves() -> None:
    """What happened first, then the findings that rest on it; a packet of which nothing is said has nothing."""
    subject = Annotator()
    subject.moments([MOMENT])
    subject.records([finding(Evidence(1, 0.0, "Initial"), Evidence(7, 0.1, "again"), Evidence(None, 0.2, "a log"))])
    assert lines(subject, 1) == ["h3probe: Initial v1", "h3probe: quic-unanswered (problem): Initial"]
    assert lines(subject, 7) == ["h3probe: quic-unanswered (problem): again"]
    assert subject.annotation(2) is None


def test_the_process_is_named_and_numbered() -> None:
    """It may become known after the packet; what came back was not sent by it."""
    subject = Annotator()
    subject.moments([MOMENT, replace(MOMENT, frame=2, outgoing=False, text="answered")])
    subject.records([replace(QUIC, process=ProcessInfo(4711, "java"))])
    assert subject.annotation(1) == Annotation("h3probe: Initial v1, java[4711]", 4711)
    assert subject.annotation(2) == Annotation("h3probe: answered, java[4711]", None)


def test_who_was_ready_second_is_told_by_how_much() -> None:
    """On the packet with which it was."""
    subject = Annotator()
    ready = [("quic-1", 5, "QUIC ready after 80 ms"), ("tcp-1", 9, "TCP ready after 173 ms")]
    subject.moments([replace(MOMENT, connection=c, frame=f, text=text, weight="good") for c, f, text in ready])
    subject.records([RACE])
    assert lines(subject, 5) == ["h3probe: QUIC ready after 80 ms"]
    assert lines(subject, 9) == ["h3probe: TCP ready after 173 ms", "h3probe: TCP ready, 93 ms after QUIC"]


def test_a_second_attempt_from_one_port() -> None:
    """It looks like a retransmission, and has another connection ID; from another port it needs no word."""
    subject = Annotator()
    subject.moments([MOMENT, replace(MOMENT, connection="quic-2", frame=8), replace(MOMENT, frame=9)])
    second = replace(QUIC, id="quic-2", first_packet=8)
    subject.records([second, QUIC, replace(QUIC, id="quic-3", first_packet=9, client="127.0.0.1:6")])
    assert lines(subject, 8)[1:] == ["h3probe: attempt 2 over QUIC from the same port, new DCID (before it: quic-1)"]
    assert lines(subject, 9) == ["h3probe: Initial v1"]


def test_the_verdicts_are_the_whole_files() -> None:
    """A line each."""
    subject = Annotator()
    assert subject.whole is None
    verdict = VerdictRecord("verdict-1", 0.0, None, "example.org:443", "java[1]", None, "HTTP/3.", [])
    subject.records([verdict, replace(verdict, origin=None)])
    assert subject.whole == "h3probe: example.org:443, java[1]: HTTP/3.\nh3probe: any origin, java[1]: HTTP/3."


def test_what_comes_from_the_network_stays_text() -> None:
    """A line of a comment is one line, whatever a reason phrase holds."""
    subject = Annotator()
    subject.records([finding(Evidence(1, 0.0, "“\x1b[31m\nh3probe: all is well”"))])
    assert lines(subject, 1) == ["h3probe: quic-unanswered (problem): “\\x1b[31m\\x0ah3probe: all is well”"]


def test_what_proves_a_finding_is_said_beyond_the_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    """Other packets beyond it are counted."""
    monkeypatch.setattr(annotate, "LIMIT", 2)
    subject = Annotator()
    subject.moments([replace(MOMENT, frame=frame) for frame in (1, 2, 3, 2, 4)])
    subject.records([finding(Evidence(4, 0.0, "silence"))])
    assert [len(lines(subject, frame)) for frame in (1, 2, 3, 4)] == [1, 1, 0, 1]
    assert subject.left_out == 2
