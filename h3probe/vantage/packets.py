"""What a sniffer's socket gives, before duplicates are left out and frames are numbered."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Protocol

if TYPE_CHECKING:
    import socket
    from collections.abc import Collection, Sequence

    from h3probe.vantage.ordinary import Apart
    from h3probe.vantage.ring import Ring


class Packet(NamedTuple):
    """One packet as one interface showed it.

    Attributes:
        time_ns: Nanoseconds since the Unix epoch.
        link_type: A LINKTYPE_ number.
        data: From the link header on.
        length: The bytes that were on the wire.
        interface: Its name.
        network: Where in `data` the network header begins; None where the source does not say.
        outgoing: Whether this host sent it.
    """

    time_ns: int
    link_type: int
    data: bytes
    length: int
    interface: str
    network: int | None
    outgoing: bool


class Source(Protocol):
    """A system's way to see packets."""

    @property
    def sockets(self) -> Sequence[socket.socket]:
        """What to wait for; anything with `fileno()`."""

    @property
    def wide(self) -> Ring | None:
        """Where packets come that only count, once they are set apart."""

    def watch(self, interfaces: Collection[int]) -> None:
        """Watch the interfaces with these indexes."""

    def keep_whole(self) -> None:
        """Let every packet come, and whole."""

    def set_apart(self, apart: Apart) -> bool:
        """Let what only counts of these flows come apart from all the rest; whether the system can do that."""

    def clear(self) -> None:
        """Leave out what waits, and count from here."""

    def make_room(self) -> None:
        """Let there be room for packets while those that wait are read."""

    def read(self) -> Packet | None:
        """The next packet that waits, or None; never blocks."""

    def statistics(self) -> tuple[int, int]:
        """(received, dropped) since the start, of what `read` gives."""

    def unread(self) -> int:
        """Packets received that `read` has not given; it may take a moment until it can."""

    def close(self) -> None:
        """Give everything back."""
