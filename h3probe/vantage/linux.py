"""What only Linux has, but for the packet sockets (`two_sockets`, `ring`) and splicing (`relay_splice`).

Its reasons: asking the kernel for one socket takes microseconds, where reading its whole table, as portable code must,
takes milliseconds, in which a short-lived client is gone; capabilities and `no_new_privs` are what giving up root means
there; and the don't-fragment option has another name on every system. Nothing here is needed to explain a capture, to
relay or to run the lab. The numbers are those of asm-generic, linux/sock_diag.h, linux/prctl.h and linux/capability.h,
which Python does not name.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import socket
import struct
import sys
from pathlib import Path, PurePath
from typing import TYPE_CHECKING

from h3probe.vantage.pace import Pace

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from h3probe.events import Endpoint

_SOCK_DIAG_BY_FAMILY = 20
_NLM_F_REQUEST = 1
_NETLINK_SOCK_DIAG = 4
_NETLINK_HEADER = struct.Struct("=IHHII")  # length, type, flags, sequence, port
_DIAG_REQUEST = struct.Struct("=BBBBI")  # family, protocol, extensions, padding, states
_DIAG_NO_INTERFACE_NO_COOKIE = struct.pack("=III", 0, 0xFFFFFFFF, 0xFFFFFFFF)
_DIAG_INODE = 16 + 4 + 48 + 16  # behind both headers: the last field of struct inet_diag_msg
_UDP = 17
_ALL_PROCESSES_INTERVAL_S = 0.05
MAIN_THREAD = "MainThread"
"""What Node calls its main thread, and with it the process."""


def diagnostic_socket() -> socket.socket:
    """A socket that the kernel answers questions on, about the sockets of the network namespace that it is made in."""
    return socket.socket(socket.AF_NETLINK, socket.SOCK_RAW | socket.SOCK_CLOEXEC, _NETLINK_SOCK_DIAG)


class SocketOwners:
    """The kernel's own table of sockets, asked for one socket at a time (sock_diag(7)), and whose they are.

    Args:
        opened: A socket to ask, of another network namespace (`diagnostic_socket`); its own unless given.
    """

    def __init__(self, opened: socket.socket | None = None) -> None:
        self._socket = diagnostic_socket() if opened is None else opened
        self._socket.settimeout(0.1)
        self._sequence = 0
        self._pids: dict[int, int] = {}
        self._pace = Pace(_ALL_PROCESSES_INTERVAL_S)

    def pid(self, protocol: int, local: Endpoint, remote: Endpoint, *, first: Collection[int]) -> int | None:
        """The process that owns the socket which packets from `remote` to `local` are for.

        Args:
            protocol: 6 or 17.
            local: The socket's own side.
            remote: Its peer.
            first: Processes to look at before all others, which is cheap.
        """
        inode = self.inode(protocol, local, remote)
        if inode is None:
            return None
        for pid in first:
            if inode in socket_inodes(pid):
                return pid
        if inode not in self._pids and self._pace.begin():
            self._pids = {}
            for pid in sorted(int(path.name) for path in Path("/proc").iterdir() if path.name.isdecimal()):
                for each in socket_inodes(pid):
                    self._pids.setdefault(each, pid)  # of several that share it, the first is the eldest as a rule
            self._pace.end()
        return self._pids.get(inode)

    def inode(self, protocol: int, local: Endpoint, remote: Endpoint) -> int | None:
        """The inode of the socket that packets from `remote` to `local` are for; None when there is none."""
        # For UDP the kernel takes the two the other way round, "for historical reasons" (net/ipv4/udp_diag.c).
        first, second = (remote, local) if protocol == _UDP else (local, remote)
        self._sequence = (self._sequence + 1) & 0xFFFFFFFF
        family = socket.AF_INET if len(local.host) == 4 else socket.AF_INET6
        request = (
            _DIAG_REQUEST.pack(family, protocol, 0, 0, 0xFFFFFFFF)
            + struct.pack("!HH16s16s", first.port, second.port, first.host, second.host)
            + _DIAG_NO_INTERFACE_NO_COOKIE
        )
        length = _NETLINK_HEADER.size + len(request)
        header = _NETLINK_HEADER.pack(length, _SOCK_DIAG_BY_FAMILY, _NLM_F_REQUEST, self._sequence, 0)
        try:
            self._socket.send(header + request)
            while True:
                answer = self._socket.recv(8192)
                _, kind, _, sequence, _ = _NETLINK_HEADER.unpack_from(answer)
                if sequence == self._sequence:
                    break
        except OSError:
            return None
        if kind != _SOCK_DIAG_BY_FAMILY or len(answer) < _DIAG_INODE + 4:
            return None
        return int.from_bytes(answer[_DIAG_INODE : _DIAG_INODE + 4], sys.byteorder) or None


def socket_inodes(pid: int) -> list[int]:
    """The inodes of a process's sockets; empty when it is gone, or may not be looked at."""
    inodes = []
    try:
        with os.scandir(f"/proc/{pid}/fd") as entries:
            for entry in entries:
                with contextlib.suppress(OSError):
                    target = os.readlink(entry.path)  # noqa: PTH115 - thousands of them; a Path each is half the cost
                    if target.startswith("socket:["):
                        inodes.append(int(target[8:-1]))
    except OSError:
        return inodes
    return inodes


def may_look_at(pid: int) -> bool:
    """Whether a process's open files may be seen; one that is gone hides nothing."""
    try:
        os.scandir(f"/proc/{pid}/fd").close()
        # The same user may list them all and yet, with fewer capabilities than that process, see where none of them
        # leads to (ptrace(2), access mode checks); which is asked of this link as well, and every process has it.
        os.readlink(f"/proc/{pid}/exe")  # noqa: PTH115 - with each look
    except PermissionError:
        return False
    except OSError:
        return True
    return True


def process_ids() -> list[int]:
    """The numbers of all processes that may be seen."""
    return [int(name) for name in os.listdir("/proc") if name.isdecimal()]  # noqa: PTH208 - every other millisecond


def parent_of(pid: int) -> int | None:
    """The number of a process's parent; None when the process is gone."""
    try:
        status = Path(f"/proc/{pid}/stat").read_bytes()
        # The name, in parentheses, may hold anything; the state and the parent follow it (proc(5)).
        return int(status[status.rindex(b")") + 1 :].split()[1])
    except (OSError, ValueError, IndexError):
        return None


def name_of(pid: int) -> str | None:
    """A process's name, at most 15 characters; None when it is gone.

    That is its main thread's. Where a runtime calls all of those the same, as Node does, it is the program's.
    """
    try:
        name = Path(f"/proc/{pid}/comm").read_bytes().removesuffix(b"\n").decode(errors="replace")
        if name == MAIN_THREAD:
            program = Path(f"/proc/{pid}/cmdline").read_bytes().partition(b"\0")[0].decode(errors="replace")
            name = PurePath(program).name[:15] or name
    except OSError:
        return None
    return name


CAP_DAC_OVERRIDE = 1
CAP_DAC_READ_SEARCH = 2
CAP_KILL = 5
CAP_SYS_PTRACE = 19

_CAPABILITY_VERSION_3 = 0x20080522
_PR_SET_KEEPCAPS = 8
_PR_CAPBSET_READ = 23
_PR_CAPBSET_DROP = 24
_PR_SET_NO_NEW_PRIVS = 38
_PR_CAP_AMBIENT = 47
_PR_CAP_AMBIENT_CLEAR_ALL = 4


def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)


def _prctl(option: int, argument: int = 0) -> int:
    result: int = _libc().prctl(option, ctypes.c_ulong(argument), *[ctypes.c_ulong(0)] * 3)
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return result


def keep_capabilities_over_setuid() -> None:
    """Let the next change from root to another user leave the permitted capabilities alone (prctl(2))."""
    _prctl(_PR_SET_KEEPCAPS, 1)


def no_new_privileges() -> None:
    """Nothing this process executes from now on gains privileges, set-user-ID programs included."""
    _prctl(_PR_SET_NO_NEW_PRIVS, 1)


def drop_bounding_set() -> None:
    """Let no program that is executed from now on gain a capability; to be done while still root (CAP_SETPCAP)."""
    with contextlib.suppress(OSError):  # EPERM: there is little to take away. EINVAL: there are no more
        for capability in range(64):
            if _prctl(_PR_CAPBSET_READ, capability):
                _prctl(_PR_CAPBSET_DROP, capability)


def permitted_among(capabilities: Iterable[int]) -> list[int]:
    """Those of them that this process may use."""
    status = Path("/proc/self/status").read_text()
    permitted = int(status.partition("CapPrm:")[2].split(maxsplit=1)[0], 16)
    return [each for each in capabilities if permitted >> each & 1]


def limit_capabilities(keep: Collection[int] = ()) -> None:
    """Reduce all five capability sets: permitted and effective to `keep`, the others to nothing (capabilities(7)).

    Raises:
        OSError: The kernel refuses; with `keep` a subset of what is permitted it has no reason to.
    """
    drop_bounding_set()
    with contextlib.suppress(OSError):  # before Linux 4.3 there is no ambient set
        _prctl(_PR_CAP_AMBIENT, _PR_CAP_AMBIENT_CLEAR_ALL)
    mask = sum(1 << capability for capability in keep)
    low, high = mask & 0xFFFFFFFF, mask >> 32
    header = ctypes.create_string_buffer(struct.pack("=Ii", _CAPABILITY_VERSION_3, 0))
    sets = ctypes.create_string_buffer(struct.pack("=6I", low, low, 0, high, high, 0))
    if _libc().capset(header, sets) < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))


_IP_MTU_DISCOVER = 10
_IPV6_MTU_DISCOVER = 23
_PMTUDISC_DO = 2


def dont_fragment(udp: socket.socket) -> None:
    """Have datagrams that the path cannot carry whole refused instead of fragmented, as QUIC needs (RFC 9000, 14)."""
    if udp.family == socket.AF_INET6:
        udp.setsockopt(socket.IPPROTO_IPV6, _IPV6_MTU_DISCOVER, _PMTUDISC_DO)
    else:
        udp.setsockopt(socket.IPPROTO_IP, _IP_MTU_DISCOVER, _PMTUDISC_DO)
