"""What is known of a pair of UDP ports."""

from __future__ import annotations

from h3probe.redact.quic_flow import CONNECTIONS_PER_FLOW, IDS_PER_SENDER, Connection, Flow
from h3probe.wire.quic.packets import LongPacket, split_datagram
from tests.redact.flows import CLIENT, SERVER
from tests.redact.initials import SERVER_ID
from tests.wire.quic_builder import DCID, SCID, crypto, initial


def first_packet(payload: bytes) -> LongPacket:
    """The packet that a datagram begins with."""
    packet = split_datagram(payload)[0]
    assert isinstance(packet, LongPacket)
    return packet


def test_ids_are_bounded() -> None:
    """A receiver's IDs are known in front of its packets, the latest ones of them."""
    flow = Flow()
    for number in range(IDS_PER_SENDER + 1):
        flow.sent(SERVER, number.to_bytes(8))
    assert flow.id_at(SERVER, b"\x40" + (1).to_bytes(8) + b"data", 1) == (1).to_bytes(8)
    assert flow.id_at(SERVER, b"\x40" + bytes(8) + b"data", 1) == b""
    assert flow.id_at(CLIENT, b"\x40" + (1).to_bytes(8) + b"data", 1) == b""


def test_connections_are_bounded() -> None:
    """Of many connections on one pair of ports the latest are kept, each once."""
    flow = Flow()
    made = [Connection(CLIENT, bytes((number,)), SCID) for number in range(CONNECTIONS_PER_FLOW + 1)]
    for connection in made:
        flow.opened_by(connection)
        flow.opened_by(connection)
    assert [each.key_dcid for each in flow.connections] == [each.key_dcid for each in made[1:]]


def test_who_may_have_sent_an_initial() -> None:
    """A first one is its sender's own; then the connections that are known come first, and a new one is tried last."""
    flow = Flow()
    sent = first_packet(initial(crypto(0, b"hello"), size=400))
    ((own, from_client),) = flow.candidates(CLIENT, sent)
    assert (own.client, own.key_dcid, own.client_scid, from_client) == (CLIENT, DCID, SCID, True)
    flow.opened_by(own)
    answer = first_packet(initial(crypto(0, b"hello"), dcid=SCID, scid=SERVER_ID, size=400))
    known, new = flow.candidates(SERVER, answer)
    assert known == (own, False)
    assert (new[0].client, new[0].key_dcid, new[1]) == (SERVER, SCID, True)
