"""Gives packets to the host's loopback, and from it, the addresses that the command used.

A command that connects to 127.0.0.1 or ::1, and to a port that the host listens on, is led out of its network to the
host's own loopback; what the sniffer sees then has the addresses of that way. They are put back here, so that what is
shown, said and written is what the command did: it is a translation of h3probe's own making, and it ends with it.
"""

from __future__ import annotations

import struct
from dataclasses import fields, replace
from ipaddress import ip_address
from typing import TYPE_CHECKING, Any, Final

from h3probe.events import Block, Endpoint, Frame
from h3probe.track.table import BoundedTable

if TYPE_CHECKING:
    from h3probe.events import Event
    from h3probe.vantage.isolate.addresses import Addresses

_ETHERNET: Final = 1
_ETHERNET_HEADER: Final = 14
_CHECKSUM_AT: Final = {6: 16, 17: 6}
_ICMP_HEADER: Final = 8
_ICMP_ERRORS: Final = {1: (3, 11, 12), 58: (1, 2, 3, 4)}
"""By protocol, the types that quote a packet (RFC 792, RFC 4443)."""
_HEADS: Final = 160
"""Bytes within which the addresses are, those of a quoted packet too."""
_KNOWN: Final = 4096
LOOPBACK4: Final = bytes([127, 0, 0, 1])
LOOPBACK6: Final = bytes(15) + b"\x01"


class Loopback:
    """Translates frames, and what the proxy reports of the connections in them.

    Args:
        addresses: Who has which address in the isolation.
    """

    def __init__(self, addresses: Addresses) -> None:
        self._hosts = frozenset(ip_address(each).packed for each in (addresses.host, addresses.host6))
        self._proxied: BoundedTable[str, bool] = BoundedTable(_KNOWN)

    def __call__(self, event: Event | Block) -> Event | Block:
        """The event as it was for the command; the same object where there is nothing to translate."""
        if isinstance(event, Frame):
            return self._frame(event)
        if isinstance(event, Block):
            return self._block(event)
        return self._report(event)

    # Frames

    def _frame(self, frame: Frame) -> Frame:
        at = _ETHERNET_HEADER if frame.link_type == _ETHERNET else 0
        head = frame.data[at : at + _HEADS]
        if not any(host in head for host in self._hosts):
            return frame
        data = bytearray(frame.data)
        self._packet(data, at)
        return replace(frame, data=bytes(data))

    def _block(self, block: Block) -> Block:
        """Translate packets without options, in place."""
        if any(host in block.data for host in self._hosts):
            # It needs numpy, which whoever has a block has loaded.
            from h3probe.vantage.isolate.loopback_block import translate  # noqa: PLC0415

            translate(block, self._hosts)
        return block

    def _packet(self, data: bytearray, at: int) -> None:
        """Translate an IP packet in place, and the one that an ICMP error quotes."""
        version = data[at] >> 4 if len(data) >= at + 20 else 0
        if version == 4:
            protocol, transport = data[at + 9], at + (data[at] & 0x0F) * 4
            change = self._addresses(data, at + 12, LOOPBACK4)
            data[at + 10 : at + 12] = bytes(2)
            data[at + 10 : at + 12] = _checksum(data[at:transport]).to_bytes(2)
        elif version == 6 and len(data) >= at + 40:
            protocol, transport = data[at + 6], at + 40
            change = self._addresses(data, at + 8, LOOPBACK6)
        else:
            return
        quoted = transport + _ICMP_HEADER
        if protocol in _CHECKSUM_AT:
            _mend(data, transport + _CHECKSUM_AT[protocol], change)
        elif protocol in _ICMP_ERRORS and len(data) > quoted and data[transport] in _ICMP_ERRORS[protocol]:
            before = _sum(data[quoted:])
            self._packet(data, quoted)
            # ICMP has no pseudo-header, ICMPv6 has one (RFC 4443, 2.3).
            _mend(data, transport + 2, _sum(data[quoted:]) - before + (change if version == 6 else 0))

    def _addresses(self, data: bytearray, at: int, loopback: bytes) -> int:
        """Make both addresses loopback's if one is the host's; return by how much the sum of the words has grown."""
        size = len(loopback)
        ends = bytes(data[at : at + size]), bytes(data[at + size : at + 2 * size])
        if not self._hosts.intersection(ends):
            return 0
        data[at : at + 2 * size] = 2 * loopback
        return _sum(2 * loopback) - _sum(b"".join(ends))

    # What the proxy reports

    def _report(self, event: Event) -> Event:
        connection, server = getattr(event, "connection", None), getattr(event, "proxy", None)
        if not isinstance(connection, str):
            return event
        if isinstance(server, Endpoint) and server.host in self._hosts:
            self._proxied.put(connection, value=True)
        if connection not in self._proxied:
            return event
        changed: dict[str, Any] = {}
        for field in fields(event):
            value = getattr(event, field.name)
            if isinstance(value, Endpoint) and field.name in {"client", "proxy"}:
                changed[field.name] = Endpoint(LOOPBACK4 if len(value.host) == 4 else LOOPBACK6, value.port)
        return replace(event, **changed)


def _sum(data: bytes | bytearray) -> int:
    padded = bytes(data) + bytes(len(data) % 2)
    return sum(struct.unpack(f"!{len(padded) // 2}H", padded))


def _checksum(header: bytes | bytearray) -> int:
    """The Internet checksum of an IPv4 header (RFC 1071)."""
    total = _sum(header)
    while total > 0xFFFF:
        total = (total & 0xFFFF) + (total >> 16)
    return total ^ 0xFFFF


def _mend(data: bytearray, at: int, change: int) -> None:
    """Change a checksum by what the sum of its words has grown (RFC 1624); one of zero means none (RFC 768)."""
    if len(data) < at + 2:
        return
    old = int.from_bytes(data[at : at + 2])
    if old:
        total = (old ^ 0xFFFF) + change
        data[at : at + 2] = (0xFFFF - total % 0xFFFF).to_bytes(2)
