"""TCP connections: hellos and heads in the clear rewritten, the rest made noise of its length."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from h3probe.redact.conversation import Conversation
from h3probe.track.table import BoundedTable
from h3probe.wire.packet import ACK, SYN
from h3probe.wire.tls import looks_like_client_hello

if TYPE_CHECKING:
    from h3probe.events import Endpoint
    from h3probe.redact.hello import Hellos
    from h3probe.redact.mapping import Mapping
    from h3probe.redact.piece import Piece

CONNECTIONS_LIMIT: Final = 2_048
_CLIENT_METHODS: Final = (b"CONNECT ", b"GET ")


class TcpRewriter:
    """Rewrites the segments of all connections; bounded in memory."""

    def __init__(self, mapping: Mapping, hellos: Hellos) -> None:
        self._mapping = mapping
        self._hellos = hellos
        self._table: BoundedTable[tuple[Endpoint, Endpoint], Conversation] = BoundedTable(CONNECTIONS_LIMIT)

    def segment(  # noqa: PLR0913, PLR0917 - a segment's fields
        self, source: Endpoint, destination: Endpoint, seq: int, ack: int, flags: int, data: bytes, length: int
    ) -> Piece | None:
        """Rewrite a segment's payload; None where there is none."""
        key = (source, destination) if source <= destination else (destination, source)
        conversation = self._table.get(key)
        opening = flags & (SYN | ACK) == SYN
        if opening and conversation is not None and conversation.isn != seq:
            conversation.give_up()
            conversation = None
        if conversation is None:
            if not length and not flags & SYN:
                return None
            conversation = self._open(source, destination, data, flags)
            for gone in self._table.put(key, conversation):
                gone.give_up()
        from_client = source == conversation.client
        if flags & SYN:
            seq = seq + 1 & 0xFFFF_FFFF
            side = conversation.sides[from_client]
            if side.base is None:
                side.base = seq
            if opening:
                conversation.isn = seq - 1 & 0xFFFF_FFFF
        if not data and not length:
            return None
        if not from_client and looks_like_client_hello(data):
            conversation.turn(source)
            from_client = source == conversation.client
        return conversation.segment(seq, data, length, from_client=from_client, ack=ack)

    def _open(self, source: Endpoint, destination: Endpoint, data: bytes, flags: int) -> Conversation:
        from_server = flags & (SYN | ACK) == (SYN | ACK) or (
            not flags & SYN
            and not looks_like_client_hello(data)
            and not data.startswith(_CLIENT_METHODS)
            and (data.startswith(b"HTTP/1.") or source.port < destination.port)
        )
        client, server = (destination, source) if from_server else (source, destination)
        return Conversation(client, server, self._mapping, self._hellos)
