"""A table with a limit: what is used least recently leaves first, and its leaving is counted."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass
from heapq import heapify, heappop, heappush
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


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
        # Not a dict: that one looks for its first entry past all that ever stood before it.
        self._entries: OrderedDict[K, V] = OrderedDict()

    def __len__(self) -> int:
        return len(self._entries)

    def __contains__(self, key: K) -> bool:
        return key in self._entries

    def __iter__(self) -> Iterator[V]:
        return iter(list(self._entries.values()))

    def peek(self, key: K) -> V | None:
        """Return the entry, or None."""
        return self._entries.get(key)

    def get(self, key: K) -> V | None:
        """Return the entry and mark it as used, or None."""
        value = self._entries.get(key)
        if value is not None:
            self._entries.move_to_end(key)
        return value

    def put(self, key: K, value: V) -> list[V]:
        """Set an entry; return the entries that had to leave for it."""
        self._entries[key] = value
        self._entries.move_to_end(key)
        gone: list[V] = []
        while len(self._entries) > self.limit:
            gone.append(self._entries.popitem(last=False)[1])
            self.evicted += 1
        return gone

    def pop(self, key: K) -> V | None:
        """Take an entry out, or None."""
        return self._entries.pop(key, None)


@dataclass(slots=True)
class _Held[V]:
    """An entry, and when it was used last."""

    value: V
    used: int


class RecencyTable[K, V]:
    """A `BoundedTable` whose entries know when they were used last, so that uses may be told late and out of order.

    Attributes:
        limit: The most entries held.
        evicted: How many had to leave.
        now: When what is used now is used: a number that never falls.
        on_leave: Called with an entry that would have to leave; it may tell of later uses, and another one leaves.
    """

    __slots__ = ("_entries", "_queue", "evicted", "limit", "now", "on_leave")

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.evicted = 0
        self.now = 0
        self.on_leave: Callable[[V], None] | None = None
        self._entries: dict[K, _Held[V]] = {}
        # Who may have to leave next; made when that is first asked. An entry that was used since is put back.
        self._queue: list[tuple[int, K]] | None = None

    def __len__(self) -> int:
        return len(self._entries)

    def __contains__(self, key: K) -> bool:
        return key in self._entries

    def peek(self, key: K) -> V | None:
        """Return the entry, or None."""
        held = self._entries.get(key)
        return None if held is None else held.value

    def get(self, key: K) -> V | None:
        """Return the entry and mark it as used, or None."""
        held = self._entries.get(key)
        if held is None:
            return None
        held.used = self.now
        return held.value

    def use(self, key: K, when: int) -> None:
        """Note that an entry was used, which may be some time ago."""
        held = self._entries[key]
        held.used = max(held.used, when)

    def put(self, key: K, value: V) -> list[V]:
        """Set an entry; return the entries that had to leave for it."""
        self._entries[key] = _Held(value, self.now)
        if self._queue is not None:
            heappush(self._queue, (self.now, key))
        gone: list[V] = []
        while len(self._entries) > self.limit:
            gone.append(self._leave())
            self.evicted += 1
        return gone

    def pop(self, key: K) -> V | None:
        """Take an entry out, or None."""
        held = self._entries.pop(key, None)
        return None if held is None else held.value

    def _leave(self) -> V:
        """Take out what was used least recently."""
        if self._queue is None or len(self._queue) > 4 * self.limit:
            self._queue = [(held.used, key) for key, held in self._entries.items()]
            heapify(self._queue)
        while True:
            when, key = heappop(self._queue)
            held = self._entries.get(key)
            if held is None:
                continue
            if held.used == when and self.on_leave is not None:
                self.on_leave(held.value)
            if held.used == when:
                del self._entries[key]
                return held.value
            heappush(self._queue, (held.used, key))
