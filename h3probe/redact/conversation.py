"""One TCP connection, read as far as it is in the clear.

A direction begins in the clear: its bytes wait until the message that they belong to is whole, since half a name
cannot be replaced. From the first protected record on, or from a body or a protocol that is not known, nothing waits.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from h3probe.redact.http1_stream import HEAD_END, Http1Messages
from h3probe.redact.side import CLEAR_LIMIT, Handshake, Side
from h3probe.redact.tail import Tail
from h3probe.redact.tls_stream import TlsMessages
from h3probe.wire.http1 import looks_like_request
from h3probe.wire.proxy_protocol import header_length
from h3probe.wire.reassembly import Reassembler
from h3probe.wire.tls import looks_like_client_hello

if TYPE_CHECKING:
    from h3probe.events import Endpoint
    from h3probe.redact.hello import Hellos
    from h3probe.redact.mapping import Mapping
    from h3probe.redact.piece import Piece

Kind = Literal["unknown", "tls", "http", "opaque"]


class StreamPiece:
    """A segment's payload."""

    __slots__ = ("_connection", "_data", "_offset", "_side")

    def __init__(self, connection: Conversation, side: Side, offset: int, data: bytes) -> None:
        self._connection = connection
        self._side = side
        self._offset = offset
        self._data = data

    @property
    def ready(self) -> bool:
        """Whether what stands there in the rewritten stream is known."""
        return self._side.tail is not None or self._offset + len(self._data) <= len(self._side.made)

    def give_up(self) -> None:
        """What waits in either direction becomes noise, and so does all that follows."""
        if not self.ready:
            self._connection.give_up(self._side)

    def take(self) -> bytes:
        """Return it."""
        side, offset, data = self._side, self._offset, self._data
        before = bytes(min(max(-offset, 0), len(data)))  # a keep-alive repeats a byte before the first one
        clear = bytes(side.made[max(offset, 0) : max(offset + len(data), 0)])
        made = before + clear
        if len(made) < len(data) and side.tail is not None:
            made += side.tail.write(offset + len(made), data[len(made) :])
        return made


class Conversation:
    """One TCP connection, read as far as it is in the clear."""

    def __init__(self, client: Endpoint, server: Endpoint, mapping: Mapping, hellos: Hellos) -> None:
        self.client = client
        self.isn: int | None = None
        self._seed = f"{client} {server}".encode()
        self._mapping = mapping
        self._kind: Kind = "unknown"
        self._tls = TlsMessages(mapping, hellos)
        self._http = Http1Messages(mapping)
        self.sides: dict[bool, Side] = {True: Side(), False: Side()}

    def segment(self, seq: int, data: bytes, length: int, *, from_client: bool, ack: int) -> Piece:
        """Take a segment's payload in."""
        side = self.sides[from_client]
        if side.base is None:
            side.base = seq
        offset = side.offset(seq)
        if self._starts_anew(data, offset, from_client=from_client):
            from_client = True
            self._restart(seq, ack)
            side, offset = self.sides[True], 0
        side.seen = max(side.seen, offset + length)
        piece = StreamPiece(self, side, offset, data)
        if side.tail is not None and offset >= side.tail.start:
            return piece
        if side.pieces.add(offset, data):
            side.waiting += side.pieces.take()
            self._advance()
        if length > len(data) or side.pieces.overflow or len(side.made) + len(side.waiting) >= CLEAR_LIMIT:
            self._end(side)  # what a snaplen cut never comes
        return piece

    def give_up(self, *others: Side) -> None:
        """Read no further, in either direction and in `others`, which were its directions once."""
        for side in (*self.sides.values(), *others):
            self._close(side, records=self._kind == "tls")
        self._kind = "opaque"

    def _end(self, side: Side) -> None:
        """Read one direction no further."""
        if self._kind == "unknown":
            self.give_up()
        else:
            self._close(side, records=self._kind == "tls")
            self._advance()

    def turn(self, client: Endpoint) -> None:
        """Take the other one for the client, where that was but a guess."""
        if self._kind in ("unknown", "opaque") and self.isn is None:
            self.client = client
            self.sides = {True: self.sides[False], False: self.sides[True]}

    def _starts_anew(self, data: bytes, offset: int, *, from_client: bool) -> bool:
        """Whether a ClientHello begins a segment where none was expected: a late capture, STARTTLS, SOCKS."""
        if self._kind == "tls" or not looks_like_client_hello(data):
            return False
        if from_client and offset == 0 and self._kind == "unknown":
            return False
        return self._kind == "opaque" or (self._kind == "unknown" and not self.sides[True].seen)

    def _restart(self, seq: int, ack: int) -> None:
        self._seed += b"+"
        self._kind = "unknown"
        self.sides = {True: Side(base=seq), False: Side(base=ack)}

    def _advance(self) -> None:
        moved = True
        while moved:
            moved = False
            for from_client in (True, False):
                side = self.sides[from_client]
                if side.tail is None:
                    moved = self._step(side, from_client=from_client) or moved

    def _step(self, side: Side, *, from_client: bool) -> bool:
        """Rewrite one message, where one is whole; return whether something changed."""
        if self._kind == "unknown":
            return self._recognise()
        if not side.waiting:
            return False
        if self._kind == "tls":
            step = self._tls.step(side, from_client=from_client)
        else:
            step = self._http.step(side, self.sides[not from_client], from_client=from_client)
        match step:
            case "ends" | "protected":
                self._close(side, records=step == "protected")
            case "tunnel":
                self._kind = "tls"
            case "opaque":
                self.give_up()
        return step != "waits"

    def _recognise(self) -> bool:
        client, server = self.sides[True].waiting, self.sides[False].waiting
        if looks_like_client_hello(bytes(client[:10])):
            self._kind = "tls"
        elif client and (header := header_length(bytes(client))) != 0:
            if header is None:
                return False
            side = self.sides[True]
            side.made += _without_client(bytes(client[:header]))
            del client[:header]
        elif client and looks_like_request(bytes(client[:10])):
            if len(client) < 8 and not HEAD_END.search(client):
                return False
            self._kind = "http"
        elif not client and server.startswith(b"HTTP/1."):
            self._kind, self._http.asked = "http", "message"
        elif len(client) >= 6 or server:
            self.give_up()
        else:
            return False
        return True

    def _close(self, side: Side, *, records: bool) -> None:
        """From here on nothing is read."""
        if side.tail is not None:
            return
        seed = self._seed + (b">" if side is self.sides[True] else b"<")
        side.tail = Tail(self._mapping, seed, len(side.made), records=records)
        waiting, side.waiting = bytes(side.waiting), bytearray()
        start = len(side.made)
        side.made += side.tail.write(start, waiting)
        if records and not side.ciphered:
            self._tls.salvage(side, start, waiting)
        side.pieces = Reassembler(limit=0)
        side.handshake = Handshake()


def _without_client(header: bytes) -> bytes:
    """A header of the PROXY protocol, as long as it was, that says nothing of whom it is for."""
    if header.startswith(b"PROXY "):
        return b"PROXY UNKNOWN".ljust(len(header) - 2)[: len(header) - 2] + b"\r\n"
    return header[:12] + b"\x20\0" + header[14:16] + bytes(len(header) - 16)  # LOCAL: no addresses
