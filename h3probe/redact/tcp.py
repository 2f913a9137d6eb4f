"""TCP connections: hellos and heads in the clear rewritten, the rest made noise of its length.

A direction begins in the clear: its bytes wait until the message that they belong to is whole, since half a name
cannot be replaced. From the first protected record on, or from a body or a protocol that is not known, nothing waits.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Literal

from h3probe.errors import DecodeError
from h3probe.redact import http1
from h3probe.track.table import BoundedTable
from h3probe.wire import tls_names
from h3probe.wire.http1 import connect_target, connect_udp_target, looks_like_request, parse_request_head
from h3probe.wire.packet import ACK, SYN
from h3probe.wire.proxy_protocol import header_length
from h3probe.wire.reassembly import Reassembler
from h3probe.wire.tls import LARGEST_RECORD, looks_like_client_hello
from h3probe.wire.tls_hello import HELLO_RETRY_REQUEST, parse_server_hello

if TYPE_CHECKING:
    from h3probe.events import Endpoint
    from h3probe.redact.hello import Hellos
    from h3probe.redact.mapping import Mapping
    from h3probe.redact.piece import Piece

CONNECTIONS_LIMIT: Final = 2_048
CLEAR_LIMIT: Final = 64 << 10
"""Bytes of one direction that may be in the clear: heads, hellos, a certificate chain."""
_HEADERS_KEPT: Final = 256
_UNTIL_ASKED: Final = 1 << 60  # the length of a body that is not told in advance
_TLS13: Final = 0x0304
_CLIENT_METHODS: Final = (b"CONNECT ", b"GET ")
_HEAD_END: Final = re.compile(rb"\n\r?\n")
_LENGTH: Final = re.compile(rb"(?im)^content-length[ \t]*:[ \t]*(\d{1,12})[ \t]*\r?$")
_HIGH_BITS: Final = bytes(byte | 0x80 for byte in range(256))

Kind = Literal["unknown", "tls", "http", "opaque"]


class Tail:
    """A direction's bytes from where nothing is read any more; TLS record headers stay where they can be told.

    Args:
        seed: Tells this direction from all others.
        records: Whether what comes is a sequence of TLS records, the first one's header at `start`.
    """

    def __init__(self, mapping: Mapping, seed: bytes, start: int, *, records: bool) -> None:
        self._mapping = mapping
        self._seed = seed
        self.start = start
        self._next = start
        self._in_step = records
        self._records = records
        self._left = 0  # of the record that is under way
        self._header = b""  # as much of the next one as was seen
        self._at: list[int] = []  # where headers stand that a retransmission may repeat
        self._kept: list[bytes] = []

    def write(self, offset: int, data: bytes) -> bytes:
        """Rewrite a piece."""
        noise = self._mapping.noise(self._seed, len(data), offset)
        if not self._records:
            return noise.translate(_HIGH_BITS)
        made = bytearray(noise)
        end = offset + len(data)
        if offset > self._next or (offset == self._next and not self._in_step):
            # Something is missing. A piece that begins with a record's header begins with a record.
            self._in_step = len(data) >= 5 and _begins_record(data[:5]) and data[2] == 3
            self._next, self._left, self._header = offset, 0, b""
        if self._in_step and end > self._next:
            self._walk(data, offset)
        if not self._in_step:
            self._next = max(self._next, end)
        for index in range(max(bisect_left(self._at, offset - 5), 0), len(self._at)):
            at, header = self._at[index], self._kept[index]
            if at >= end:
                break
            first, last = max(at, offset), min(at + len(header), end)
            if first < last:
                made[first - offset : last - offset] = header[first - at : last - at]
        return bytes(made)

    def _walk(self, data: bytes, offset: int) -> None:
        """Find the headers in what is new of a piece."""
        position = self._next - offset
        while position < len(data):
            if self._left:
                step = min(self._left, len(data) - position)
                self._left -= step
                position += step
                continue
            part = data[position : position + 5 - len(self._header)]
            self._header += part
            if not _begins_record(self._header):
                self._in_step = False
                self._header = b""
                break
            self._keep(offset + position, part)
            position += len(part)
            if len(self._header) == 5:
                self._left = int.from_bytes(self._header[3:])
                self._header = b""
        self._next = offset + len(data)

    def _keep(self, at: int, part: bytes) -> None:
        self._at.append(at)
        self._kept.append(part)
        if len(self._at) > 2 * _HEADERS_KEPT:
            del self._at[:_HEADERS_KEPT], self._kept[:_HEADERS_KEPT]


def _without_client(header: bytes) -> bytes:
    """A header of the PROXY protocol, as long as it was, that says nothing of whom it is for."""
    if header.startswith(b"PROXY "):
        return b"PROXY UNKNOWN".ljust(len(header) - 2)[: len(header) - 2] + b"\r\n"
    return header[:12] + b"\x20\0" + header[14:16] + bytes(len(header) - 16)  # LOCAL: no addresses


def _begins_record(data: bytes) -> bool:
    """Whether at most five bytes can be a record's header, or begin one (RFC 8446, 5.1)."""
    if not 20 <= data[0] <= 24 or data[1:2] not in (b"", b"\x03") or data[2:3] > b"\x04":
        return False
    return len(data) < 5 or int.from_bytes(data[3:]) <= LARGEST_RECORD


@dataclass(slots=True)
class Handshake:
    """Handshake records that end in the middle of a message.

    Attributes:
        position: Where the next record begins in what is waiting.
        plain: What is in the records.
        spans: Where each of them begins and ends.
        boundary: Where the last whole message in `plain` ends.
    """

    position: int = 0
    plain: bytearray = field(default_factory=bytearray)
    spans: list[tuple[int, int]] = field(default_factory=list)
    boundary: int = 0

    def add(self, record: bytes) -> bool:
        """Take a record's contents; return whether they end with a message."""
        self.plain += record
        while len(self.plain) - self.boundary >= 4:
            end = self.boundary + 4 + int.from_bytes(self.plain[self.boundary + 1 : self.boundary + 4])
            if end > len(self.plain):
                break
            self.boundary = end
        return self.boundary == len(self.plain)


@dataclass(slots=True)
class Side:
    """One direction.

    Attributes:
        base: Sequence number of its first byte.
        seen: Where the furthest of its bytes ends.
        made: Its rewritten bytes, from the start.
        waiting: The original bytes behind them, as far as they are contiguous.
        pieces: What came ahead of its turn.
        handshake: The handshake records at the start of what is waiting.
        ciphered: Whether records are protected from here on, whatever their type.
        body_left: Bytes of a body that come before the next head.
        searched: How much of what is waiting holds no end of a head.
        tail: What rewrites the rest, once nothing more is read.
    """

    base: int | None = None
    seen: int = 0
    made: bytearray = field(default_factory=bytearray)
    waiting: bytearray = field(default_factory=bytearray)
    pieces: Reassembler = field(default_factory=lambda: Reassembler(limit=CLEAR_LIMIT))
    handshake: Handshake = field(default_factory=Handshake)
    ciphered: bool = False
    body_left: int = 0
    searched: int = 0
    tail: Tail | None = None

    def offset(self, seq: int) -> int:
        """Where a sequence number stands, near to where the stream has come."""
        ahead = ((seq - (self.base or 0) - self.seen + 0x8000_0000) & 0xFFFF_FFFF) - 0x8000_0000
        return self.seen + ahead


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
        self._hellos = hellos
        self._kind: Kind = "unknown"
        self._tls13 = False
        self._asked: Literal["tunnel", "message"] | None = None
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
            return self._records(side, from_client=from_client)
        return self._http(side, from_client=from_client)

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
            if len(client) < 8 and not _HEAD_END.search(client):
                return False
            self._kind = "http"
        elif not client and server.startswith(b"HTTP/1."):
            self._kind, self._asked = "http", "message"
        elif len(client) >= 6 or server:
            self.give_up()
        else:
            return False
        return True

    def _http(self, side: Side, *, from_client: bool) -> bool:
        if side.body_left:
            length = min(side.body_left, len(side.waiting))
            side.body_left -= length
            self._noise(side, length)
            return True
        if from_client and self._asked is not None:
            if self.sides[False].tail is None:
                return False  # what comes next depends on the answer
            self._close(side, records=False)
            return True
        if not from_client and self._asked is None:
            if self.sides[True].waiting:
                return False  # the rest of the request comes later
            self._close(side, records=False)
            return True
        start = 0
        while start < min(4, len(side.waiting)) and side.waiting[start] in b"\r\n":
            start += 1
        end = _HEAD_END.search(side.waiting, max(start, side.searched - 3))
        side.searched = 0 if end else len(side.waiting)
        if end is None:
            return False
        data = bytes(side.waiting[: end.end()])
        lead = data[:start]
        made = lead + http1.head(data[start:], self._mapping)
        side.made += made
        del side.waiting[: len(data)]
        if from_client:
            self._request(side, data)
        else:
            self._response(side, data[start:])
        return True

    def _request(self, side: Side, data: bytes) -> None:
        try:
            head = parse_request_head(data)
            udp = head is not None and connect_udp_target(head) is not None
            tunnel = head is not None and connect_target(head) is not None
        except DecodeError:
            self._close(side, records=False)
            self._asked = "message"
            return
        self._asked = "tunnel" if tunnel or udp else "message"
        if self.sides[False].body_left > CLEAR_LIMIT:
            self.sides[False].body_left = 0
        length = _LENGTH.search(data)
        if length is not None:
            side.body_left = int(length[1])
        elif not data.startswith((b"GET ", b"HEAD ", b"CONNECT ", b"OPTIONS ", b"DELETE ", b"TRACE ")):
            self._close(side, records=False)

    def _response(self, side: Side, data: bytes) -> None:
        status = int(data[9:12]) if data[9:12].isdigit() else 0
        if 100 <= status < 200 and status != 101:
            return
        asked, self._asked = self._asked, None
        if asked == "tunnel" and 200 <= status < 300:
            self._kind = "tls"
        elif status == 101:
            self.give_up()
        else:
            length = _LENGTH.search(data)
            if length is not None:
                side.body_left = int(length[1])
            elif status not in (204, 304):
                side.body_left = _UNTIL_ASKED

    def _records(self, side: Side, *, from_client: bool) -> bool:
        """Rewrite the records up to the end of a handshake message; from a protected record on nothing is read."""
        data = side.waiting
        kind = data[0]
        if kind == tls_names.HANDSHAKE and not side.ciphered:
            return self._handshake(side, from_client=from_client)
        if len(data) < 5:
            return False
        end = 5 + int.from_bytes(data[3:5])
        if not 20 <= kind <= 24 or data[1] != 3 or end > 5 + LARGEST_RECORD:
            self._close(side, records=False)
            return True
        if (kind in {tls_names.CHANGE_CIPHER_SPEC, tls_names.ALERT}) and not side.ciphered and end <= 7:
            if len(data) < end:
                return False
            side.made += data[:end]
            del data[:end]
            if kind == tls_names.CHANGE_CIPHER_SPEC and not self._tls13:
                side.ciphered = True
            return True
        self._close(side, records=True)
        return True

    def _handshake(self, side: Side, *, from_client: bool) -> bool:
        data, found = side.waiting, side.handshake
        while len(data) - found.position >= 5 and data[found.position] == tls_names.HANDSHAKE:
            begin = found.position
            end = begin + 5 + int.from_bytes(data[begin + 3 : begin + 5])
            if end > len(data) or end == begin + 5 or data[begin + 1] != 3:
                break
            found.spans.append((begin, end))
            found.position = end
            if not found.add(bytes(data[begin + 5 : end])):
                continue
            plain = bytes(found.plain)
            made, _ = self._hellos.messages(plain)
            if not from_client:
                self._chosen(plain)
            at = 0
            for start, stop in found.spans:
                size = stop - start - 5
                side.made += data[start : start + 5] + made[at : at + size]
                at += size
            del data[: found.position]
            side.handshake = Handshake()
            return True
        if len(data) - found.position >= 2 and not (
            data[found.position] == tls_names.HANDSHAKE and data[found.position + 1] == 3
        ):
            self._close(side, records=True)  # a message that is cut short, or an empty record
            return True
        return False

    def _chosen(self, plain: bytes) -> None:
        """Note from a ServerHello which version is spoken: in TLS 1.3 a ChangeCipherSpec means nothing."""
        if plain[:1] != bytes((tls_names.SERVER_HELLO,)):
            return
        try:
            hello = parse_server_hello(plain[4 : 4 + int.from_bytes(plain[1:4])])
        except DecodeError:
            return
        self._tls13 = hello.version == _TLS13 or hello.random == HELLO_RETRY_REQUEST

    def _noise(self, side: Side, length: int) -> None:
        """A body: as many letters."""
        side.made += b"x" * length
        del side.waiting[:length]

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
            self._salvage(side, start, waiting)
        side.pieces = Reassembler(limit=0)
        side.handshake = Handshake()

    def _salvage(self, side: Side, start: int, waiting: bytes) -> None:
        """Rewrite what is whole in handshake records that never became so, and show how the next message begins."""
        plain = bytearray()
        spans: list[tuple[int, int]] = []
        position = 0
        while waiting[position : position + 2] == b"\x16\x03":
            begin, position = position + 5, position + 5 + int.from_bytes(waiting[position + 3 : position + 5])
            spans.append((begin, min(position, len(waiting))))
            plain += waiting[begin:position]
        made, used = self._hellos.messages(bytes(plain))
        rest = bytes(plain[used:])
        shown = 6 if rest[:1] in (b"\x01", b"\x02") else 4  # a hello's version tells it from other bytes
        made += rest[:shown] + self._mapping.credential(rest[shown:])
        for begin, stop in spans:
            size = max(stop - begin, 0)
            side.made[start + begin : start + begin + size] = made[:size]
            made = made[size:]


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
