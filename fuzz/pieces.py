"""Several inputs in one: each behind its length in two bytes."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

LARGEST = 0xFFFF


def split(data: bytes) -> Iterator[bytes]:
    """Yield the pieces; the last one may be shorter than it says."""
    at = 0
    while len(data) > at + 2:
        begin = at + 2
        at = begin + int.from_bytes(data[at:begin])
        yield data[begin:at]


def join(pieces: Iterable[bytes]) -> bytes:
    """Put together what `split` takes apart; a piece that is too long for its length is left out."""
    return b"".join(len(piece).to_bytes(2) + piece for piece in pieces if len(piece) <= LARGEST)
