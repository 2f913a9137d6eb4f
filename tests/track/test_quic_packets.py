from __future__ import annotations

from itertools import permutations

import pytest

from h3probe.wire.packet import UdpDatagram
from h3probe.wire.quic.versions import V1, V2
from tests.track.builders import (
    CLIENT,
    CLIENT_ID,
    DCID,
    GIVEN_UP,
    HELLO,
    LONG_HELLO,
    SECOND_DCID,
    SECOND_ID,
    SERVER,
    SERVER_ID,
    START,
    THIRDS,
    UNKNOWN,
    QuicWatch,
    ack,
    answer,
    client_handshake,
    initial,
    retry,
    server_handshake,
    server_hello,
    short,
    zero_rtt,
)
from tests.wire.quic_builder import VERSIONS, close, crypto, long_header, version_negotiation


def test_a_whole_handshake() -> None:
    """From Initial to 1-RTT: roles, IDs, hello, history, and `ready` at the client's last Handshake packet."""
    watch = QuicWatch()
    watch.handshake()
    c = watch.only
    assert (c.client, c.server, c.version_name) == (CLIENT, SERVER, "v1")
    assert (c.dcid, c.client_scid, c.server_scid) == (DCID, CLIENT_ID, SERVER_ID)
    assert c.hello is not None
    assert (c.hello.sni, c.hello.alpn, c.initials_sent) == ("example.com", ("h3",), 1)
    assert (c.ja4 or "").startswith("q13d")
    assert (watch.history, watch.outcome()) == ("ISishIHO", "established")
    assert c.ready == (4, START + 25_000_000)
    assert watch.said()[-1] == "QUIC ready after 25 ms"


@pytest.mark.parametrize("version", VERSIONS)
def test_versions(version: int) -> None:
    """The Initials of v1, v2 and draft-29 open with their own salts and labels, in both directions."""
    watch = QuicWatch()
    watch.client(initial(HELLO, version=version))
    watch.server(answer(server_hello(), version=version), server_handshake(version=version))
    watch.client(client_handshake(version=version), short(SERVER_ID))
    assert (watch.history, watch.outcome()) == ("ISishHO", "established")


@pytest.mark.parametrize("order", list(permutations(range(len(THIRDS)))))
def test_hello_in_several_initials_in_any_order(order: tuple[int, ...]) -> None:
    """A ClientHello over three Initials is put together whatever the order, and each datagram counts."""
    watch = QuicWatch()
    for index in order:
        offset, part = THIRDS[index]
        assert all(c.hello is None for c in watch.opened)
        watch.client(initial(part, offset=offset, number=index))
    assert watch.only.hello is not None
    assert watch.only.initials_sent == len(THIRDS)
    assert watch.history == "III" + "S"


def test_shuffled_and_overlapping_crypto_frames() -> None:
    """CRYPTO frames in any order with overlaps, as Chrome sends them, give one ClientHello in one datagram."""
    frames = b"".join(crypto(start, HELLO[start : start + 60]) for start in reversed(range(0, len(HELLO), 25)))
    watch = QuicWatch()
    watch.client(initial(frames=b"\x01" + frames))
    assert watch.only.hello is not None
    assert watch.only.initials_sent == 1


def test_initials_coalesced_in_one_datagram_count_once() -> None:
    """`initials_sent` counts datagrams: two Initials in one are one."""
    watch = QuicWatch()
    watch.client(initial(HELLO[:50], number=0, size=0), initial(HELLO[50:], offset=50, number=1, size=900), zero_rtt())
    assert (watch.only.initials_sent, watch.history) == (1, "IISZ")


def test_only_parts_of_the_hello_count() -> None:
    """An Initial that only acknowledges, pings or closes is not in `initials_sent`."""
    watch = QuicWatch()
    watch.client(initial(HELLO))
    watch.client(initial(frames=b"\x01", number=1))
    watch.client(initial(frames=ack(0), number=2))
    watch.client(initial(frames=GIVEN_UP, number=3))
    assert watch.only.initials_sent == 1


def test_a_duplicate_counts_once() -> None:
    """One packet that the capture shows twice is one letter and one Initial; the same hello sent again is two."""
    watch = QuicWatch()
    watch.client(initial(HELLO))
    watch.client(initial(HELLO))
    assert (watch.history, watch.only.initials_sent) == ("IS", 1)
    watch.client(initial(HELLO, number=1), at=1000)
    assert (watch.history, watch.only.initials_sent) == ("ISI", 2)


def test_packet_numbers_that_do_not_begin_at_zero() -> None:
    """Packet numbers sent short are completed against the largest one opened before."""
    watch = QuicWatch()
    for number in (250, 254, 258, 300):
        watch.client(initial(HELLO, number=number))
    assert (watch.only.initials_sent, watch.only.unopened) == (4, 0)


def test_retry() -> None:
    """A valid Retry renews the keys and the server's ID; both Initials belong to one attempt."""
    watch = QuicWatch()
    watch.client(initial(HELLO))
    watch.server(retry())
    watch.client(initial(HELLO, number=1, dcid=b"retry-id", token=b"token"))
    watch.server(answer(server_hello(), key_dcid=b"retry-id"), server_handshake())
    watch.client(client_handshake(), short(SERVER_ID))
    assert (watch.history, watch.outcome()) == ("ISrIishHO", "established")
    assert (watch.only.dcid, watch.only.initials_sent, watch.only.unopened) == (DCID, 2, 0)


def test_initial_from_before_the_retry_still_opens() -> None:
    """An Initial under the first keys that arrives after the Retry is opened with them."""
    watch = QuicWatch()
    watch.client(initial(LONG_HELLO[:900]))
    watch.server(retry())
    watch.client(initial(LONG_HELLO[900:1800], offset=900, number=1))
    assert (watch.only.unopened, watch.only.initials_sent) == (0, 2)


def test_second_retry_is_ignored() -> None:
    """A client accepts one Retry (RFC 9000, 17.2.5.2), and so the keys stay those of the first."""
    watch = QuicWatch()
    watch.client(initial(HELLO))
    watch.server(retry())
    watch.server(retry(scid=b"another"))
    assert watch.only.key_dcid == b"retry-id"
    assert watch.history == "ISr"


@pytest.mark.parametrize(
    "packet",
    [retry(forged=True), retry(original=SECOND_DCID), retry(dcid=b"other"), retry(token=b"")],
    ids=["wrong tag", "of another Initial", "for another client", "without token"],
)
def test_forged_retry_is_ignored(packet: bytes) -> None:
    """A Retry that a client must discard is no answer and changes no keys (RFC 9000, 17.2.5.2)."""
    watch = QuicWatch()
    watch.client(initial(HELLO))
    watch.server(packet)
    assert (watch.history, watch.only.key_dcid, watch.only.answered) == ("IS", DCID, False)


def test_retry_after_an_initial_is_ignored() -> None:
    """A Retry after the server's Initial must be discarded, or it would take the keys of what follows away."""
    watch = QuicWatch()
    watch.client(initial(HELLO))
    watch.server(answer())
    watch.server(retry())
    watch.server(answer(server_hello(), number=1))
    assert (watch.history, watch.only.unopened) == ("ISiis", 0)


def test_retry_from_the_client_is_ignored() -> None:
    """Only servers send Retry."""
    watch = QuicWatch()
    watch.client(initial(HELLO))
    watch.client(retry(dcid=SERVER_ID, scid=CLIENT_ID))
    assert (watch.history, watch.only.key_dcid) == ("IS", DCID)


@pytest.mark.parametrize("version", [V1, UNKNOWN])
def test_version_negotiation(version: int) -> None:
    """A Version Negotiation that answers the Initial is the outcome, with the server's list."""
    watch = QuicWatch()
    if version == V1:
        watch.client(initial(HELLO))
    else:
        watch.client(long_header("initial", version=version, dcid=DCID, scid=CLIENT_ID).ljust(1200, b"\x01"))
    watch.server(version_negotiation(0xFF00001D, V2, dcid=CLIENT_ID, scid=DCID))
    assert watch.only.version_negotiation is not None
    assert watch.only.version_negotiation[1] == (0xFF00001D, V2)
    assert watch.outcome() == "version-negotiation"


@pytest.mark.parametrize(
    "packet",
    [
        version_negotiation(V2, dcid=SECOND_ID, scid=DCID),
        version_negotiation(V2, dcid=CLIENT_ID, scid=SECOND_DCID),
        version_negotiation(V2, V1, dcid=CLIENT_ID, scid=DCID),
    ],
    ids=["wrong destination", "wrong source", "lists the client's version"],
)
def test_forged_version_negotiation_is_ignored(packet: bytes) -> None:
    """One that does not echo both IDs, or lists the version it answers, is no answer (RFC 9000, 6.2)."""
    watch = QuicWatch()
    watch.client(initial(HELLO))
    watch.server(packet)
    assert (watch.history, watch.only.version_negotiation, watch.only.answered) == ("IS", None, False)


def test_version_negotiation_after_an_answer_is_ignored() -> None:
    """Once a packet of the server was seen, Version Negotiation is discarded (RFC 9000, 6.2)."""
    watch = QuicWatch()
    watch.client(initial(HELLO))
    watch.server(answer(server_hello()))
    watch.server(version_negotiation(V2, dcid=CLIENT_ID, scid=DCID))
    assert watch.only.version_negotiation is None


def test_version_negotiation_from_the_client_is_ignored() -> None:
    """Only servers send Version Negotiation."""
    watch = QuicWatch()
    watch.client(initial(HELLO))
    watch.client(version_negotiation(V2, dcid=CLIENT_ID, scid=DCID))
    assert watch.only.version_negotiation is None


def test_next_version_after_version_negotiation() -> None:
    """A client that goes on in a version from the list, its IDs and packet numbers as before, is established."""
    watch = QuicWatch()
    watch.client(initial(HELLO, version=0xFF00001D))
    watch.server(version_negotiation(V1, dcid=CLIENT_ID, scid=DCID))
    watch.client(initial(HELLO, version=V1))
    watch.server(answer(server_hello()), server_handshake())
    watch.client(client_handshake(), short(SERVER_ID))
    assert watch.outcome() == "established"
    assert (watch.only.version_name, watch.only.initials_sent, watch.history) == ("v1", 2, "ISuIishHO")


def test_compatible_version_negotiation() -> None:
    """A server that answers v1 in v2 switches the connection to v2, which the client follows (RFC 9368)."""
    watch = QuicWatch()
    watch.client(initial(HELLO))
    watch.server(answer(server_hello(), version=V2), server_handshake(version=V2))
    watch.client(initial(frames=ack(0), number=1, version=V2, dcid=SERVER_ID, key_dcid=DCID))
    watch.client(client_handshake(version=V2), short(SERVER_ID))
    assert (watch.only.version_name, watch.history, watch.outcome()) == ("v2", "ISishIHO", "established")
    assert watch.only.unopened == 0


def test_a_clients_close_changes_neither_outcome_nor_count() -> None:
    """The close that ends an unanswered attempt stands in `close` with its reason; the attempt stays unanswered."""
    watch = QuicWatch()
    for number, at in enumerate((0, 1000, 3000)):
        watch.client(initial(HELLO, number=number), at=at)
    watch.client(initial(frames=GIVEN_UP, number=3), at=30_000)
    assert (watch.outcome(), watch.only.initials_sent, watch.history) == ("unanswered", 3, "ISIIIC")
    assert watch.only.close is not None
    assert watch.only.close[1].reason == "No response from peer for 30 seconds"
    assert watch.only.close[2] == "client"


def test_a_close_in_the_only_initial() -> None:
    """An attempt whose one Initial holds a close and no ClientHello has sent none, and waited (JDK 26 does this)."""
    watch = QuicWatch()
    watch.client(initial(frames=GIVEN_UP))
    assert (watch.only.initials_sent, watch.history, watch.outcome(after=1000)) == (0, "IC", "unanswered")


def test_a_close_of_an_attempt_from_before_the_capture() -> None:
    """An Initial with a close alone that is not the client's first packet ends what began before the capture."""
    watch = QuicWatch()
    watch.client(initial(frames=close(0x0C, b"No response from peer for 30 seconds"), number=5))
    assert watch.outcome(30_000) == "mid-stream"


def test_a_client_that_sends_1_rtt_packets_is_not_stalled() -> None:
    """A client's 1-RTT packet comes after its handshake, whatever the capture lacks of that."""
    watch = QuicWatch()
    watch.client(initial(HELLO))
    watch.server(answer(server_hello()))
    watch.client(short(SERVER_ID), at=2000)
    watch.client(short(SERVER_ID), at=4000)
    assert watch.outcome() != "stalled"


def test_a_servers_close() -> None:
    """A server's close in an Initial is `closed`, with code and reason as sent."""
    watch = QuicWatch()
    watch.client(initial(HELLO))
    watch.server(answer(frames=close(0x178, b"no \x1b[2Jprotocol")))
    assert watch.outcome() == "closed"
    assert watch.only.close is not None
    assert (watch.only.close[1].code, watch.only.close[2]) == (0x178, "server")
    assert watch.history == "ISic"
    assert all(text.isprintable() for text in watch.said())


def test_only_the_first_close_counts() -> None:
    """A close that is sent again changes nothing but the history."""
    watch = QuicWatch()
    watch.client(initial(HELLO))
    watch.server(answer(frames=close(1)))
    watch.server(answer(frames=close(2), number=1))
    assert watch.only.close is not None
    assert watch.only.close[1].code == 1


def test_initial_cut_by_a_snaplen() -> None:
    """A cut Initial shows its IDs and version; it is counted as cut, and what it held is not guessed."""
    watch = QuicWatch()
    packet = initial(HELLO)
    watch.tracker.feed(UdpDatagram(*watch.stamp(), CLIENT, SERVER, packet[:100], len(packet)))
    assert (watch.only.dcid, watch.only.cut, watch.only.hello) == (DCID, 1, None)
    assert (watch.history, watch.only.initials_sent, watch.only.mid_stream) == ("I", 0, False)
    assert (watch.only.first_size, watch.only.client_largest, watch.only.client_bytes) == (1200, 1200, 1200)


def test_cut_one_rtt_packets() -> None:
    """What the capture cut away was on the wire: 1-RTT bytes count in full."""
    watch = QuicWatch()
    watch.handshake()
    watch.tracker.feed(UdpDatagram(*watch.stamp(), SERVER, CLIENT, short(CLIENT_ID, 86), 1252))
    assert (watch.only.server_short_bytes, watch.only.server_largest) == (1252, 1252)


def test_hello_retry_request_is_no_server_hello() -> None:
    """A HelloRetryRequest gives no `s`; the ServerHello after it gives one, however many Initials follow."""
    watch = QuicWatch()
    watch.client(initial(HELLO))
    watch.server(answer(server_hello(retry=True)))
    watch.server(answer(frames=ack(0), number=1))
    assert (watch.only.server_hello, watch.history) == (None, "ISii")
    hello = server_hello()
    watch.server(answer(frames=crypto(len(server_hello(retry=True)), hello), number=2))
    watch.server(answer(frames=b"\x01", number=3))
    assert watch.only.server_hello is not None
    assert watch.history == "ISiiisi"


def test_a_hello_that_is_none() -> None:
    """CRYPTO frames that hold no ClientHello give an Initial and no hello."""
    watch = QuicWatch()
    watch.client(initial(b"\x01\x00\x00\x04oops"))
    assert (watch.only.hello, watch.history) == (None, "I")


def test_frames_that_end_early_are_counted() -> None:
    """An Initial that opens and whose frames are broken is counted as unreadable."""
    watch = QuicWatch()
    watch.client(initial(frames=b"\x06\x00\x7f\xff", size=0))
    assert (watch.only.unopened, watch.only.initials_sent, watch.history) == (1, 0, "I")
