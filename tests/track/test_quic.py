from __future__ import annotations

from h3probe.track.mark import Mark
from h3probe.track.quic import ANSWER_NS, HISTORY_LIMIT, IDLE_NS, LINGER_NS, PATIENCE_NS, REPEATED_NS, QuicConnection
from h3probe.wire.quic.frames import ConnectionClose
from h3probe.wire.quic.versions import V1
from tests.track.builders import CLIENT, MS, SERVER, START, icmp_error

NO_ERROR = ConnectionClose(code=0, frame_type=0, reason="", application=False)


def at(ms: float) -> Mark:
    """A mark `ms` milliseconds after the start."""
    return Mark(round(ms) + 1, START + round(ms * MS))


def connection(**known: object) -> QuicConnection:
    """A connection whose first packet was seen at 0, and of which more may be known."""
    return QuicConnection("quic-1", CLIENT, SERVER, V1, first=at(0), **{"last": at(0), **known})  # type: ignore[arg-type]


def test_one_packet_and_silence_says_nothing() -> None:
    """A single Initial may be a client that is gone, or a capture that ends: no outcome, however long nothing comes."""
    assert connection(hello_datagrams=[at(0)]).outcome(START + 100 * IDLE_NS) is None


def test_unanswered_needs_a_repetition() -> None:
    """A ClientHello sent again after longer than a slow path takes, and still no answer, is `unanswered`."""
    late = at(REPEATED_NS / MS)
    c = connection(hello_datagrams=[at(0), late], last=late)
    assert c.outcome(late.time_ns) == "unanswered"


def test_parts_of_one_hello_are_no_repetition() -> None:
    """Several Initials that leave together, or again within the time of a slow answer, do not make it `unanswered`."""
    c = connection(hello_datagrams=[at(0), at(1), at(300)], last=at(300))
    assert c.outcome(START + IDLE_NS) is None


def test_giving_up_without_answer_is_unanswered() -> None:
    """A client that closes its own attempt has waited, if not for an instant only: `unanswered`, not `closed`."""
    c = connection(client_close=(at(1), NO_ERROR))
    assert c.outcome(START + ANSWER_NS - 1) is None
    assert c.outcome(START + ANSWER_NS) == "unanswered"


def test_closing_does_not_undo_a_refusal() -> None:
    """A client's close that ends its refused attempt leaves the outcome `refused`."""
    c = connection(refusals=[(at(1), icmp_error(b"", at(1)))], client_close=(at(2750), NO_ERROR))
    assert c.outcome(c.last.time_ns) == "refused"


def test_close_after_an_answer_is_closed() -> None:
    """Either side's CONNECTION_CLOSE after a packet of the server ends the attempt as `closed`."""
    assert connection(first_answer=at(1), client_close=(at(2), NO_ERROR)).outcome(START) == "closed"
    assert connection(first_answer=at(1), server_close=(at(1), NO_ERROR)).outcome(START) == "closed"


def test_an_answer_that_only_the_client_saw() -> None:
    """A client that acknowledges something, or has Handshake keys, was answered, whatever the capture missed."""
    assert connection(answer_acked=True, client_close=(at(2), NO_ERROR)).outcome(START) == "closed"
    assert connection(client_handshake=at(2)).answered


def test_stalled_counts_from_the_answer_to_the_last_packet() -> None:
    """A handshake that both keep trying for a second after the first answer has `stalled`; mere silence has not."""
    late = at(5 + PATIENCE_NS / MS)
    assert connection(first_answer=at(5), last=late).outcome(late.time_ns) == "stalled"
    assert connection(first_answer=at(5), last=at(6)).outcome(START + IDLE_NS) is None


def test_established_is_not_undone() -> None:
    """Once 1-RTT packets followed a handshake, closes and ICMP errors no longer change the outcome."""
    c = connection(
        first_answer=at(1),
        client_handshake=at(2),
        client_short=at(3),
        server_close=(at(4), NO_ERROR),
        refusals=[(at(5), icmp_error(b"", at(5)))],
    )
    assert c.outcome(START + IDLE_NS) == "established"
    assert c.ready == at(2)
    assert c.attempt_over_ns(START + IDLE_NS) == at(2).time_ns


def test_ready_is_not_known_without_the_clients_handshake_packet() -> None:
    """Where only the server's side of the handshake was seen, the connection is established and `ready` is null."""
    c = connection(first_answer=at(1), server_handshake=at(2), client_short=at(3))
    assert (c.outcome(START), c.ready) == ("established", None)


def test_one_rtt_packets_alone_establish_nothing() -> None:
    """1-RTT packets without a handshake are a connection that began before the capture."""
    assert connection(mid_stream=True, client_short=at(3), server_short=at(4)).outcome(START) == "mid-stream"


def test_version_negotiation_before_a_close() -> None:
    """A client that closes because of Version Negotiation ended by `version-negotiation`."""
    c = connection(first_answer=at(1), version_negotiation=(at(1), (0x1A2A3A4A,)), client_close=(at(2), NO_ERROR))
    assert c.outcome(START) == "version-negotiation"


def test_undecodable_versions_have_no_outcome() -> None:
    """Nothing is claimed of gQUIC and of unknown versions, but that the server negotiates."""
    unknown = connection()
    unknown.version = 0x51303530
    assert unknown.outcome(START + IDLE_NS) is None
    unknown.version_negotiation = (at(1), (V1,))
    assert unknown.outcome(START) == "version-negotiation"
    assert connection(gquic="Q043").version_name == "Q043"


def test_the_first_close_is_reported() -> None:
    """`close` is the one that left first, with its side; the end is that, or the client's socket being gone."""
    c = connection(client_close=(at(9), NO_ERROR), server_close=(at(8), NO_ERROR), client_gone=at(7))
    assert c.close == (at(8), NO_ERROR, "server")
    assert c.ended == at(7)
    assert connection().close is None


def test_idle() -> None:
    """A connection outlives the longest idle timeout of a client; a closed one only waits for late packets."""
    assert not connection().is_idle(START + IDLE_NS - 1)
    assert connection().is_idle(START + IDLE_NS)
    assert connection(client_close=(at(0), NO_ERROR)).is_idle(START + LINGER_NS)


def test_an_attempt_ends_when_its_outcome_is_known() -> None:
    """A failed attempt is over with its close, or with its last packet; one that may still succeed is not over."""
    assert connection().attempt_over_ns(START + IDLE_NS) is None
    assert connection(client_close=(at(9), NO_ERROR)).attempt_over_ns(START + IDLE_NS) == at(9).time_ns
    waited = connection(hello_datagrams=[at(0), at(3000)], last=at(3000))
    assert waited.attempt_over_ns(START + IDLE_NS) == at(3000).time_ns


def test_history_is_bounded() -> None:
    """A long connection's history stops where Zeek's does."""
    c = connection()
    for _ in range(10_000):
        c.note("O")
    assert len(c.history) == HISTORY_LIMIT
