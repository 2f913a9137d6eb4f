"""Which ports the host listens on, where the command may expect to find them: on its loopback."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final

from h3probe.vantage.isolate.scripts import PORT_SETS

if TYPE_CHECKING:
    from collections.abc import Iterable

Ports = dict[str, frozenset[int]]
"""For each of `PORT_SETS`."""

_LISTEN: Final = {"tcp": "0A", "udp": "07"}  # TCP_LISTEN, TCP_CLOSE: a datagram socket without a peer
_ANY: Final = {"4": "0" * 8, "6": "0" * 32}
_LOOPBACK: Final = "0100007F"  # 127.0.0.1, in the byte order of x86 and ARM; no other is what an uplink connects to
_MAPPED_LOOPBACK: Final = "0000000000000000FFFF00000100007F"


def listening(folder: Path = Path("/proc/self/net")) -> Ports:
    """Give what is listened on, as far as it can be reached at 127.0.0.1 (`…4`) and at ::1 (`…6`)."""
    found: Ports = {}
    for kind in ("tcp", "udp"):
        four = ports_of(_lines(folder / kind), kind, "4")
        six = ports_of(_lines(folder / f"{kind}6"), kind, "6")
        found[f"{kind}6"] = frozenset(six["6"])
        found[f"{kind}4"] = frozenset(four["4"] | six["4"])
    return {name: found[name] for name in PORT_SETS}


def ports_of(lines: Iterable[str], kind: str, version: str) -> dict[str, set[int]]:
    """Read the lines of a table such as /proc/net/udp6, without its heading.

    Returns:
        "4" and "6": the ports that can be reached over IPv4 and IPv6. A socket at [::] is taken to serve both: the
        table does not tell whether it is for IPv6 alone, and what it does not serve is refused by the host.
    """
    ports: dict[str, set[int]] = {"4": set(), "6": set()}
    for line in lines:
        fields = line.split(maxsplit=4)
        if len(fields) < 4 or fields[3] != _LISTEN[kind]:
            continue
        address, _, port = fields[1].partition(":")
        number = int(port, 16)
        if not number or (kind == "udp" and not fields[2].endswith(":0000")):
            continue
        if version == "4":
            if address in {_ANY["4"], _LOOPBACK}:
                ports["4"].add(number)
        elif address == _ANY["6"]:
            ports["4"].add(number)
            ports["6"].add(number)
        elif address == _MAPPED_LOOPBACK:
            ports["4"].add(number)
        elif address.startswith("0" * 24) and address[24:] != "0" * 8:
            ports["6"].add(number)
    return ports


def _lines(path: Path) -> list[str]:
    try:
        return path.read_text().splitlines()[1:]
    except OSError:  # a kernel without IPv6
        return []


def has_ipv6_route(folder: Path = Path("/proc/self/net")) -> bool:
    """Say whether the host has a default route for IPv6; the kernel's own refusal of everything is none."""
    try:
        rows = [line.split() for line in (folder / "ipv6_route").read_text().splitlines()]
    except OSError:
        return False
    # destination, its length, …, flags, interface
    return any(row[0] == "0" * 32 and row[1] == "00" and row[9] != "lo" for row in rows)
