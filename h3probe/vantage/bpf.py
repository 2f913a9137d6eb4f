"""The classic BPF program that runs on every packet of every interface, before it costs Python anything.

It is written for an AF_PACKET socket that sees interfaces of all kinds at once, so it asks the kernel for what does
not depend on the link layer: the protocol, the packet's direction, and loads relative to the network header
(Documentation/networking/filter.rst, "BPF extensions").

A filter may only keep too much, never too little. What explains a failure passes whatever was asked for: ICMP errors,
DNS, fragments that carry no ports, and anything wrapped in something else.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from h3probe.vantage.bulk import ONE_IN

if TYPE_CHECKING:
    from collections.abc import Collection

    from h3probe.vantage.bulk import Ports

SNAPLEN = 262144
"""Bytes kept of a packet: more than any interface carries, the 64 KiB aggregates of offloading included."""

_MAX_CHOICES = 24
"""The most ports, and the most hosts, that a program narrows to: jumps must stay short. With more it keeps all."""

# Opcodes (linux/bpf_common.h): class | size | mode.
_LOAD_WORD = 0x20
_LOAD_HALF = 0x28
_LOAD_BYTE = 0x30
_LOAD_HALF_AT_X = 0x48
_LOAD_X_HEADER_LENGTH = 0xB1  # X = 4 * (byte & 0x0f), made for IPv4
_JUMP = 0x05
_JUMP_EQUAL = 0x15
_JUMP_SET = 0x45
_AND = 0x54
_RETURN = 0x06

# Places outside the packet (linux/filter.h).
_AUXILIARY = 0xFFFFF000
_PROTOCOL = _AUXILIARY + 0
_DIRECTION = _AUXILIARY + 4
_INTERFACE = _AUXILIARY + 8
_HARDWARE_TYPE = _AUXILIARY + 28
_RANDOM = _AUXILIARY + 56
_NETWORK = 0xFFF00000  # offsets from here count from the network header

_PACKET_OUTGOING = 4
_ARPHRD_LOOPBACK = 772

_ETHERTYPE_IPV4 = 0x0800
_ETHERTYPE_IPV6 = 0x86DD
_WRAPPING_ETHERTYPES = (0x8100, 0x88A8, 0x9100, 0x8864, 0x8847)  # VLAN, QinQ twice, PPPoE session, MPLS
_WRAPPING_PROTOCOLS = (4, 41, 47)  # IPv4, IPv6, GRE
_IPV6_EXTENSIONS = (0, 43, 44, 51, 60, 135, 139, 140)  # the IANA list, without ESP: nothing can be read behind it
_ICMP = 1
_ICMPV6 = 58
_TRANSPORTS = (6, 17)
_DNS_PORT = 53
_TCP = 6
_UDP = 17
_FIN_SYN_RST = 0x07
_LONG_HEADER = 0x80  # the header form (RFC 9000, 17.2)


@dataclass(slots=True)
class Assembler:
    """Instructions with labels in, the kernel's `struct sock_filter` array out."""

    _code: list[tuple[int, int, str | None, str | None]] = field(default_factory=list)
    _labels: dict[str, int] = field(default_factory=dict)

    def label(self, name: str) -> None:
        """Name the next instruction."""
        self._labels[name] = len(self._code)

    def emit(self, code: int, value: int = 0, *, true: str | None = None, false: str | None = None) -> None:
        """Append an instruction; a branch without a label falls through."""
        self._code.append((code, value, true, false))

    def assemble(self) -> bytes:
        """The program, 8 bytes an instruction.

        Raises:
            ValueError: A branch goes back, further than 255 instructions, or nowhere.
        """
        return b"".join(self._instruction(at, *parts) for at, parts in enumerate(self._code))

    def _instruction(self, at: int, code: int, value: int, true: str | None, false: str | None) -> bytes:
        if code == _JUMP:
            return struct.pack("=HBBI", code, 0, 0, self._distance(at, true))
        distances = self._distance(at, true), self._distance(at, false)
        if max(distances) > 255:
            raise ValueError(f"instruction {at} branches too far")
        return struct.pack("=HBBI", code, *distances, value)

    def _distance(self, at: int, label: str | None) -> int:
        if label is None:
            return 0
        distance = self._labels.get(label, -1) - at - 1
        if distance < 0:
            raise ValueError(f"no {label} after instruction {at}")
        return distance


def program(
    *,
    interfaces: Collection[int] = (),
    ports: Collection[int] = (),
    hosts: Collection[bytes] = (),
    bulk: Collection[Ports] = (),
) -> bytes:
    """A filter for what h3probe can read, as `SO_ATTACH_FILTER` takes it.

    Each packet of a loopback interface passes once: it is shown on its way out and on its way in, and the first is
    dropped here.

    Args:
        interfaces: Indexes; none means all, later ones too.
        ports: TCP and UDP ports, of either side; none means all.
        hosts: Packed addresses, of either side; none means all.
        bulk: Flows that are thinned out (`h3probe.vantage.bulk`).
    """
    ports = ports if len(ports) <= _MAX_CHOICES else ()
    hosts = hosts if len(hosts) <= _MAX_CHOICES else ()
    code = Assembler()
    if bulk:
        _thin_out(code, bulk)
    _drop_outgoing_loopback(code)
    if interfaces:
        code.emit(_LOAD_WORD, _INTERFACE)
        _accept_if_equal(code, interfaces, to="interface")
        code.emit(_RETURN, 0)
        code.label("interface")
    code.emit(_LOAD_WORD, _PROTOCOL)
    code.emit(_JUMP_EQUAL, _ETHERTYPE_IPV4, true="ipv4")
    code.emit(_JUMP_EQUAL, _ETHERTYPE_IPV6, true="ipv6-far")
    _accept_if_equal(code, _WRAPPING_ETHERTYPES, to="wrapped")
    code.emit(_RETURN, 0)
    code.label("wrapped")
    code.emit(_RETURN, SNAPLEN)
    code.label("ipv6-far")
    code.emit(_JUMP, true="ipv6")
    _ipv4(code, ports, [host for host in hosts if len(host) == 4], narrow=bool(hosts))
    _ipv6(code, ports, [host for host in hosts if len(host) == 16], narrow=bool(hosts))
    return code.assemble()


def reject_everything() -> bytes:
    """A program that keeps nothing, for the moment between opening a socket and attaching its real filter."""
    code = Assembler()
    code.emit(_RETURN, 0)
    return code.assemble()


def _drop_outgoing_loopback(code: Assembler) -> None:
    code.emit(_LOAD_WORD, _DIRECTION)
    code.emit(_JUMP_EQUAL, _PACKET_OUTGOING, false="not-loopback")
    code.emit(_LOAD_WORD, _HARDWARE_TYPE)
    code.emit(_JUMP_EQUAL, _ARPHRD_LOOPBACK, false="not-loopback")
    code.emit(_RETURN, 0)
    code.label("not-loopback")


def _accept_if_equal(code: Assembler, values: Collection[int], *, to: str) -> None:
    for value in values:
        code.emit(_JUMP_EQUAL, value, true=to)


def _ipv4(code: Assembler, ports: Collection[int], hosts: Collection[bytes], *, narrow: bool) -> None:
    """RFC 791: the protocol at 9, fragments at 6, addresses at 12 and 16; ports behind a header of variable length."""
    code.label("ipv4")
    code.emit(_LOAD_BYTE, _NETWORK + 9)
    _accept_if_equal(code, (_ICMP, *_WRAPPING_PROTOCOLS), to="ipv4-accept")
    _accept_if_equal(code, _TRANSPORTS, to="ipv4-transport")
    code.emit(_RETURN, 0)
    code.label("ipv4-transport")
    if ports or narrow:
        code.emit(_LOAD_HALF, _NETWORK + 6)
        code.emit(_JUMP_SET, 0x1FFF, true="ipv4-accept")
        code.emit(_LOAD_X_HEADER_LENGTH, _NETWORK)
        _narrow_ports(code, _LOAD_HALF_AT_X, _NETWORK, ports, family="ipv4")
    if narrow:
        for host in hosts:
            for offset in (12, 16):
                code.emit(_LOAD_WORD, _NETWORK + offset)
                code.emit(_JUMP_EQUAL, int.from_bytes(host), true="ipv4-accept")
        code.emit(_RETURN, 0)
    code.label("ipv4-accept")
    code.emit(_RETURN, SNAPLEN)


def _ipv6(code: Assembler, ports: Collection[int], hosts: Collection[bytes], *, narrow: bool) -> None:
    """RFC 8200: the next header at 6, addresses at 8 and 24; what has extension headers is kept, unread."""
    code.label("ipv6")
    code.emit(_LOAD_BYTE, _NETWORK + 6)
    _accept_if_equal(code, (_ICMPV6, *_WRAPPING_PROTOCOLS, *_IPV6_EXTENSIONS), to="ipv6-accept-near")
    _accept_if_equal(code, _TRANSPORTS, to="ipv6-transport")
    code.emit(_RETURN, 0)
    code.label("ipv6-accept-near")
    code.emit(_RETURN, SNAPLEN)
    code.label("ipv6-transport")
    if ports or narrow:
        _narrow_ports(code, _LOAD_HALF, _NETWORK + 40, ports, family="ipv6")
    if narrow:
        for number, host in enumerate(hosts):
            for offset in (8, 24):
                other = f"ipv6-not-{number}-{offset}"
                for word in range(4):
                    code.emit(_LOAD_WORD, _NETWORK + offset + 4 * word)
                    code.emit(_JUMP_EQUAL, int.from_bytes(host[4 * word : 4 * word + 4]), false=other)
                code.emit(_RETURN, SNAPLEN)
                code.label(other)
        code.emit(_RETURN, 0)
    code.emit(_RETURN, SNAPLEN)


class _Family(NamedTuple):
    """Where a family has what is looked at: the protocol's number, and the transport's header where it usually is."""

    name: str
    protocol: int
    transport: int


_IPV4 = _Family("ipv4", _NETWORK + 9, _NETWORK + 20)
_IPV6 = _Family("ipv6", _NETWORK + 6, _NETWORK + 40)


def _thin_out(code: Assembler, bulk: Collection[Ports]) -> None:
    """Leave most of these flows' packets out; of what opens or ends something, and of all the rest, nothing.

    It stands before everything else, since nearly all packets of a busy moment end here. Headers with options are left
    to what follows.
    """
    code.emit(_LOAD_BYTE, _NETWORK)
    code.emit(_JUMP_EQUAL, 0x45, true="ipv4-thin")
    code.emit(_AND, 0xF0)
    code.emit(_JUMP_EQUAL, 0x60, true="ipv6-thin", false="all-thin")
    for family in (_IPV4, _IPV6):
        _thin_out_family(code, family, bulk)
    code.label("all-thin")


def _thin_out_family(code: Assembler, family: _Family, bulk: Collection[Ports]) -> None:
    thin, udp, sample = (f"{family.name}-thin{part}" for part in ("", "-udp", "-sample"))
    matches = f"{thin}-match"
    code.label(thin)
    code.emit(_LOAD_WORD, family.transport)
    for one, other in bulk:
        _accept_if_equal(code, (one << 16 | other, other << 16 | one), to=matches)
    code.emit(_JUMP, true="all-thin")
    code.label(matches)
    if family is _IPV4:
        code.emit(_LOAD_HALF, _NETWORK + 6)
        code.emit(_JUMP_SET, 0x1FFF, true="all-thin")  # a later fragment has no ports
    code.emit(_LOAD_BYTE, family.protocol)
    code.emit(_JUMP_EQUAL, _UDP, true=udp)
    code.emit(_JUMP_EQUAL, _TCP, false="all-thin")
    code.emit(_LOAD_BYTE, family.transport + 13)
    code.emit(_JUMP_SET, _FIN_SYN_RST, true="all-thin", false=sample)
    code.label(udp)
    code.emit(_LOAD_BYTE, family.transport + 8)
    code.emit(_JUMP_SET, _LONG_HEADER, true="all-thin")
    code.label(sample)
    code.emit(_LOAD_WORD, _RANDOM)
    code.emit(_JUMP_SET, ONE_IN - 1, false="all-thin")
    code.emit(_RETURN, 0)


def _narrow_ports(code: Assembler, load: int, place: int, ports: Collection[int], *, family: str) -> None:
    """Keep DNS whatever the hosts are; return 0 for other ports; go on for those asked for."""
    wanted, dns = f"{family}-port", f"{family}-dns"
    for offset in (0, 2):
        code.emit(load, place + offset)
        code.emit(_JUMP_EQUAL, _DNS_PORT, true=dns)
    if ports:
        for offset in (0, 2):
            code.emit(load, place + offset)
            _accept_if_equal(code, ports, to=wanted)
        code.emit(_RETURN, 0)
    code.emit(_JUMP, true=wanted)
    code.label(dns)
    code.emit(_RETURN, SNAPLEN)
    code.label(wanted)
