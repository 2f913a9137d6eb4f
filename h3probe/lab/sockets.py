"""How many sockets and descriptors a client has open at once."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    import psutil

_INTERVAL_S: Final = 0.1
_SOCKET: Final = "socket:["


@dataclass(frozen=True, slots=True)
class Counted:
    """The most that was seen at once.

    Attributes:
        udp_sockets: UDP sockets.
        descriptors: File descriptors, sockets among them.
    """

    udp_sockets: int
    descriptors: int


class Counter:
    """Looks at a process below another one, again and again.

    Args:
        pid: The other one.
        name: The program's name, without its folder.
    """

    def __init__(self, pid: int, name: str) -> None:
        self._pid = pid
        self._name = name
        self.most: Counted | None = None

    async def count(self) -> None:
        """Look until cancelled; the most that was seen stands in `most`."""
        import psutil  # noqa: PLC0415 - only where it is used

        found: psutil.Process | None = None
        while True:
            try:
                found = found or self._find(psutil.Process(self._pid))
                if found is not None:
                    self._take(Counted(_udp_sockets(found), found.num_fds()))
            except (psutil.Error, OSError):
                found = None
            await asyncio.sleep(_INTERVAL_S)

    def _find(self, parent: psutil.Process) -> psutil.Process | None:
        return next((each for each in parent.children(recursive=True) if each.name() == self._name), None)

    def _take(self, counted: Counted) -> None:
        most = self.most or counted
        udp_sockets = max(most.udp_sockets, counted.udp_sockets)
        self.most = Counted(udp_sockets, max(most.descriptors, counted.descriptors))


def _udp_sockets(process: psutil.Process) -> int:
    """Its UDP sockets, in whichever network namespace it lives: the table is that namespace's, the inodes its own."""
    folder = Path("/proc") / str(process.pid)
    if not folder.exists():  # not Linux
        return len(process.net_connections("udp"))
    rows = [line.split() for table in ("udp", "udp6") for line in _lines(folder / "net" / table)]
    inodes = {row[9] for row in rows if len(row) > 9}
    links = (_link(each) for each in (folder / "fd").iterdir())
    return sum(link.removeprefix(_SOCKET).removesuffix("]") in inodes for link in links if link.startswith(_SOCKET))


def _lines(path: Path) -> list[str]:
    try:
        return path.read_text().splitlines()[1:]
    except OSError:  # a kernel without IPv6
        return []


def _link(path: Path) -> str:
    try:
        return str(path.readlink())
    except OSError:  # closed meanwhile
        return ""
