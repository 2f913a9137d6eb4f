"""The classic BPF programs that run on every packet of every interface, before it costs Python anything.

They are written for AF_PACKET sockets that see interfaces of all kinds at once, so they ask the kernel for what does
not depend on the link layer: the protocol, the packet's direction, and loads relative to the network header
(Documentation/networking/filter.rst, "BPF extensions").

There are two sockets. The narrow one gets whatever may decide something, whole; the wide one what only counts, cut to
its headers (`h3probe.vantage.ordinary`). Both programs are made from the same instructions, and differ in what becomes
of a packet that only counts: so each packet passes one of them, and none passes both.

A filter may only keep too much, never too little. What explains a failure passes whatever was asked for: ICMP errors,
DNS, fragments that carry no ports, and anything wrapped in something else.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from h3probe.vantage.assembler import (
    ADD,
    AND,
    DIRECTION,
    HARDWARE_TYPE,
    INTERFACE,
    JUMP,
    JUMP_EQUAL,
    JUMP_GREATER,
    JUMP_SET,
    LOAD_BYTE,
    LOAD_BYTE_AT_X,
    LOAD_HALF,
    LOAD_HALF_AT_X,
    LOAD_LENGTH,
    LOAD_STORED,
    LOAD_WORD,
    LOAD_X_HEADER_LENGTH,
    NETWORK,
    PROTOCOL,
    RETURN,
    RETURN_A,
    SHIFT_RIGHT,
    TO_X,
    Assembler,
)
from h3probe.vantage.ordinary import KEEP, NOTHING, REJECT, Apart, emit_split

if TYPE_CHECKING:
    from collections.abc import Collection

type Part = Literal["narrow", "wide"]

SNAPLEN = 262144
"""Bytes kept of a packet: more than any interface carries, the 64 KiB aggregates of offloading included."""

LARGE_SEGMENT = 16384
"""An aggregate of TCP with more bytes that begins no handshake is of a transfer: a server's first flight has fewer."""
KEPT_OF_LARGE = 2048
"""Bytes that are kept of one: with the head of a response, if it begins with that."""

_MAX_CHOICES = 24
"""The most ports, and the most hosts, that a program narrows to: jumps must stay short. With more it keeps all."""

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
_ACCEPT = "accept"
_TCP = 6
_HANDSHAKE = 22  # RFC 8446, 5.1


def program(  # noqa: PLR0913 - by keyword, one for each thing that is asked for
    *,
    interfaces: Collection[int] = (),
    ports: Collection[int] = (),
    hosts: Collection[bytes] = (),
    apart: Apart = NOTHING,
    part: Part = "narrow",
    whole: bool = False,
) -> bytes:
    """A filter for what h3probe can read, as `SO_ATTACH_FILTER` takes it.

    Each packet of a loopback interface passes once: it is shown on its way out and on its way in, and the first is
    dropped here.

    Args:
        interfaces: Indexes; none means all, later ones too.
        ports: TCP and UDP ports, of either side; none means all.
        hosts: Packed addresses, of either side; none means all.
        apart: The flows whose packets only count.
        part: The narrow socket's program keeps what may decide something, the wide one's what only counts.
        whole: Whether the narrow socket's packets are to be whole, whatever they are.
    """
    ports = ports if len(ports) <= _MAX_CHOICES else ()
    hosts = hosts if len(hosts) <= _MAX_CHOICES else ()
    code = Assembler()
    if part == "wide" and not apart:
        return reject_everything()
    _drop_outgoing_loopback(code)
    if apart:
        # Before everything else that looks into the packet, since nearly all packets of a busy moment end here.
        emit_split(code, apart, decides=part == "narrow")
    if interfaces:
        code.emit(LOAD_WORD, INTERFACE)
        _accept_if_equal(code, interfaces, to="interface")
        code.emit(RETURN, 0)
        code.label("interface")
    code.emit(LOAD_WORD, PROTOCOL)
    code.emit(JUMP_EQUAL, _ETHERTYPE_IPV4, true="ipv4")
    code.emit(JUMP_EQUAL, _ETHERTYPE_IPV6, true="ipv6-far")
    _accept_if_equal(code, _WRAPPING_ETHERTYPES, to="wrapped")
    code.emit(RETURN, 0)
    code.label("wrapped")
    code.emit(JUMP, true=_ACCEPT)
    code.label("ipv6-far")
    code.emit(JUMP, true="ipv6")
    _ipv4(code, ports, [host for host in hosts if len(host) == 4], narrow=bool(hosts))
    _ipv6(code, ports, [host for host in hosts if len(host) == 16], narrow=bool(hosts))
    code.label(_ACCEPT)
    if part == "wide":
        code.emit(LOAD_STORED, KEEP)
        code.emit(RETURN_A)
    else:
        if not whole:
            _cut_segments(code)
        code.emit(RETURN, SNAPLEN)
    code.label(REJECT)
    code.emit(RETURN, 0)
    return code.assemble()


def _cut_segments(code: Assembler) -> None:
    """Keep the beginning of a large segment that is none of a handshake: it is hardly anything but a transfer.

    Until that is known it would fill the ring, and nothing behind it would find room.
    """
    code.emit(LOAD_LENGTH)
    code.emit(JUMP_GREATER, LARGE_SEGMENT, false="whole")
    code.emit(LOAD_BYTE, NETWORK)
    code.emit(JUMP_EQUAL, 0x45, true="cut-ipv4")
    code.emit(AND, 0xF0)
    code.emit(JUMP_EQUAL, 0x60, false="whole")
    for name, protocol, header in (("ipv6", 6, 40), ("ipv4", 9, 20)):
        code.label(f"cut-{name}")
        code.emit(LOAD_BYTE, NETWORK + protocol)
        code.emit(JUMP_EQUAL, _TCP, false="whole")
        code.emit(LOAD_BYTE, NETWORK + header + 12)
        code.emit(AND, 0xF0)
        code.emit(SHIFT_RIGHT, 2)
        code.emit(ADD, header)
        code.emit(TO_X)
        code.emit(LOAD_BYTE_AT_X, NETWORK)
        code.emit(JUMP_EQUAL, _HANDSHAKE, true="whole")
        code.emit(RETURN, KEPT_OF_LARGE)
    code.label("whole")


def reject_everything() -> bytes:
    """A program that keeps nothing, for the moment between opening a socket and attaching its real filter."""
    code = Assembler()
    code.emit(RETURN, 0)
    return code.assemble()


def _drop_outgoing_loopback(code: Assembler) -> None:
    code.emit(LOAD_WORD, DIRECTION)
    code.emit(JUMP_EQUAL, _PACKET_OUTGOING, false="not-loopback")
    code.emit(LOAD_WORD, HARDWARE_TYPE)
    code.emit(JUMP_EQUAL, _ARPHRD_LOOPBACK, false="not-loopback")
    code.emit(RETURN, 0)
    code.label("not-loopback")


def _accept_if_equal(code: Assembler, values: Collection[int], *, to: str) -> None:
    for value in values:
        code.emit(JUMP_EQUAL, value, true=to)


def _ipv4(code: Assembler, ports: Collection[int], hosts: Collection[bytes], *, narrow: bool) -> None:
    """RFC 791: the protocol at 9, fragments at 6, addresses at 12 and 16; ports behind a header of variable length."""
    code.label("ipv4")
    code.emit(LOAD_BYTE, NETWORK + 9)
    _accept_if_equal(code, (_ICMP, *_WRAPPING_PROTOCOLS), to="ipv4-accept")
    _accept_if_equal(code, _TRANSPORTS, to="ipv4-transport")
    code.emit(RETURN, 0)
    code.label("ipv4-transport")
    if ports or narrow:
        code.emit(LOAD_HALF, NETWORK + 6)
        code.emit(JUMP_SET, 0x1FFF, true="ipv4-accept")
        code.emit(LOAD_X_HEADER_LENGTH, NETWORK)
        _narrow_ports(code, LOAD_HALF_AT_X, NETWORK, ports, family="ipv4")
    if narrow:
        for host in hosts:
            for offset in (12, 16):
                code.emit(LOAD_WORD, NETWORK + offset)
                code.emit(JUMP_EQUAL, int.from_bytes(host), true="ipv4-accept")
        code.emit(RETURN, 0)
    code.label("ipv4-accept")
    code.emit(JUMP, true=_ACCEPT)


def _ipv6(code: Assembler, ports: Collection[int], hosts: Collection[bytes], *, narrow: bool) -> None:
    """RFC 8200: the next header at 6, addresses at 8 and 24; what has extension headers is kept, unread."""
    code.label("ipv6")
    code.emit(LOAD_BYTE, NETWORK + 6)
    _accept_if_equal(code, (_ICMPV6, *_WRAPPING_PROTOCOLS, *_IPV6_EXTENSIONS), to="ipv6-accept-near")
    _accept_if_equal(code, _TRANSPORTS, to="ipv6-transport")
    code.emit(RETURN, 0)
    code.label("ipv6-accept-near")
    code.emit(JUMP, true=_ACCEPT)
    code.label("ipv6-transport")
    if ports or narrow:
        _narrow_ports(code, LOAD_HALF, NETWORK + 40, ports, family="ipv6")
    if narrow:
        for number, host in enumerate(hosts):
            for offset in (8, 24):
                other = f"ipv6-not-{number}-{offset}"
                for word in range(4):
                    code.emit(LOAD_WORD, NETWORK + offset + 4 * word)
                    code.emit(JUMP_EQUAL, int.from_bytes(host[4 * word : 4 * word + 4]), false=other)
                code.emit(JUMP, true=_ACCEPT)
                code.label(other)
        code.emit(RETURN, 0)
    code.emit(JUMP, true=_ACCEPT)


def _narrow_ports(code: Assembler, load: int, place: int, ports: Collection[int], *, family: str) -> None:
    """Keep DNS whatever the hosts are; return 0 for other ports; go on for those asked for."""
    wanted, dns = f"{family}-port", f"{family}-dns"
    for offset in (0, 2):
        code.emit(load, place + offset)
        code.emit(JUMP_EQUAL, _DNS_PORT, true=dns)
    if ports:
        for offset in (0, 2):
            code.emit(load, place + offset)
            _accept_if_equal(code, ports, to=wanted)
        code.emit(RETURN, 0)
    code.emit(JUMP, true=wanted)
    code.label(dns)
    code.emit(JUMP, true=_ACCEPT)
    code.label(wanted)
