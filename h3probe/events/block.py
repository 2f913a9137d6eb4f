"""Many frames at once, and what is told of those that need not be looked at one by one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from h3probe.events.wire import Frame
from h3probe.facts import fact

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

PADDING = 128
"""Bytes behind the last frame of a block's data that may be read, whatever they are."""


@dataclass(frozen=True, slots=True)
class Block:
    """Frames of one link type that stand in one buffer, in the order of the source; gone when the next one is read.

    Attributes:
        first: The number of the first of them.
        link_type: A LINKTYPE_ number.
        data: The buffer; `PADDING` bytes more than the frames take.
        starts: Where each begins in it.
        captured: How many bytes of it were captured.
        lengths: How many bytes were on the wire; never fewer.
        times_ns: When it was captured.
        interface: The interface's name, where the source knows it.
    """

    first: int
    link_type: int
    data: bytearray
    starts: NDArray[np.int64]
    captured: NDArray[np.int64]
    lengths: NDArray[np.int64]
    times_ns: NDArray[np.int64]
    interface: str | None = None

    def __len__(self) -> int:
        return len(self.starts)

    def frame(self, index: int) -> Frame:
        """One of them."""
        start = self.starts.item(index)
        return Frame(
            self.first + index,
            self.times_ns.item(index),
            self.link_type,
            bytes(self.data[start : start + self.captured.item(index)]),
            self.lengths.item(index),
            self.interface,
        )


@fact
class SideCount:
    """Packets that one side of a flow sent.

    Attributes:
        packets: How many.
        bytes: Their payload: UDP's or TCP's.
        largest: The largest of it.
        last: The number of the latest frame.
        last_ns: When that was captured.
        reach: TCP's sequence number and size of that payload that goes furthest; None without payload.
    """

    packets: int
    bytes: int
    largest: int
    last: int
    last_ns: int
    reach: tuple[int, int] | None = None


class Answer(NamedTuple):
    """A payload that may answer one.

    Attributes:
        asked: The number and the time of the frame before it that asked; None where that came before these frames.
        time_ns: When it was captured.
        size: Its payload, bytes.
    """

    asked: tuple[int, int] | None
    time_ns: int
    size: int


class Unheard(NamedTuple):
    """What a QUIC client sent after the last of its server's packets.

    Attributes:
        first: The number and the time of its first packet among these frames; None where its server's came later.
        tries: How many of the others came long after the one before.
        tried: The number and the time of the first of those.
    """

    first: tuple[int, int] | None
    tries: int = 0
    tried: tuple[int, int] | None = None


@fact
class FlowCount:
    """Packets of a connection of which single ones tell nothing more.

    Attributes:
        connection: Its id.
        client: What its client sent; None for nothing.
        server: What its server sent.
        order: Whose the first packets are, True for the client's: as many as matter.
        turned: Whether there was any payload that is a question or an answer.
        answers: The server's that come first, or next after one of the client's.
        asking: The number and the time of the client's latest one, if no answer came after it.
        unheard: What a QUIC client sent last; None where its server did.
    """

    connection: str
    client: SideCount | None
    server: SideCount | None
    order: tuple[bool, ...] = ()
    turned: bool = False
    answers: tuple[Answer, ...] = ()
    asking: tuple[int, int] | None = None
    unheard: Unheard | None = None

    @property
    def last(self) -> tuple[int, int]:
        """The number and the time of the latest frame."""
        return max((side.last, side.last_ns) for side in (self.client, self.server) if side is not None)


@fact
class Counted:
    """Frames that were counted and not looked at one by one.

    Attributes:
        frames: How many, those without a connection included.
        time_ns: The latest of their times.
        flows: Those that belong to connections.
    """

    frames: int
    time_ns: int
    flows: tuple[FlowCount, ...] = ()
