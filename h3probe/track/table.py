"""A table with a limit: what is used least recently leaves first, and its leaving is counted."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator


class BoundedTable[K, V]:
    """A mapping that never holds more than `limit` entries.

    Attributes:
        limit: The most entries held.
        evicted: How many had to leave.
    """

    __slots__ = ("_entries", "evicted", "limit")

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.evicted = 0
        self._entries: dict[K, V] = {}

    def __len__(self) -> int:
        return len(self._entries)

    def __contains__(self, key: K) -> bool:
        return key in self._entries

    def __iter__(self) -> Iterator[V]:
        return iter(list(self._entries.values()))

    def get(self, key: K) -> V | None:
        """Return the entry and mark it as used, or None."""
        value = self._entries.pop(key, None)
        if value is not None:
            self._entries[key] = value
        return value

    def put(self, key: K, value: V) -> list[V]:
        """Set an entry; return the entries that had to leave for it."""
        self._entries.pop(key, None)
        self._entries[key] = value
        gone: list[V] = []
        while len(self._entries) > self.limit:
            gone.append(self._entries.pop(next(iter(self._entries))))
            self.evicted += 1
        return gone

    def pop(self, key: K) -> V | None:
        """Take an entry out, or None."""
        return self._entries.pop(key, None)
