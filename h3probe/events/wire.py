"""What is seen of the wire, and of the sockets on this host."""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass, field
from functools import lru_cache
from typing import NamedTuple

from h3probe.facts import fact


@lru_cache(maxsize=8192)
def _spelling(host: bytes) -> str:
    """The usual spelling of an address; of most addresses there are many packets."""
    return str(ipaddress.ip_address(host))


@lru_cache(maxsize=8192)
def _is_loopback(host: bytes) -> bool:
    return ipaddress.ip_address(host).is_loopback


class Endpoint(NamedTuple):
    """An address and a port, one side of a 5-tuple.

    Attributes:
        host: The address, packed: 4 bytes for IPv4, 16 for IPv6.
        port: 0-65535.
    """

    host: bytes
    port: int

    def __str__(self) -> str:
        return f"[{self.address}]:{self.port}" if len(self.host) == 16 else f"{self.address}:{self.port}"

    @property
    def address(self) -> str:
        """The address alone, in its usual spelling (RFC 5952)."""
        return _spelling(self.host)

    @property
    def is_loopback(self) -> bool:
        """Whether the address is 127.0.0.0/8 or ::1."""
        return _is_loopback(self.host)


@fact
class Frame:
    """One link-layer frame, as a sniffer or a capture file gives it.

    Attributes:
        number: From 1, counted over the whole source.
        time_ns: When it was captured.
        link_type: A LINKTYPE_ number (1 Ethernet, 101 RAW, 113 SLL, 276 SLL2, ...).
        data: The bytes captured, which a snaplen may have cut.
        length: The bytes that were on the wire; never below `len(data)`.
        interface: Its name, where the source knows it.
    """

    number: int
    time_ns: int
    link_type: int
    data: bytes
    length: int
    interface: str | None = None


@dataclass(frozen=True, slots=True)
class Process:
    """A process on this host that owns a socket.

    Attributes:
        pid: Its number.
        name: Its name, at most 15 characters on Linux.
    """

    pid: int
    name: str

    def __str__(self) -> str:
        return f"{self.name}[{self.pid}]"


@dataclass(frozen=True, slots=True)
class SocketOwner:
    """The owner of a local socket, looked up while it was open.

    Attributes:
        time_ns: When it was looked up.
        protocol: 6 for TCP, 17 for UDP.
        local: The socket's own side as it appears on the wire.
        process: The owner.
    """

    time_ns: int
    protocol: int
    local: Endpoint
    process: Process


@dataclass(frozen=True, slots=True)
class Dropped:
    """Packets that were there and were not seen.

    Attributes:
        count: Since the last such event.
        reason: Who lost them, in plain words (`the kernel's ring was full`).
    """

    count: int
    reason: str


@dataclass(frozen=True, slots=True)
class Uncounted:
    """Packets from the inside of transfers that were there and were not counted: sums are more than they say.

    Nothing that opens, ends or explains a connection is among them.

    Attributes:
        count: Since the last such event.
        reason: Why, in plain words.
    """

    count: int
    reason: str


@dataclass(frozen=True, slots=True)
class Unreadable:
    """A part of the source that could not be read as what it should be.

    Attributes:
        reason: What, and where, in plain words.
        damaged: Whether what comes after it is there, and is lost with it.
    """

    reason: str
    damaged: bool = False


@dataclass(frozen=True, slots=True)
class Secrets:
    """TLS secrets, in the format of SSLKEYLOGFILE (draft-ietf-tls-keylogfile); they come before the packets, usually.

    Attributes:
        key_log: Whole lines. In no `repr`: whatever prints events by accident gives nothing away.
        growing: Whether the log is being written: secrets come a little later than packets that they open.
    """

    key_log: bytes = field(repr=False)
    growing: bool = False
