from __future__ import annotations

import pytest

from h3probe.track.mark import Mark
from h3probe.track.quic import IDLE_NS, LINGER_NS, PATIENCE_NS
from h3probe.track.tcp import TCP_IDLE_NS, Stream, TcpConnection
from tests.track.builders import CLIENT, MS, SERVER, START, icmp_error


def at(ms: float) -> Mark:
    """A mark `ms` milliseconds after the start."""
    return Mark(round(ms) + 1, START + round(ms * MS))


def connection(**known: object) -> TcpConnection:
    """A connection whose first packet was seen at 0, and of which more may be known."""
    return TcpConnection("tcp-1", CLIENT, SERVER, first=at(0), **{"last": at(0), **known})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("base", "seq", "offset"),
    [(0, 0, 0), (100, 99, -1), (0xFFFF_FFF0, 0x10, 0x20), (0x10, 0xFFFF_FFF0, -0x20), (0, 0x7FFF_FFFF, 0x7FFF_FFFF)],
)
def test_offsets_survive_the_wrap_of_sequence_numbers(base: int, seq: int, offset: int) -> None:
    """A sequence number is taken as the nearest to the stream's start, across the wrap at 2^32 (RFC 9293, 3.4)."""
    assert Stream(base=base).offset(seq) == offset


def test_one_syn_and_silence_says_nothing() -> None:
    """A SYN that is not sent again may be a client that is gone, or a capture that ends: no outcome."""
    assert connection(syn=at(0), syns=1).outcome(START + TCP_IDLE_NS) is None


def test_a_repeated_syn_is_unanswered() -> None:
    """A client that sent its SYN again and still waits after a second is `unanswered`."""
    c = connection(syn=at(0), syns=2)
    assert c.outcome(START + PATIENCE_NS - 1) is None
    assert c.outcome(START + PATIENCE_NS) == "unanswered"


def test_refused() -> None:
    """A RST of the server or an ICMP error in answer to the SYN is `refused`; a RST of the client is not."""
    assert connection(syn=at(0), reset=(at(1), "server")).outcome(START) == "refused"
    assert connection(syn=at(0), refusals=[(at(1), icmp_error(b"", at(1)))]).outcome(START) == "refused"
    assert connection(syn=at(0), reset=(at(1), "client")).outcome(START) is None


def test_a_syn_ack_undoes_a_refusal() -> None:
    """A SYN that was answered after an ICMP error, which may be forged or about a passing fault, is not refused."""
    c = connection(syn=at(0), refusals=[(at(1), icmp_error(b"", at(1)))], synack=at(2), connected=at(3), plain=True)
    assert c.outcome(START) == "established"


def test_a_reset_before_anything_was_said() -> None:
    """A RST after the handshake and before a byte of the client is `reset`, whoever sent it."""
    for side in ("client", "server"):
        assert connection(syn=at(0), synack=at(1), connected=at(2), reset=(at(3), side)).outcome(START) == "reset"


def test_mid_stream() -> None:
    """A connection whose SYN was missed and which shows no handshake is `mid-stream`."""
    assert connection(mid_stream=True, plain=True).outcome(START) == "mid-stream"


def test_plain_connections_are_ready_when_connected() -> None:
    """Without TLS the first request can leave with the ACK of the SYN-ACK."""
    c = connection(syn=at(0), synack=at(1), connected=at(2), plain=True)
    assert (c.ready, c.attempt_over_ns(START)) == (at(2), at(2).time_ns)


def test_the_first_end_counts() -> None:
    """`ended` is the first of FIN and RST, with the side that sent it."""
    assert connection(fin=(at(5), "server"), reset=(at(4), "client")).ended == (at(4), "client")
    assert connection(fin=(at(3), "server"), reset=(at(4), "client")).ended == (at(3), "server")
    assert connection().ended is None


def test_an_attempt_ends_when_its_outcome_is_known() -> None:
    """A failed attempt is over with its end, or its last packet; one that may still succeed is not over."""
    assert connection(syn=at(0), syns=1).attempt_over_ns(START + IDLE_NS) is None
    assert connection(syn=at(0), reset=(at(4), "server")).attempt_over_ns(START) == at(4).time_ns
    assert connection(syn=at(0), syns=3, last=at(3000)).attempt_over_ns(START + IDLE_NS) == at(3000).time_ns


def test_idle() -> None:
    """Keep-alive connections may be quiet for minutes, attempts for one; ended ones only wait for late packets."""
    assert not connection(connected=at(0)).is_idle(START + TCP_IDLE_NS - 1)
    assert connection(connected=at(0)).is_idle(START + TCP_IDLE_NS)
    assert connection(syn=at(0)).is_idle(START + IDLE_NS)
    assert connection(connected=at(0), fin=(at(0), "client")).is_idle(START + LINGER_NS)
