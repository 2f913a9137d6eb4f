"""Initials, their IDs, and what is found in them once they are redacted."""

from __future__ import annotations

from h3probe.redact import Mapping
from h3probe.wire.quic.frames import Crypto, parse_frames
from h3probe.wire.quic.packets import LongPacket, split_datagram
from h3probe.wire.quic.protection import initial_keys, open_packet
from h3probe.wire.reassembly import Reassembler
from h3probe.wire.tls import handshake_messages
from h3probe.wire.tls_hello import parse_client_hello
from tests.redact.flows import KEY
from tests.wire.quic_builder import DCID, SCID

SERVER_ID = bytes.fromhex("5eb7e20102030405")
TOKEN = b"a token that tells the client's address"
MAPPING = Mapping(KEY)

NEW_DCID, NEW_SCID, NEW_SERVER_ID = map(MAPPING.connection_id, (DCID, SCID, SERVER_ID))


def opened(payload: bytes, *, key: bytes = NEW_DCID, from_client: bool = True) -> tuple[LongPacket, list[object]]:
    """The first packet of a datagram, and its frames, by h3probe's own decoder."""
    packet = split_datagram(payload)[0]
    assert isinstance(packet, LongPacket)
    keys = initial_keys(packet.version, key)
    return packet, list(parse_frames(open_packet(keys.client if from_client else keys.server, packet).payload))


def names_in(datagrams: list[bytes]) -> list[str | None]:
    """The names in the ClientHello that redacted Initials hold together."""
    stream = Reassembler()
    for datagram in datagrams:
        for frame in opened(datagram)[1]:
            if isinstance(frame, Crypto):
                stream.add(frame.offset, frame.data)
    return [parse_client_hello(body).sni for _, body in handshake_messages(stream.contiguous)[0]]
