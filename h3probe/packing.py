"""Many objects of a kind in little room, until somebody asks for them."""

from __future__ import annotations

import pickle
import zlib
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

PLAIN: Final = 2_000
"""So many are kept as they are: packing takes its time, and few runs have more."""
SAMPLES: Final = 16
"""Of so many of them the packed ones are like."""
# zlib's window, and how much memory its tables take: small ones are cheap to set up for a record, and what is much is
# packed a third tighter with large ones.
_SMALL: Final = -13, 4
_LARGE: Final = -15, 8
_MUCH: Final = 4096
_LEVEL: Final = 1


class Packing:
    """Packs objects, and unpacks them: what they have in common with some others of their kind is not stored.

    Nothing that was packed may come from elsewhere: it is pickled.

    Args:
        samples: Some others; those that come last are the best known.
    """

    def __init__(self, samples: Iterable[object]) -> None:
        self._known = b"".join(map(_pickled, samples))[-(1 << -_SMALL[0]) :]

    def pack(self, value: object) -> bytes:
        """Pack one."""
        data = _pickled(value)
        window, memory = _LARGE if len(data) > _MUCH else _SMALL
        packing = zlib.compressobj(_LEVEL, zlib.DEFLATED, window, memory, zlib.Z_DEFAULT_STRATEGY, self._known)
        return packing.compress(data) + packing.flush()

    def unpack(self, packed: bytes) -> Any:  # noqa: ANN401 - whatever was packed
        """Unpack what was packed here."""
        return pickle.loads(zlib.decompressobj(_LARGE[0], self._known).decompress(packed))  # noqa: S301 - packed here


class Shelf[Record]:
    """A list that packs all but the first records.

    A record takes some 1.5 kB, a packed one some 30 to 200 bytes: most of what is said of one connection is said of
    others too.

    Args:
        plain: How many are kept as they are.
    """

    def __init__(self, plain: int = PLAIN) -> None:
        self._plain: list[Record] = []
        self._packed: list[bytes] = []
        self._limit = plain
        self._packing: Packing | None = None

    def __len__(self) -> int:
        return len(self._plain) + len(self._packed)

    def __getitem__(self, place: int) -> Record:
        if self._packing is None or place < len(self._plain):
            return self._plain[place]
        record: Record = self._packing.unpack(self._packed[place - len(self._plain)])
        return record

    def __iter__(self) -> Iterator[Record]:
        return (self[place] for place in range(len(self)))

    def append(self, record: Record) -> None:
        """Put one at the end."""
        if len(self._plain) < self._limit:
            self._plain.append(record)
            return
        self._packing = self._packing or Packing(self._plain[-SAMPLES:])
        self._packed.append(self._packing.pack(record))


def _pickled(value: object) -> bytes:
    return pickle.dumps(value, pickle.HIGHEST_PROTOCOL)
