from __future__ import annotations

import pytest

from h3probe.track.quic_routing import destination_id, flow_key, opens_as_client
from h3probe.wire.quic.packets import LongPacket, split_datagram
from tests.diagnose.scenario import Network
from tests.track.builders import (
    CLIENT,
    CLIENT_ID,
    DCID,
    SERVER,
    SERVER_ID,
    QuicWatch,
    ack,
    answer,
    client_hello,
    initial,
    server_handshake,
    server_hello,
    short,
    zero_rtt,
)

HELLO = client_hello()
SECOND_DCID = bytes.fromhex("e0e1e2e3e4e5e6e7")


def test_a_flow_has_one_key() -> None:
    """Both directions of a flow are found under one key."""
    assert flow_key(CLIENT, SERVER) == flow_key(SERVER, CLIENT)


def first(datagram: bytes) -> LongPacket:
    """The first packet of a datagram."""
    packet = split_datagram(datagram)[0]
    assert isinstance(packet, LongPacket)
    return packet


def test_only_a_first_initial_opens_as_a_clients() -> None:
    """A client's first Initial opens with its own destination ID; the server's, and later ones, do not."""
    assert opens_as_client(first(initial(HELLO)))
    assert not opens_as_client(first(answer(server_hello(), size=1200)))
    assert not opens_as_client(first(initial(HELLO, dcid=SERVER_ID, key_dcid=DCID)))
    assert not opens_as_client(first(zero_rtt()))


def test_destination_ids() -> None:
    """The ID that a direction's packets start with is read from a long header, and known for a short one."""
    watch = QuicWatch()
    watch.handshake()
    flow = watch.tracker.flows.get(flow_key(CLIENT, SERVER))
    assert flow is not None
    watch.client(short(SERVER_ID))
    watch.server(short(CLIENT_ID))
    watch.server(server_handshake())
    watch.server(short(b"renewed"))
    assert [destination_id(flow, fact) for fact in watch.facts[-4:]] == [SERVER_ID, CLIENT_ID, CLIENT_ID, b""]


@pytest.mark.parametrize("token", [b"token", b""])
def test_a_retry_that_was_not_seen(token: bytes) -> None:
    """An Initial with the same client ID and a token follows a Retry; without one it is another attempt."""
    watch = QuicWatch()
    watch.client(initial(HELLO))
    watch.client(initial(HELLO, number=1, dcid=SECOND_DCID, token=token))
    assert len(watch.opened) == (1 if token else 2)
    assert watch.opened[0].answered == bool(token)


def test_later_initials_go_to_the_servers_id() -> None:
    """An Initial to the ID that the server chose belongs to the attempt, also where the server's was not seen."""
    for seen in (True, False):
        watch = QuicWatch()
        watch.client(initial(HELLO))
        if seen:
            watch.server(answer(server_hello()))
        watch.client(initial(frames=ack(0), number=1, dcid=SERVER_ID, key_dcid=DCID))
        assert len(watch.opened) == 1
        assert watch.only.answer_acked


@pytest.mark.parametrize("scid", [CLIENT_ID, b""])
def test_the_rest_of_a_hello_to_an_id_of_the_servers_that_was_not_seen(scid: bytes) -> None:
    """In a capture of the client's packets alone, the keys tell that an Initial to another ID goes on with a hello."""
    watch = QuicWatch()
    watch.client(initial(HELLO[:100], scid=scid))
    watch.client(initial(HELLO[100:], offset=100, number=1, dcid=SERVER_ID, scid=scid, key_dcid=DCID))
    assert watch.only.hello is not None
    assert watch.only.hello.sni == "example.com"


@pytest.mark.parametrize("server_id", [SERVER_ID, DCID])
@pytest.mark.parametrize("scid", [CLIENT_ID, b""])
def test_an_answer_that_the_capture_has_before_the_first_initial(scid: bytes, server_id: bytes) -> None:
    """The server's Initial and the client's first one are one connection in either order, whatever the server's ID."""
    watch = QuicWatch()
    watch.server(answer(server_hello(), dcid=scid, scid=server_id), server_handshake(dcid=scid, scid=server_id))
    watch.client(initial(HELLO, scid=scid))
    watch.client(initial(frames=ack(0), number=1, dcid=server_id, scid=scid, key_dcid=DCID))
    assert watch.only.hello is not None
    assert (watch.only.dcid, watch.only.server_scid, watch.only.mid_stream) == (DCID, server_id, False)


def test_renewed_ids_go_to_the_connection_under_way() -> None:
    """A 1-RTT packet under an ID that was agreed on in secret belongs to the latest connection that was answered."""
    watch = QuicWatch()
    watch.handshake()
    watch.client(initial(HELLO, dcid=SECOND_DCID, scid=b"second"))
    watch.client(short(b"renewed"))
    established, waiting = watch.opened
    assert (established.history[-1], waiting.history[-1]) == ("O", "S")


def test_a_cleared_fixed_bit_is_a_1rtt_packet_by_its_connection_id() -> None:
    """Both sides may clear it where they agreed on that (RFC 9287)."""
    network = Network()
    quic = network.quic()
    quic.initial(0.0)
    quic.answers(0.02)
    quic.server_handshake(0.021)
    quic.client_handshake(0.022)
    quic.datagram(0.023, "client", b"\x05" + quic.server_scid + bytes(200))
    quic.datagram(0.043, "server", b"\x09" + quic.client_scid + bytes(900))
    explained = network.explain()
    assert explained.quic[0].outcome == "established"
    assert explained.sentence.startswith("HTTP/3 from the first request")


def test_other_bytes_without_a_fixed_bit_are_none() -> None:
    """What shares the ports and shows no connection ID is not QUIC's."""
    network = Network()
    quic = network.quic()
    quic.initial(0.0)
    quic.answers(0.02)
    quic.client_handshake(0.022)
    quic.datagram(0.023, "client", b"\x05" + bytes(200))
    assert "O" not in network.explain().quic[0].history
