"""Connections as lanes."""

from __future__ import annotations

from h3probe.records import Close, RaceRecord
from h3probe.show.report.lanes import MARKERS

from .samples import TIME, moment, origin_of, quic, tcp, verdict


def test_the_timer_of_a_known_client_has_its_name() -> None:
    """With the close that says so; without a close of the client's, or with another client, there is no name."""
    assert origin_of(quic(), verdict()).lanes[0].note == "JDK 26 HttpClient: 30 s until it gives up QUIC"
    assert origin_of(quic(close=None), verdict()).lanes[0].note is None
    assert origin_of(quic(client_guess=None), verdict()).lanes[0].note is None
    wordless = Close(12, "APPLICATION_ERROR", "", "client")
    assert origin_of(quic(ended_at=12.0, close=wordless), verdict()).lanes[0].note is None


def test_what_carried_the_first_request_is_said_where_it_is_known() -> None:
    """On the connection that a race record names, and with where that is known from."""
    race = RaceRecord("race-1", 0.0, TIME, "example.org:443", "10.0.0.1", "quic-1", "tcp-1", 0.02, None, 0.1, "tcp",
                      None, "tcp", "inferred")  # fmt: skip
    lanes = origin_of(quic(client_guess=None), tcp(), race, verdict()).lanes
    assert [lane.note for lane in lanes] == [None, "carried the first request (inferred)"]


def test_markers_have_a_shape_each() -> None:
    """Begun, sent again, refused by ICMP, failed; ready, closed."""
    happened = (
        moment("quic-1", 0.0, "Initial", weight="start"),
        moment("quic-1", 1.0, "Initial again"),
        moment("quic-1", 1.1, "ICMP port unreachable", transport="icmp", weight="bad", outgoing=False),
        moment("quic-1", 30.0, "CONNECTION_CLOSE", weight="bad"),
        moment("tcp-1", 0.1, "TCP ready", weight="good"),
        moment("tcp-1", 5.0, "closed by the client, FIN"),
    )
    lanes = origin_of(quic(), tcp(ended_at=5.0), verdict(), moments=happened).lanes
    assert [m.kind for m in lanes[0].markers] == ["start", "again", "icmp", "bad"]
    assert [m.kind for m in lanes[1].markers] == ["ready", "end"]


def test_much_that_happened_is_cut_and_counted() -> None:
    """The first things and the last one are kept."""
    happened = tuple(moment("tcp-1", n / 100, str(n)) for n in range(50))
    (lane,) = origin_of(tcp(), verdict(), moments=happened).lanes
    assert [marker.text for marker in lane.markers] == [*map(str, range(MARKERS - 1)), "49"]
    assert lane.markers_hidden == 50 - MARKERS
