from __future__ import annotations

import socket
import sys
from typing import TYPE_CHECKING

import pytest

from h3probe.vantage.isolate.host_ports import has_ipv6_route, listening, ports_of

if TYPE_CHECKING:
    from pathlib import Path

TCP = """\
  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode
   0: 00000000:1151 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 1 1 0 100 0 0 10 0
   1: 0100007F:0050 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 2 1 0 100 0 0 10 0
   2: 020200C0:01BB 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 3 1 0 100 0 0 10 0
   3: 0100007F:9999 0100007F:0050 01 00000000:00000000 00:00000000 00000000     0        0 4 1 0 20 4 30 10 -1
   4: 0500007F:7777 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 7 1 0 100 0 0 10 0
"""
TCP6 = """\
  sl  local_address                         remote_address                        st tx_queue rx_queue
   0: 00000000000000000000000000000000:1F90 00000000000000000000000000000000:0000 0A 00000000:00000000
   1: 00000000000000000000000001000000:0BB8 00000000000000000000000000000000:0000 0A 00000000:00000000
   2: 0000000000000000FFFF00000100007F:0BB9 00000000000000000000000000000000:0000 0A 00000000:00000000
   3: B80D0120000000000000000002000000:01BB 00000000000000000000000000000000:0000 0A 00000000:00000000
"""
UDP = """\
   sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode ref pointer drops
  10: 00000000:1151 00000000:0000 07 00000000:00000000 00:00000000 00000000     0        0 5 2 0 0
  11: 0100007F:D431 0100007F:1151 01 00000000:00000000 00:00000000 00000000     0        0 6 2 0 0
"""


@pytest.mark.skipif(sys.byteorder == "big", reason="the table is in the byte order of the machine")
def test_tables_are_read(tmp_path: Path) -> None:
    """127.0.0.1, ::1 and any address count, other addresses and connections do not; [::] serves both families."""
    for name, text in (("tcp", TCP), ("tcp6", TCP6), ("udp", UDP)):
        (tmp_path / name).write_text(text)
    assert listening(tmp_path) == {
        "tcp4": {4433, 80, 8080, 3001},
        "tcp6": {8080, 3000},
        "udp4": {4433},
        "udp6": frozenset(),
    }


@pytest.mark.parametrize("line", ["", "0:", "0: x y z", "0: 00000000:0000 00000000:0000 0A 0"])
def test_lines_that_say_nothing(line: str) -> None:
    """A line that is short, or has no port, is passed over."""
    assert ports_of([line], "tcp", "4") == {"4": set(), "6": set()}


@pytest.mark.skipif(sys.platform != "linux", reason="Linux's own tables")
@pytest.mark.parametrize(
    ("family", "host", "name"), [(socket.AF_INET, "127.0.0.1", "4"), (socket.AF_INET6, "::1", "6")]
)
def test_this_hosts_own_sockets_are_found(family: socket.AddressFamily, host: str, name: str) -> None:
    """What is opened here is in the kernel's tables."""
    with socket.create_server((host, 0), family=family) as tcp, socket.socket(family, socket.SOCK_DGRAM) as udp:
        udp.bind((host, 0))
        found = listening()
        assert tcp.getsockname()[1] in found[f"tcp{name}"]
        assert udp.getsockname()[1] in found[f"udp{name}"]


ZEROS = "0" * 32
UNREACHABLE = f"{ZEROS} 00 {ZEROS} 00 {ZEROS} ffffffff 00000001 00000000 00200200       lo\n"
ROUTE6 = f"{ZEROS} 00 {ZEROS} 00 fd000000000000000000000000000001 00000400 00000005 00000000 00000003     eth0\n"


@pytest.mark.parametrize(("table", "expected"), [(ROUTE6 + UNREACHABLE, True), (UNREACHABLE, False), (None, False)])
def test_a_default_route(tmp_path: Path, table: str | None, expected: bool) -> None:  # noqa: FBT001 - a parameter
    """A default route counts, the kernel's own refusal of everything on loopback does not."""
    if table is not None:
        (tmp_path / "ipv6_route").write_text(table)
    assert has_ipv6_route(tmp_path) is expected
