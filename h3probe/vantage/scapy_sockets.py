"""Watching interfaces where there is no AF_PACKET: scapy's own sockets (BPF devices on macOS, Npcap on Windows).

Tried on Linux only, where scapy's socket stands in for theirs. What is poorer than `h3probe.vantage.linux`: an
interface that comes later is not watched, no filter runs in the kernel, times pass through a float, and nothing is
known of packets dropped.
"""

from __future__ import annotations

import contextlib
import socket
import time
from collections import deque
from typing import TYPE_CHECKING, Any

from h3probe.errors import PrivilegeError
from h3probe.vantage.packets import Packet

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from h3probe.vantage.ordinary import Apart

_ETHERNET = 1
_RAW = 101
_DLT_RAW = (12, 14)  # what the systems call LINKTYPE_RAW; the numbers in files are the same everywhere
_ROUND = 64


class ScapySource:
    """One scapy listening socket per interface.

    Raises:
        PrivilegeError: None of the interfaces could be opened.
    """

    def __init__(self, *, interfaces: Collection[int] = ()) -> None:
        self._waiting: deque[Packet] = deque()
        self._received = 0
        self._sockets: list[tuple[str, int, Any]] = []
        self._open(interfaces)

    def _open(self, interfaces: Collection[int]) -> None:
        from scapy.config import conf  # noqa: PLC0415 - heavy, and needed only here
        from scapy.error import Scapy_Exception  # noqa: PLC0415 - the same
        from scapy.layers import inet, inet6, l2  # noqa: F401, PLC0415 - they register the link types

        failure: Exception | None = None
        for index in interfaces or [index for index, _ in socket.if_nameindex()]:
            name = socket.if_indextoname(index)
            try:
                opened = conf.L2listen(iface=name, promisc=False)
            except (OSError, Scapy_Exception) as error:
                failure = error
                continue
            number = conf.l2types.layer2num.get(getattr(opened, "guessed_cls", opened.LL), _ETHERNET)
            self._sockets.append((name, _RAW if number in _DLT_RAW else number, opened))
        if not self._sockets:
            raise PrivilegeError(
                f"watching interfaces needs administrator's rights ({failure}); `h3probe watch --relay PORT=HOST:PORT` "
                "and `h3probe explain FILE` need nothing"
            ) from failure

    @property
    def sockets(self) -> Sequence[Any]:
        """The sockets of scapy, which have a `fileno()`."""
        return [opened for _, _, opened in self._sockets]

    def watch(self, interfaces: Collection[int]) -> None:
        """Watch these interfaces instead."""
        self.close()
        self._open(interfaces)

    @property
    def wide(self) -> None:
        """Nothing comes apart from the rest."""

    def keep_whole(self) -> None:
        """They do."""

    def set_apart(self, apart: Apart) -> bool:  # noqa: ARG002 - as of `Source`
        """Never: a filter of ours is not known to every system."""
        return False

    def clear(self) -> None:
        """Nothing: no losses are known that would be a reason."""

    def make_room(self) -> None:
        """Nothing: how much room there is, is the system's."""

    def read(self) -> Packet | None:
        """The next packet; a round over all sockets is put into the order of time."""
        if not self._waiting:
            self._waiting.extend(sorted(self._round(), key=lambda packet: packet.time_ns))
            self._received += len(self._waiting)
        return self._waiting.popleft() if self._waiting else None

    def _round(self) -> list[Packet]:
        found = []
        for name, link_type, opened in self._sockets:
            for _ in range(_ROUND):
                if not type(opened).select([opened], 0):
                    break
                _, data, seconds = opened.recv_raw()
                if data is None:
                    break
                time_ns = time.time_ns() if seconds is None else int(seconds * 1_000_000_000)
                network = {_ETHERNET: 14, _RAW: 0}.get(link_type)
                found.append(Packet(time_ns, link_type, bytes(data), len(data), name, network, outgoing=False))
        return found

    def statistics(self) -> tuple[int, int]:
        """(received, 0): nothing is known of losses."""
        return self._received, 0

    def unread(self) -> int:
        """What a round brought and nobody took yet."""
        return len(self._waiting)

    def close(self) -> None:
        """Close all sockets."""
        for _, _, opened in self._sockets:
            with contextlib.suppress(OSError):
                opened.close()
        self._sockets.clear()
