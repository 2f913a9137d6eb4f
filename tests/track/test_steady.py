from __future__ import annotations

from h3probe.track.steady import steady
from h3probe.track.tracker import Tracker
from h3probe.wire.columns import TCP_DATA, TCP_EMPTY, UDP_OTHER
from tests.wire.packets import ethernet, frame, ipv4, tcp, udp


def test_a_handshake_is_not_steady() -> None:
    """From the SYN on each packet may mean something, until the bytes are read no more."""
    tracker = Tracker()
    tracker.feed(frame(ethernet(ipv4(tcp(b"", flags=2), 6))))
    assert steady(tracker) is None


def test_what_is_not_http_becomes_steady() -> None:
    """A connection under way whose bytes are nothing known: sums are all that is kept of what follows."""
    tracker = Tracker()
    tracker.feed(frame(ethernet(ipv4(tcp(b"\0" * 20), 6))))
    found = steady(tracker)
    assert found is not None
    state, from_client = found
    assert from_client
    assert state.client == TCP_EMPTY | TCP_DATA
    assert state.server == TCP_EMPTY  # where its bytes begin only its first payload tells


def test_of_other_traffic_nothing_is_kept() -> None:
    """UDP that is no QUIC, and the rest of connections that are gone."""
    tracker = Tracker()
    tracker.feed(frame(ethernet(ipv4(udp(b"\0" * 20, 5000, 6000)))))
    found = steady(tracker)
    assert found is not None
    assert found[0].connection is None
    assert found[0].client == UDP_OTHER
