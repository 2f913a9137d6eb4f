"""What a segment can be to a connection; the tests of the tracker and of payloads have more of it."""

from __future__ import annotations

import pytest

from tests.track.builders import TcpWatch, client_hello, handshake
from tests.track.test_tcp_tracker import HELLO

OTHER = handshake(client_hello(b"other.example"))


@pytest.mark.parametrize(
    ("syn", "ended", "after_ms", "connections"),
    [
        (True, False, 100, 1),  # Somebody guesses.
        (True, False, 6000, 2),
        (True, True, 100, 2),
        (False, False, 100, 2),  # A capture without SYNs.
    ],
)
def test_a_hello_from_far_away(*, syn: bool, ended: bool, after_ms: float, connections: int) -> None:
    """It begins another connection on the same ports, but beside one at work whose like has shown its SYN."""
    watch = TcpWatch()
    if syn:
        watch.connect()
    watch.client(HELLO, at=30)
    watch.finish_tls()
    if ended:
        watch.end(0)
    watch.use(client_isn=0x4000_0000, server_isn=0x5000_0000)
    watch.client(OTHER, at=40 + after_ms)
    assert len(watch.opened) == connections
    first = watch.opened[0].hello
    assert first is not None
    assert first.sni == "example.com"


@pytest.mark.parametrize(("offset", "ended"), [(0, True), (1 << 20, False)])
def test_a_reset_from_far_away_is_a_guess(offset: int, *, ended: bool) -> None:
    """Before a connection is ready, one that no host would take for one of the connection's ends nothing."""
    watch = TcpWatch()
    watch.connect()
    watch.raw(0, 4, seq=0xFFFF_FF01 + offset)
    assert (watch.only.reset is not None) is ended
