"""Puts the pieces of one byte stream in order: a CRYPTO stream, or one direction of a TCP connection."""

from __future__ import annotations

BLOCK = 512
"""Bytes that are stored together once a piece arrives ahead of its turn; bounds what one tiny piece can cost."""


class Reassembler:
    """A stream from offset 0, from pieces in any order that may repeat and overlap.

    Bytes beyond the contiguous prefix wait in sparse blocks with a mark per byte, so a piece costs time in
    proportion to its own length whatever came before it, and the memory is at most twice `limit` and the
    blocks' overhead, however the stream was cut.

    Args:
        limit: The offset past which nothing is stored; it moves on with what is taken away.

    Attributes:
        conflict: Whether an overlap brought other bytes than were there; the first ones are kept.
        overflow: Whether something past `limit` was left out.
    """

    __slots__ = ("_blocks", "_contiguous", "_limit", "_prefix", "_taken", "conflict", "overflow")

    def __init__(self, limit: int = 131072) -> None:
        self.conflict = False
        self.overflow = False
        self._limit = limit
        self._prefix = bytearray()
        self._taken = 0
        self._contiguous: bytes | None = b""
        self._blocks: dict[int, tuple[bytearray, bytearray]] = {}

    @property
    def contiguous(self) -> bytes:
        """The stream from 0, or from what was taken last, to its first gap."""
        if self._contiguous is None:
            self._contiguous = bytes(self._prefix)
        return self._contiguous

    @property
    def held(self) -> int:
        """Bytes of memory that what is not yet taken needs, about."""
        return len(self._prefix) + 2 * BLOCK * len(self._blocks)

    @property
    def taken(self) -> int:
        """How many bytes were taken."""
        return self._taken

    def take(self) -> bytes:
        """Return the contiguous bytes that have not been taken yet, and forget them."""
        taken = bytes(self._prefix)
        self._taken += len(taken)
        self._prefix.clear()
        self._contiguous = None
        return taken

    @property
    def gaps(self) -> tuple[tuple[int, int], ...]:
        """What is missing below the highest byte seen, as (start, end) with the end excluded."""
        found: list[tuple[int, int]] = []
        position = self._taken + len(self._prefix)
        for index in sorted(self._blocks):
            seen = self._blocks[index][1]
            base = index * BLOCK
            start = seen.find(1, max(position - base, 0))
            while start != -1:
                if base + start > position:
                    found.append((position, base + start))
                end = seen.find(0, start)
                position = base + (BLOCK if end == -1 else end)
                start = -1 if end == -1 else seen.find(1, end)
        return tuple(found)

    def add(self, offset: int, data: bytes) -> bool:
        """Add a piece; returns True when the contiguous prefix grew.

        Args:
            offset: Where the piece begins; what lies before 0, or was taken already, is ignored.
            data: The piece, which may be empty.
        """
        if offset < self._taken:
            data, offset = data[self._taken - offset :], self._taken
        limit = self._taken + self._limit
        if data and offset + len(data) > limit:
            self.overflow = True
            data = data[: max(limit - offset, 0)]
        known = self._taken + len(self._prefix)
        if offset < known:
            already = data[: known - offset]
            start = offset - self._taken
            if already != self._prefix[start : start + len(already)]:
                self.conflict = True
            data, offset = data[len(already) :], known
        if not data:
            return False
        if offset == known and not self._blocks:
            self._prefix += data
        else:
            self._store(offset, data)
            self._drain()
        if self._taken + len(self._prefix) == known:
            return False
        self._contiguous = None
        return True

    def _store(self, offset: int, data: bytes) -> None:
        """Keep a piece that lies wholly past the prefix."""
        taken = 0
        while taken < len(data):
            index, start = divmod(offset + taken, BLOCK)
            piece = data[taken : taken + BLOCK - start]
            if index not in self._blocks:
                self._blocks[index] = (bytearray(BLOCK), bytearray(BLOCK))
            kept, seen = self._blocks[index]
            self._fill(kept, seen, start, piece)
            taken += len(piece)

    def _fill(self, kept: bytearray, seen: bytearray, start: int, piece: bytes) -> None:
        """Write a piece into one block, bytes that are there already first."""
        end = start + len(piece)
        marks = seen[start:end]
        if 1 in marks:
            old = kept[start:end]
            merged = bytes(o if mark else new for o, new, mark in zip(old, piece, marks, strict=True))
            # The merged bytes differ from the piece only where a byte was there and was another one.
            self.conflict = self.conflict or merged != piece
            piece = merged
        kept[start:end] = piece
        seen[start:end] = b"\x01" * len(piece)

    def _drain(self) -> None:
        """Move what has become contiguous from the blocks to the prefix."""
        while True:
            index, start = divmod(self._taken + len(self._prefix), BLOCK)
            if index not in self._blocks:
                return
            kept, seen = self._blocks[index]
            end = seen.find(0, start)
            if end != -1:
                self._prefix += kept[start:end]
                if seen.find(1, end) == -1:
                    del self._blocks[index]
                return
            self._prefix += kept[start:]
            del self._blocks[index]
