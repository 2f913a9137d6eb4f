"""What a connection's Initials say: their keys are public (RFC 9001, 5.2)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from h3probe.errors import DecodeError
from h3probe.facts import fact
from h3probe.wire.ja4 import ja4
from h3probe.wire.quic import protection
from h3probe.wire.quic.frames import Ack, ConnectionClose, Crypto, parse_frames
from h3probe.wire.reassembly import Reassembler
from h3probe.wire.tls import handshake_messages
from h3probe.wire.tls_hello import parse_client_hello, parse_server_hello, without_extensions

if TYPE_CHECKING:
    from h3probe.track.quic import HelloStream, QuicConnection
    from h3probe.wire.quic.packets import LongPacket
    from h3probe.wire.quic.protection import Opened

CLIENT_HELLO = 1
SERVER_HELLO = 2
PACKET_NUMBERS_LIMIT = 512


@fact
class InitialRead:
    """What one Initial brought.

    Attributes:
        counts: False for a second copy of a packet, and for a server's that no client would take.
        hello_part: Whether it carried a part of the ClientHello.
        close: The CONNECTION_CLOSE in it.
    """

    counts: bool
    hello_part: bool = False
    close: ConnectionClose | None = None


def read_initial(connection: QuicConnection, packet: LongPacket, *, from_client: bool) -> InitialRead:
    """Open an Initial and take what is in it into the connection, its history included."""
    letter = "I" if from_client else "i"
    side = connection.client_crypto if from_client else connection.server_crypto
    if side is None or connection.key_dcid is None or packet.truncated:
        # Past the handshake, or without the keys: that there was an Initial is all that can be said.
        connection.cut += packet.truncated
        connection.note(letter)
        return InitialRead(counts=True)
    opened = open_initial(connection, packet, side.largest, from_client=from_client)
    if opened is None:
        connection.unopened += 1
        if from_client:
            connection.note(letter)
        return InitialRead(counts=from_client or connection.mid_stream)
    if not from_client or connection.server_scid is None:
        connection.version = packet.version  # It may have been switched (RFC 9368), or negotiated anew.
    if opened.packet_number in side.packet_numbers:
        return InitialRead(counts=False)  # Captured twice, since a sender never reuses a number.
    first = side.largest < 0
    if len(side.packet_numbers) < PACKET_NUMBERS_LIMIT:
        side.packet_numbers.add(opened.packet_number)
    side.largest = max(side.largest, opened.packet_number)
    connection.note(letter)
    read = _take_frames(connection, side, opened.payload, from_client=from_client)
    if from_client and first and opened.packet_number and not read.hello_part and connection.hello is None:
        connection.mid_stream = True  # Numbers begin at 0 (RFC 9000, 12.3), and a client with its ClientHello.
    return read


def open_initial(connection: QuicConnection, packet: LongPacket, largest: int, *, from_client: bool) -> Opened | None:
    """Open an Initial of a connection; None where its keys do not.

    Args:
        connection: Whose it is.
        packet: The Initial.
        largest: The largest packet number of that side so far, -1 for none.
        from_client: Whose side that is.
    """
    candidates = [connection.key_dcid]
    if from_client and connection.dcid != connection.key_dcid:
        candidates.append(connection.dcid)  # An Initial from before the Retry, late or sent again.
    for dcid in candidates:
        if dcid is None:
            continue
        try:
            return protection.open_initial(dcid, packet, largest, from_client=from_client)
        except DecodeError:
            continue
    return None


def _take_frames(connection: QuicConnection, side: HelloStream, payload: bytes, *, from_client: bool) -> InitialRead:
    try:
        frames = parse_frames(payload)
    except DecodeError:
        connection.unopened += 1
        return InitialRead(counts=True)
    hello_part = False
    close: ConnectionClose | None = None
    for frame in frames:
        if isinstance(frame, Crypto):
            hello_part = from_client
            side.stream.add(frame.offset, frame.data)
        elif isinstance(frame, Ack):
            connection.answer_acked = connection.answer_acked or from_client
        elif isinstance(frame, ConnectionClose):
            close = close or frame
    if hello_part and (connection.hello is None or not connection.hello.random):  # A proxy's report has none.
        _client_hello(connection, side)
    elif not from_client and connection.server_hello is None:
        _server_hello(connection, side)
    return InitialRead(counts=True, hello_part=hello_part, close=close)


def _client_hello(connection: QuicConnection, side: HelloStream) -> None:
    messages, _ = handshake_messages(side.stream.contiguous)
    if not messages or messages[0][0] != CLIENT_HELLO:
        return
    try:
        hello = parse_client_hello(messages[0][1])
    except DecodeError:
        return
    side.stream = Reassembler(limit=0)  # Nothing more is read from it.
    connection.hello, connection.ja4 = without_extensions(hello), ja4(hello, "q")
    connection.mid_stream = False  # 0-RTT packets may have come before it.
    connection.note("S")


def _server_hello(connection: QuicConnection, side: HelloStream) -> None:
    for kind, body in handshake_messages(side.stream.contiguous)[0]:
        if kind != SERVER_HELLO:
            return
        try:
            hello = parse_server_hello(body)
        except DecodeError:
            return
        if not hello.is_retry:
            connection.server_hello = without_extensions(hello)
            connection.note("s")
            return
