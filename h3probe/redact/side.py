"""One direction of a TCP connection: what came, what waits to be whole, and what was made of it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Literal

from h3probe.wire.reassembly import Reassembler

if TYPE_CHECKING:
    from h3probe.redact.tail import Tail

CLEAR_LIMIT: Final = 64 << 10
"""Bytes of one direction that may be in the clear: heads, hellos, a certificate chain."""

Step = Literal["waits", "moved", "ends", "protected", "tunnel", "opaque"]
"""What a message, or the want of one, does to a direction.

`waits` for more bytes, or for the other direction; `moved` past a message; `ends`: from here on nothing is read;
`protected`: the same, and what comes is TLS records. Or to the connection: a `tunnel` is open, in which TLS is spoken;
what is spoken is `opaque` from here on, in both directions.
"""


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
