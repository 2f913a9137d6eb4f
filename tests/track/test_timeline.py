from __future__ import annotations

from h3probe.events import Process
from h3probe.records import ProcessInfo
from h3probe.track.clock import Clock
from h3probe.track.mark import Mark
from h3probe.track.quic import QuicConnection
from h3probe.track.timeline import Timeline, process_info
from tests.track.builders import CLIENT, MS, SERVER, START


def test_a_line_has_time_ends_and_process() -> None:
    """A moment says when, in seconds since the first packet, and whose connection between whom it is about."""
    clock = Clock()
    clock.see(START)
    timeline = Timeline(clock)
    mark = Mark(7, START + 93 * MS)
    subject = QuicConnection("quic-1", CLIENT, SERVER, 1, first=mark, last=mark, process=Process(42, "java"))
    timeline.say(subject, mark, "QUIC ready", transport="quic", outgoing=True, weight="good")
    (moment,) = timeline.take()
    assert (moment.at, moment.time_ns, moment.frame, moment.connection) == (0.093, mark.time_ns, 7, "quic-1")
    assert (moment.client, moment.server) == ("192.0.2.1:50000", "198.51.100.2:443")
    assert (moment.process, moment.outgoing, moment.weight) == (ProcessInfo(42, "java"), True, "good")


def test_lines_are_taken_once() -> None:
    """What was taken does not come again."""
    timeline = Timeline(Clock())
    mark = Mark(1, START)
    subject = QuicConnection("quic-1", CLIENT, SERVER, 1, first=mark, last=mark)
    timeline.say(subject, mark, "one", transport="quic", outgoing=None)
    assert [moment.text for moment in timeline.take()] == ["one"]
    assert timeline.take() == []


def test_a_process_that_is_not_known_is_null() -> None:
    """No process is None, never an empty one."""
    assert process_info(None) is None
