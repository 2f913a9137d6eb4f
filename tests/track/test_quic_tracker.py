from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from h3probe.events import Endpoint
from h3probe.track.quic_tracker import CONNECTIONS_PER_FLOW
from h3probe.wire.packet import UdpDatagram
from h3probe.wire.quic.versions import V1
from tests.track.builders import (
    CLIENT,
    CLIENT_ID,
    DCID,
    GIVEN_UP,
    HELLO,
    SECOND_DCID,
    SECOND_ID,
    SERVER,
    SERVER_ID,
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
from tests.wire.quic_builder import long_header, version_negotiation


@pytest.mark.parametrize("swapped", [False, True])
def test_who_sends_the_first_initial_is_the_client(*, swapped: bool) -> None:
    """Roles come from the keys that open the Initial, not from which port is lower."""
    low, high = Endpoint(CLIENT.host, 1024), Endpoint(SERVER.host, 60000)
    client, server = (low, high) if swapped else (high, low)
    watch = QuicWatch()
    watch.client(initial(HELLO), client=client, server=server)
    watch.server(answer(server_hello()), client=client, server=server)
    assert (watch.only.client, watch.only.server) == (client, server)


def test_gso_train_is_split() -> None:
    """A train of joined datagrams counts as the datagrams that were on the wire, with their own size."""
    watch = QuicWatch()
    train = b"".join(initial(part, offset=offset, number=n) for n, (offset, part) in enumerate(THIRDS))
    watch.client(train)
    assert (watch.only.initials_sent, watch.only.first_size, watch.only.client_largest) == (3, 1200, 1200)
    assert watch.only.hello is not None


def test_train_of_one_rtt_packets_is_split() -> None:
    """A server's 1-RTT train is counted in datagrams; the shorter last one belongs to it."""
    watch = QuicWatch()
    watch.handshake()
    watch.server(short(CLIENT_ID, 1252) * 3 + short(CLIENT_ID, 70))
    assert watch.history.count("o") == 4
    assert watch.only.server_largest == 1252


def test_large_datagram_is_left_whole() -> None:
    """A path MTU probe of 9,600 bytes is one datagram, since no train explains it."""
    watch = QuicWatch()
    watch.handshake()
    watch.client(short(SERVER_ID, 9600))
    assert watch.only.client_largest == 9600
    assert watch.history.endswith("HOO")


def test_lonely_retry_and_version_negotiation_open_nothing() -> None:
    """Without the Initial that they answer, both prove nothing and may be forged."""
    watch = QuicWatch()
    assert not watch.server(retry())
    assert not watch.server(version_negotiation(V1, dcid=CLIENT_ID, scid=DCID))
    assert watch.opened == []


def test_two_attempts_from_one_port() -> None:
    """A second attempt with new IDs from the same port is a connection of its own, and late packets find theirs."""
    watch = QuicWatch()
    watch.client(initial(HELLO), at=0)
    watch.client(initial(HELLO, number=1), at=1000)
    watch.client(initial(HELLO, dcid=SECOND_DCID, scid=SECOND_ID), at=30_000)
    watch.client(initial(frames=GIVEN_UP, number=2), at=30_001)
    watch.server(answer(server_hello(), dcid=SECOND_ID, key_dcid=SECOND_DCID), at=30_010)
    first, second = watch.opened
    assert (first.dcid, second.dcid) == (DCID, SECOND_DCID)
    assert (first.initials_sent, second.initials_sent) == (2, 1)
    assert (first.client_close is not None, second.client_close is not None) == (True, False)
    assert (first.answered, second.answered) == (False, True)
    assert first.outcome(watch.now) == "unanswered"


def test_attempts_without_client_ids() -> None:
    """With zero-length client IDs the destination ID alone tells a new attempt from the one before."""
    watch = QuicWatch()
    watch.client(initial(HELLO, scid=b""), at=0)
    watch.client(initial(HELLO, scid=b"", number=1), at=1000)
    watch.client(initial(HELLO, scid=b"", dcid=SECOND_DCID), at=3000)
    assert [c.initials_sent for c in watch.opened] == [2, 1]


def test_handshake_without_client_ids() -> None:
    """A client with zero-length IDs, as Chrome, is followed to the end."""
    watch = QuicWatch()
    watch.client(initial(HELLO, scid=b""))
    watch.server(answer(server_hello(), dcid=b""), server_handshake(dcid=b""))
    watch.client(initial(frames=ack(0), number=1, dcid=SERVER_ID, scid=b"", key_dcid=DCID))
    watch.client(client_handshake(scid=b""), short(SERVER_ID))
    watch.server(short(b""))
    assert (watch.history, watch.outcome()) == ("ISishIHOo", "established")


def test_late_answer_to_the_first_of_two_attempts_without_client_ids() -> None:
    """The server's Initial belongs to the attempt whose keys open it, also when nothing else tells them apart."""
    watch = QuicWatch()
    watch.client(initial(HELLO, scid=b""))
    watch.client(initial(HELLO, scid=b"", dcid=SECOND_DCID), at=3000)
    watch.server(answer(server_hello(), dcid=b""))
    assert [c.answered for c in watch.opened] == [True, False]


def test_zero_length_server_ids() -> None:
    """A server with a zero-length ID is followed too."""
    watch = QuicWatch()
    watch.client(initial(HELLO))
    watch.server(answer(server_hello(), scid=b""), server_handshake(scid=b""))
    watch.client(client_handshake(dcid=b""), short(b""))
    assert watch.outcome() == "established"


def test_icmp_finds_the_attempt_that_it_quotes() -> None:
    """ICMP goes to the attempt whose ID the quoted datagram shows; without it, to the latest one."""
    watch = QuicWatch()
    first_packet = initial(HELLO)
    watch.client(first_packet)
    watch.client(initial(HELLO, dcid=SECOND_DCID, scid=SECOND_ID))
    first, second = watch.opened
    assert watch.icmp(first_packet[:20]) is first
    assert watch.icmp(b"") is second
    assert (len(first.refusals), len(second.refusals)) == (1, 1)
    assert first.outcome(watch.now) == "refused"


def test_icmp_after_an_answer_does_not_refuse() -> None:
    """A connection that was answered is not refused by an ICMP error, which may be forged or a passing fault."""
    watch = QuicWatch()
    watch.handshake()
    watch.icmp(short(SERVER_ID))
    assert watch.outcome() == "established"


def test_icmp_about_the_servers_packets_means_that_the_client_is_gone() -> None:
    """A closed client port is the end of a process: the connection ended, and nobody refused QUIC."""
    watch = QuicWatch()
    watch.handshake()
    watch.icmp(short(CLIENT_ID), source=SERVER, destination=CLIENT)
    assert watch.only.client_gone is not None
    assert (watch.only.refusals, watch.outcome()) == ([], "established")
    assert watch.only.ended == watch.only.client_gone


def test_a_client_that_is_gone_before_it_was_ready_is_not_refused() -> None:
    """The same during the handshake is no refusal either."""
    watch = QuicWatch()
    watch.client(initial(HELLO))
    watch.server(answer(server_hello()))
    watch.icmp(answer(server_hello()), source=SERVER, destination=CLIENT)
    assert watch.outcome() is None


@pytest.mark.parametrize(
    ("source", "destination"),
    [
        (Endpoint(CLIENT.host, 50001), SERVER),
        (CLIENT, Endpoint(SERVER.host, 444)),
        (CLIENT, Endpoint(bytes(4), 443)),
    ],
)
def test_icmp_about_unknown_flows(source: Endpoint, destination: Endpoint) -> None:
    """An ICMP error about ports that nobody uses is about no connection."""
    watch = QuicWatch()
    watch.client(initial(HELLO))
    assert watch.icmp(initial(HELLO), source=source, destination=destination) is None
    assert watch.only.refusals == []


def test_icmp_kinds_that_refuse_nothing() -> None:
    """Too big and time exceeded are passing faults; the first is remembered as such."""
    watch = QuicWatch()
    watch.client(initial(HELLO))
    watch.icmp(initial(HELLO), kind="too-big")
    watch.icmp(initial(HELLO), kind="time-exceeded")
    assert (watch.only.refusals, watch.only.too_big is not None) == ([], True)


def test_icmp_is_said_once_and_kept_within_bounds() -> None:
    """A flood of ICMP errors is one line and a bounded list."""
    watch = QuicWatch()
    watch.client(initial(HELLO))
    for _ in range(500):
        watch.icmp(initial(HELLO)[:60], kind="prohibited")
    assert [text for text in watch.said() if text.startswith("ICMP")] == ["ICMP prohibited"]
    assert len(watch.only.refusals) < watch.only.refusals_seen == 500


def test_a_flood_of_too_big_is_said_once() -> None:
    """ICMP errors that say that a datagram was too big do not fill the timeline either."""
    watch = QuicWatch()
    watch.client(initial(HELLO))
    for _ in range(500):
        watch.icmp(initial(HELLO)[:60], kind="too-big")
    assert [text for text in watch.said() if text.startswith("ICMP")] == ["ICMP too big"]


def test_zero_rtt_before_its_initial() -> None:
    """0-RTT packets that overtook their Initial begin the attempt, which then is no mid-stream one."""
    watch = QuicWatch()
    watch.client(zero_rtt())
    assert watch.outcome() == "mid-stream"
    watch.client(initial(HELLO))
    assert (watch.history, watch.only.mid_stream, watch.only.initials_sent) == ("ZIS", False, 1)
    assert watch.only.client == CLIENT


def test_mid_stream() -> None:
    """A capture that begins in a handshake knows who is who by the ports, and calls it `mid-stream`."""
    watch = QuicWatch()
    watch.server(server_handshake())
    watch.client(client_handshake(), short(SERVER_ID))
    watch.server(short(CLIENT_ID))
    assert (watch.only.client, watch.only.server, watch.only.dcid) == (CLIENT, SERVER, None)
    assert (watch.history, watch.outcome()) == ("hHOo", "mid-stream")
    assert (watch.only.client_scid, watch.only.server_scid) == (CLIENT_ID, SERVER_ID)


def test_mid_stream_from_the_servers_initial() -> None:
    """Without the client's Initial the server's cannot be opened, and makes nobody a client."""
    watch = QuicWatch()
    watch.server(answer(server_hello(), size=1200))
    assert (watch.only.client, watch.only.hello, watch.outcome()) == (CLIENT, None, "mid-stream")


def test_one_rtt_packets_alone_are_not_taken_for_quic() -> None:
    """Short headers on ports where no handshake was seen may be anything."""
    watch = QuicWatch()
    assert not watch.client(short(SERVER_ID))
    assert watch.opened == []


def test_cut_initial_of_a_server() -> None:
    """A cut capture that begins with the server's Initial does not make the server a client."""
    watch = QuicWatch()
    packet = answer(server_hello(), size=1200)
    watch.tracker.feed(UdpDatagram(*watch.stamp(), SERVER, CLIENT, packet[:100], len(packet)))
    assert [c.client for c in watch.opened] == [CLIENT]


@pytest.mark.parametrize(
    ("payload", "name"),
    [
        (b"\x09" + bytes(8) + b"Q043" + bytes(40), "Q043"),
        (b"\xc3Q046\x50" + bytes(60), "Q046"),
        (long_header("initial", version=0x51303530, dcid=DCID, scid=b"") + bytes(60), "Q050"),
    ],
)
def test_gquic_is_named(payload: bytes, name: str) -> None:
    """Google's own versions are named and not decoded, and nothing is said of how they ended."""
    watch = QuicWatch()
    assert watch.client(payload)
    assert watch.client(bytes(100))
    assert (watch.only.version_name, watch.outcome(after=60_000)) == (name, None)
    assert watch.only.client == CLIENT


def test_unknown_version() -> None:
    """A version that nobody knows is reported by its number, its answers as `u`."""
    watch = QuicWatch()
    watch.client(long_header("initial", version=UNKNOWN, dcid=DCID, scid=CLIENT_ID).ljust(1200, b"\x01"))
    watch.server(long_header("initial", version=UNKNOWN, dcid=CLIENT_ID, scid=SERVER_ID).ljust(1200, b"\x01"))
    assert (watch.only.version_name, watch.history, watch.outcome()) == ("0x1a2a3a4a", "Uu", None)


def test_other_traffic_on_the_ports_of_quic_opens_nothing() -> None:
    """Media that follow on a connection's ports, with the bit of a long header set, are no connections of QUIC."""
    watch = QuicWatch()
    watch.handshake()
    for number in range(40):
        watch.client(bytes((0x80 | number, 0x60)) + number.to_bytes(4) + bytes(160))
    watch.client(b"\xc0" + bytes(4) + bytes(1300))
    assert watch.only.outcome(watch.now) == "established"
    assert "U" not in watch.history


def test_flows_are_limited() -> None:
    """The flow used least recently leaves with its connections, and is counted."""
    watch = QuicWatch(limit=2)
    clients = [Endpoint(CLIENT.host, 50000 + n) for n in range(3)]
    watch.client(initial(HELLO), client=clients[0])
    watch.client(initial(HELLO), client=clients[1])
    watch.client(initial(HELLO, number=1), client=clients[0])
    watch.client(initial(HELLO), client=clients[2])
    assert [c.client for c in watch.evicted] == [clients[1]]
    assert watch.tracker.evicted == 1


def test_attempts_on_one_flow_are_limited() -> None:
    """A client that tries for ever from one port cannot fill the memory; those forgotten are counted."""
    watch = QuicWatch()
    for number in range(CONNECTIONS_PER_FLOW + 3):
        watch.client(initial(HELLO, dcid=bytes((number,)) * 8, scid=bytes((number,)) * 4))
    assert watch.evicted == watch.opened[:3]
    assert watch.tracker.evicted == 3


def test_forgotten_connections_leave_the_others() -> None:
    """Letting one attempt go leaves the other on the same ports in place; ICMP then is about that one."""
    watch = QuicWatch()
    watch.client(initial(HELLO))
    watch.client(initial(HELLO, dcid=SECOND_DCID, scid=SECOND_ID))
    first, second = watch.opened
    watch.tracker.forget(first)
    assert watch.icmp(b"") is second
    watch.tracker.forget(second)
    assert watch.icmp(b"") is None


@given(st.lists(st.tuples(st.booleans(), st.binary(max_size=80)), max_size=20), st.randoms(use_true_random=False))
def test_hostile_datagrams_never_raise(noise: list[tuple[bool, bytes]], random: object) -> None:
    """Whatever else arrives on the ports of a connection, nothing is raised and the history stays bounded."""
    watch = QuicWatch(limit=2)
    packets = [initial(HELLO), answer(server_hello()), retry(), server_handshake(), short(CLIENT_ID, 1300)]
    for from_client, data in noise:
        whole = bytearray(random.choice(packets))  # type: ignore[attr-defined]
        at = random.randrange(len(whole))  # type: ignore[attr-defined]
        whole[at : at + len(data)] = data
        (watch.client if from_client else watch.server)(bytes(whole))
    for c in watch.opened:
        assert len(c.history) <= 100
