"""Which packets only count: the part of the kernel's filters that tells them from those that decide something.

It keeps no state, so it has to be sure of each packet by itself. What opens, ends or explains a connection decides:
long headers of QUIC, SYN, FIN and RST, TLS records that are no application data, small ones that may end a handshake,
the heads of HTTP/1.1 and so CONNECT and its answers, DNS; and so does whatever is out of the ordinary: fragments,
options, tunnels, ICMP, a header that lies about a length. What is left is the inside of transfers: QUIC's short
headers, TCP's payload and its acknowledgements. `h3probe.wire.columns` asks the same of frames that were captured.

The second packet of a ClientHello looks like the inside of a transfer, and a connection's first short header says
that it is ready. So flows are read whole until they are known to be transfers (`h3probe.vantage.bulk`), and only where
more comes than can be read (`everything`) is each packet judged by what it is.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from h3probe.track.names import DNS_PORTS
from h3probe.vantage.assembler import (
    ADD,
    ADD_X,
    AND,
    FROM_X,
    HARDWARE_TYPE,
    JUMP,
    JUMP_AT_LEAST,
    JUMP_AT_LEAST_X,
    JUMP_EQUAL,
    JUMP_GREATER,
    JUMP_GREATER_THAN_X,
    JUMP_SET,
    LOAD_BYTE,
    LOAD_BYTE_AT_X,
    LOAD_HALF,
    LOAD_HALF_AT_X,
    LOAD_LENGTH,
    LOAD_NUMBER,
    LOAD_STORED,
    LOAD_WORD,
    LOAD_WORD_AT_X,
    LOAD_X_NUMBER,
    NETWORK,
    RETURN,
    SHIFT_RIGHT,
    STORE,
    SUBTRACT,
    TO_X,
)
from h3probe.wire.quic.aggregate import LARGEST_PLAIN
from h3probe.wire.tunnels import TUNNEL_PORTS

if TYPE_CHECKING:
    from h3probe.vantage.assembler import Assembler
    from h3probe.vantage.bulk import Ports

HEADERS: Final = 160
"""Bytes kept of a packet that only counts: its headers, and of what is protected as much as `-w` keeps of it."""
SEGMENT: Final = 2048
"""Likewise of a TCP segment whose connection may be new: it may hold the rest of a ClientHello."""
SMALL_RECORD: Final = 512
"""A record of application data up to here may be a client's Finished, or an alert (RFC 8446, 5.2)."""

REJECT: Final = "reject"
"""The label of the instruction that keeps nothing."""
KEEP: Final = 0
"""Where in the filter's memory it stands how many bytes of the packet are kept."""
_END: Final = 1
"""Likewise where the IP packet ends, counted from its first byte."""

_ETHERNET, _LOOPBACK, _NO_LINK_HEADER = 1, 772, 65534  # ARPHRD_*; whose link headers have at most so many bytes:
_LINK: Final = 14
_IPV4_HEADER, _IPV6_HEADER, _UDP_HEADER, _TCP_HEADER = 20, 40, 8, 20
_TCP, _UDP = 6, 17
_FIN_SYN_RST: Final = 0x07
_LONG_HEADER, _FIXED_BIT = 0x80, 0x40  # RFC 9000, 17.2 and 17.3
_GQUIC: Final = 0x09  # the flags of gQUIC's packets that state a version
_HANDSHAKE_RECORDS: Final = (20, 22)  # ChangeCipherSpec, alert and handshake (RFC 8446, 5.1)
_APPLICATION_DATA: Final = 23
_RECORD_HEADER: Final = 5
_WORDS: Final = (b"CONN", b"GET ", b"HTTP")
_SPECIAL_PORTS: Final = frozenset({*DNS_PORTS, *TUNNEL_PORTS})


@dataclass(frozen=True, slots=True)
class Apart:
    """What is left to the wide socket, of the flows that these are; nothing unless given.

    Attributes:
        flows: By the ports of both sides.
        everything: All flows.
    """

    flows: frozenset[Ports] = frozenset()
    everything: bool = False

    def __bool__(self) -> bool:
        return bool(self.flows) or self.everything


NOTHING: Final = Apart()


def emit_split(code: Assembler, apart: Apart, *, decides: bool) -> None:
    """Emit what lets packets of one kind go on, and ends with 0 for those of the other.

    No load in it may fail, which would end the program: each is behind a comparison with the packet's length.

    Args:
        code: The program, whose following instructions are for the packets that go on; its last one is `REJECT`.
        apart: The flows whose packets may only count.
        decides: Whether those that may decide something go on, or those that only count.
    """
    _find_transport(code)
    _find_flow(code, apart)
    _find_end(code)
    code.label("protocol")
    code.emit(JUMP_EQUAL, _UDP, true="udp")
    code.emit(JUMP_EQUAL, _TCP, false="decides")
    _tcp(code)
    _udp(code, apart)
    code.label("counts")
    if decides:
        code.emit(RETURN, 0)
        code.label("decides")
    else:
        # By a jump: behind a return the kernel takes what was stored before it for all that is stored.
        code.emit(JUMP, true="goes-on")
        code.label("decides")
        code.emit(JUMP, true=REJECT)
        code.label("goes-on")


def _find_transport(code: Assembler) -> None:
    """X: where the transport's header begins."""
    code.emit(LOAD_WORD, HARDWARE_TYPE)
    for known in (_ETHERNET, _LOOPBACK):
        code.emit(JUMP_EQUAL, known, true="known-link")
    code.emit(JUMP_EQUAL, _NO_LINK_HEADER, false="decides")
    code.label("known-link")
    code.emit(LOAD_LENGTH)
    code.emit(JUMP_AT_LEAST, _LINK + _IPV4_HEADER + _UDP_HEADER + 1, false="decides")
    code.emit(LOAD_BYTE, NETWORK)
    code.emit(JUMP_EQUAL, 0x45, true="version-4")  # without options
    code.emit(AND, 0xF0)
    code.emit(JUMP_EQUAL, 0x60, false="decides")
    code.emit(LOAD_X_NUMBER, _IPV6_HEADER)
    code.emit(LOAD_LENGTH)
    code.emit(JUMP_AT_LEAST, _LINK + _IPV6_HEADER + _UDP_HEADER + 1, true="transport", false="decides")
    code.label("version-4")
    code.emit(LOAD_X_NUMBER, _IPV4_HEADER)
    code.label("transport")


def _find_flow(code: Assembler, apart: Apart) -> None:
    """How much is kept of a packet of this flow."""
    if apart.flows:
        code.emit(LOAD_WORD_AT_X, NETWORK)
        for one, other in sorted(apart.flows):
            for ports in (one << 16 | other, other << 16 | one):
                code.emit(JUMP_EQUAL, ports, true="transfer")
    if not apart.everything:
        code.emit(JUMP, true="decides")
    else:
        code.emit(LOAD_NUMBER, SEGMENT)
        code.emit(JUMP, true="flow")
    if apart.flows:
        code.label("transfer")
        code.emit(LOAD_NUMBER, HEADERS)
    code.label("flow")
    code.emit(STORE, KEEP)


def _find_end(code: Assembler) -> None:
    """A: the protocol. RFC 791: total length at 2, fragments at 6; RFC 8200: payload length at 4."""
    code.emit(FROM_X)
    code.emit(JUMP_EQUAL, _IPV6_HEADER, true="fields-6")
    code.emit(LOAD_HALF, NETWORK + 6)
    code.emit(JUMP_SET, 0x3FFF, true="decides")
    code.emit(LOAD_HALF, NETWORK + 2)
    code.emit(JUMP_EQUAL, 0, true="decides")  # an aggregate of more than 64 KiB
    code.emit(STORE, _END)
    code.emit(LOAD_BYTE, NETWORK + 9)
    code.emit(JUMP, true="protocol")
    code.label("fields-6")
    code.emit(LOAD_HALF, NETWORK + 4)
    code.emit(JUMP_EQUAL, 0, true="decides")
    code.emit(ADD, _IPV6_HEADER)
    code.emit(STORE, _END)
    code.emit(LOAD_BYTE, NETWORK + 6)


def _tcp(code: Assembler) -> None:
    """RFC 9293: flags at 13, the header's length at 12; what the payload begins with."""
    code.emit(LOAD_LENGTH)
    code.emit(SUBTRACT, _LINK + _TCP_HEADER)
    code.emit(JUMP_AT_LEAST_X, false="decides")
    code.emit(LOAD_BYTE_AT_X, NETWORK + 13)
    code.emit(JUMP_SET, _FIN_SYN_RST, true="decides")
    code.emit(LOAD_BYTE_AT_X, NETWORK + 12)
    code.emit(SHIFT_RIGHT, 4)
    code.emit(JUMP_AT_LEAST, _TCP_HEADER // 4, false="decides")
    # Times four, without a multiplication.
    code.emit(LOAD_BYTE_AT_X, NETWORK + 12)
    code.emit(AND, 0xF0)
    code.emit(SHIFT_RIGHT, 2)
    code.emit(ADD_X)
    code.emit(TO_X)
    code.emit(LOAD_STORED, _END)
    code.emit(JUMP_GREATER_THAN_X, false="no-payload")
    code.emit(LOAD_LENGTH)
    code.emit(SUBTRACT, _LINK + _RECORD_HEADER)
    code.emit(JUMP_AT_LEAST_X, false="decides")
    code.emit(LOAD_BYTE_AT_X, NETWORK)
    code.emit(JUMP_EQUAL, _APPLICATION_DATA, true="application-data")
    code.emit(JUMP_GREATER, _APPLICATION_DATA, true="text")
    code.emit(JUMP_AT_LEAST, _HANDSHAKE_RECORDS[0], true="decides", false="counts-near")
    code.label("application-data")
    code.emit(LOAD_HALF_AT_X, NETWORK + 3)
    code.emit(JUMP_GREATER, SMALL_RECORD, true="counts-near", false="decides")
    code.label("text")
    code.emit(LOAD_WORD_AT_X, NETWORK)
    for word in _WORDS:
        code.emit(JUMP_EQUAL, int.from_bytes(word), true="decides")
    code.emit(JUMP, true="counts-near")
    code.label("no-payload")
    code.label("counts-near")
    code.emit(JUMP, true="counts")


def _udp(code: Assembler, apart: Apart) -> None:
    """RFC 768: ports at 0 and 2, the length at 4; RFC 9000, 17: the first byte of the payload."""
    code.label("udp")
    code.emit(LOAD_BYTE_AT_X, NETWORK + _UDP_HEADER)
    code.emit(JUMP_SET, _LONG_HEADER, true="decides")
    code.emit(JUMP_SET, _FIXED_BIT, true="short-header")
    code.emit(AND, _GQUIC)
    code.emit(JUMP_EQUAL, _GQUIC, true="decides")
    code.label("short-header")
    for offset in (0, 2):
        code.emit(LOAD_HALF_AT_X, NETWORK + offset)
        for port in sorted(_SPECIAL_PORTS):
            code.emit(JUMP_EQUAL, port, true="decides")
    code.emit(LOAD_HALF_AT_X, NETWORK + 4)
    code.emit(JUMP_GREATER, _UDP_HEADER, false="decides")
    if not apart.everything:
        return
    # Datagrams that the kernel joined may hold a long header further on; not in a transfer.
    code.emit(JUMP_GREATER, _UDP_HEADER + LARGEST_PLAIN, true="joined")
    code.emit(LOAD_NUMBER, HEADERS)
    code.emit(STORE, KEEP)
    code.emit(JUMP, true="counts")
    code.label("joined")
    code.emit(LOAD_STORED, KEEP)
    code.emit(JUMP_EQUAL, HEADERS, false="decides")


def only_counts(packet: bytes, network: int) -> bool:
    """Whether a packet is one that only counts, as the program says of a flow that is left apart.

    Args:
        packet: Its bytes, of Ethernet or without a link header.
        network: Where its network header begins.
    """
    data = packet[network:]
    if len(data) < _IPV4_HEADER + _UDP_HEADER + 1:
        return False
    if data[0] == 0x45:
        start, protocol, end = _IPV4_HEADER, data[9], int.from_bytes(data[2:4])
        if int.from_bytes(data[6:8]) & 0x3FFF:
            return False
    elif data[0] & 0xF0 == 0x60 and len(data) >= _IPV6_HEADER + _UDP_HEADER + 1:
        start, protocol, end = _IPV6_HEADER, data[6], int.from_bytes(data[4:6])
        end += _IPV6_HEADER if end else 0
    else:
        return False
    if not end:
        return False
    if protocol == _TCP:
        return _segment_only_counts(data, start, end)
    return protocol == _UDP and _datagram_only_counts(data, start)


def _segment_only_counts(data: bytes, start: int, end: int) -> bool:
    if len(data) < start + _TCP_HEADER or data[start + 13] & _FIN_SYN_RST or data[start + 12] >> 4 < 5:
        return False
    payload = start + (data[start + 12] >> 4) * 4
    if end <= payload:
        return True
    if len(data) < payload + _RECORD_HEADER:
        return False
    kind = data[payload]
    if kind == _APPLICATION_DATA:
        return int.from_bytes(data[payload + 3 : payload + 5]) > SMALL_RECORD
    return not _HANDSHAKE_RECORDS[0] <= kind <= _HANDSHAKE_RECORDS[1] and data[payload : payload + 4] not in _WORDS


def _datagram_only_counts(data: bytes, start: int) -> bool:
    first = data[start + _UDP_HEADER]
    if first & _LONG_HEADER or (not first & _FIXED_BIT and first & _GQUIC == _GQUIC):
        return False
    ports = {int.from_bytes(data[start + offset : start + offset + 2]) for offset in (0, 2)}
    return ports.isdisjoint(_SPECIAL_PORTS) and int.from_bytes(data[start + 4 : start + 6]) > _UDP_HEADER
