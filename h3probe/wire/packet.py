"""From frames to transport facts: UDP datagrams, TCP segments and ICMP errors.

`PacketDecoder.decode` takes any frame and never raises: what it cannot read it counts. It opens
tunnels and puts fragments together, so that a fact is what the two ends of a connection sent.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple

from h3probe.errors import DecodeError, EncryptedError
from h3probe.events import Endpoint, Frame
from h3probe.facts import fact
from h3probe.wire import ip, tunnels
from h3probe.wire.fragments import FragmentTable
from h3probe.wire.icmp import Kind, parse_error
from h3probe.wire.ip import IpPacket, parse_ipv4, parse_ipv6, skip_extensions
from h3probe.wire.link import is_read, network_layer
from h3probe.wire.link_names import link_type_name
from h3probe.wire.transport import ACK, FIN, PSH, RST, SYN, parse_tcp, parse_udp

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["ACK", "FIN", "PSH", "RST", "SYN", "IcmpError", "PacketDecoder", "TcpSegment", "UdpDatagram"]

_MAX_DEPTH: Final = 8
_GRE: Final = 47
_ETHERIP: Final = 97
_ESP: Final = 50
_IP_IN_IP: Final = {4: 4, 41: 6}


@fact
class UdpDatagram:
    """A UDP datagram.

    Attributes:
        frame: Number of the frame that held it, or that completed it.
        time_ns: When that was captured.
        source: Its sender.
        destination: Its receiver.
        payload: What was captured of its payload.
        length: Of its payload by the UDP header, above `len(payload)` when a snaplen cut it.
        station: The link-layer source address, where the link has one and the packet comes straight from it.
    """

    frame: int
    time_ns: int
    source: Endpoint
    destination: Endpoint
    payload: bytes
    length: int
    station: bytes | None = None


@fact
class TcpSegment:
    """A TCP segment.

    Attributes:
        frame: Number of the frame that held it, or that completed it.
        time_ns: When that was captured.
        source: Its sender.
        destination: Its receiver.
        seq: Sequence number of its first byte (or of its SYN).
        ack: Acknowledgement number; meaningful with the flag ACK.
        flags: The header's low flags: FIN, SYN, RST, PSH, ACK, ...
        payload: What was captured of its payload.
        length: Of its payload by the IP header, above `len(payload)` when a snaplen cut it.
        station: The link-layer source address, where the link has one and the packet comes straight from it.
    """

    frame: int
    time_ns: int
    source: Endpoint
    destination: Endpoint
    seq: int
    ack: int
    flags: int
    payload: bytes
    length: int
    station: bytes | None = None


@dataclass(frozen=True, slots=True)
class IcmpError:
    """An ICMP or ICMPv6 error, about a packet that it quotes.

    Attributes:
        frame: Number of the frame that held it, or that completed it.
        time_ns: When that was captured.
        sender: Who reports the error, packed.
        recipient: Whom it is reported to, packed: the quoted packet's sender.
        icmp_type: As sent.
        icmp_code: As sent.
        meaning: In plain words.
        kind: What it means for the quoted packet's sender.
        mtu: The next hop's, where a `too-big` names it.
        protocol: Of the quoted packet: 17 UDP, 6 TCP, ...
        source: Of the quoted packet; port 0 where there is none to read.
        destination: The same.
        quoted: Of the quoted packet: the payload behind a UDP header, or the transport's bytes from
            their first one (a TCP header).
        station: The link-layer source address, where the link has one and the packet comes straight from it.
    """

    frame: int
    time_ns: int
    sender: bytes
    recipient: bytes
    icmp_type: int
    icmp_code: int
    meaning: str
    kind: Kind
    mtu: int | None
    protocol: int
    source: Endpoint
    destination: Endpoint
    quoted: bytes
    station: bytes | None = None


Transported = UdpDatagram | TcpSegment
Fact = Transported | IcmpError


class _Context(NamedTuple):
    """What every fact from one frame shares, and how deep inside tunnels it stands."""

    frame: int
    time_ns: int
    station: bytes | None
    depth: int


class PacketDecoder:
    """Decodes frames, one after another; holds the fragments that wait for each other.

    Attributes:
        malformed: Frames that are not what their headers say, or end before those headers do.
        ignored: Frames that carry something other than TCP, UDP or an ICMP error.
        closed: Of those, how many may carry just that, where it cannot be looked into: by what they are, in the plural.
        link_types: The LINKTYPE_ numbers seen.
    """

    def __init__(self) -> None:
        self.malformed = 0
        self.ignored = 0
        self.closed: Counter[str] = Counter()
        self.link_types: set[int] = set()
        self._fragments = FragmentTable()
        self._transports: dict[int, Callable[[bytes, IpPacket, _Context], Fact | None]] = {
            ip.UDP: self._udp,
            ip.TCP: self._tcp,
            ip.ICMP: self._icmp,
            ip.ICMPV6: self._icmp,
            _GRE: self._gre,
            4: self._ip_in_ip,
            41: self._ip_in_ip,
            _ETHERIP: self._etherip,
        }

    @property
    def fragments_dropped(self) -> int:
        """Fragments that never became a packet; those that still wait are not counted."""
        return self._fragments.dropped

    def decode(self, frame: Frame) -> Fact | None:
        """The one transport fact in a frame, or None: nothing that is followed here, or not whole yet. Never raises."""
        data = frame.data
        self.link_types.add(frame.link_type)
        try:
            version, offset, station = network_layer(frame.link_type, data)
            if not version:
                self.ignored += 1
                if not is_read(frame.link_type):
                    self.closed[f"frames of link type {link_type_name(frame.link_type)}"] += 1
                return None
            if station is not None and not ip.is_first_hop(version, data, offset):
                station = None
            context = _Context(frame.number, frame.time_ns, station, 0)
            return self._network(version, data, offset, frame.length, context)
        except EncryptedError as error:
            self.ignored += 1
            self.closed[str(error)] += 1
            return None
        except DecodeError:
            self.malformed += 1
            return None

    def _network(self, version: int, data: bytes, offset: int, wire_end: int, context: _Context) -> Fact | None:
        packet = (parse_ipv4 if version == 4 else parse_ipv6)(data, offset, len(data), wire_end)
        if packet.fragment is not None:
            whole = self._fragments.add(packet, data, context.time_ns)
            if whole is None:
                return None
            data, packet = whole[0], skip_extensions(*whole)
            if packet.fragment is not None:
                raise DecodeError("a fragmented packet that holds a fragment")
        transport = self._transports.get(packet.protocol)
        if transport is None:
            if packet.protocol == _ESP:
                raise EncryptedError("packets inside IPsec (ESP)")
            self.ignored += 1
            return None
        return transport(data, packet, context)

    def _udp(self, data: bytes, packet: IpPacket, context: _Context) -> Fact | None:
        source, destination, payload, length = parse_udp(data, packet.start, packet.end, packet.length)
        if destination in tunnels.TUNNEL_PORTS or source in tunnels.TUNNEL_PORTS:
            inner = tunnels.unwrap_udp(source, destination, payload, length)
            if inner is not None:
                return self._tunnelled(inner, payload, length, context)
        return UdpDatagram(
            context.frame,
            context.time_ns,
            Endpoint(packet.source, source),
            Endpoint(packet.destination, destination),
            payload,
            length,
            context.station,
        )

    def _tcp(self, data: bytes, packet: IpPacket, context: _Context) -> Fact:
        source, destination, seq, ack, flags, payload, length = parse_tcp(data, packet.start, packet.end, packet.length)
        return TcpSegment(
            context.frame,
            context.time_ns,
            Endpoint(packet.source, source),
            Endpoint(packet.destination, destination),
            seq,
            ack,
            flags,
            payload,
            length,
            context.station,
        )

    def _icmp(self, data: bytes, packet: IpPacket, context: _Context) -> Fact | None:
        if (packet.protocol == ip.ICMP) != (len(packet.source) == 4):
            raise DecodeError("ICMP of one IP version inside the other")
        message = parse_error(packet.protocol, data, packet.start, packet.end)
        if message is None:
            self.ignored += 1
            return None
        return IcmpError(
            context.frame,
            context.time_ns,
            packet.source,
            packet.destination,
            message.icmp_type,
            message.icmp_code,
            message.meaning,
            message.kind,
            message.mtu,
            message.protocol,
            message.source,
            message.destination,
            message.quoted,
            context.station,
        )

    def _gre(self, data: bytes, packet: IpPacket, context: _Context) -> Fact | None:
        inner = tunnels.unwrap_gre(data, packet.start, packet.end)
        if inner is None:
            self.ignored += 1
            return None
        return self._tunnelled(inner, data[: packet.end], packet.start + packet.length, context)

    def _ip_in_ip(self, data: bytes, packet: IpPacket, context: _Context) -> Fact | None:
        inner = _IP_IN_IP[packet.protocol], packet.start
        return self._tunnelled(inner, data[: packet.end], packet.start + packet.length, context)

    def _etherip(self, data: bytes, packet: IpPacket, context: _Context) -> Fact | None:
        inner = tunnels.unwrap_etherip(data, packet.start, packet.end)
        if inner is None:
            self.ignored += 1
            return None
        return self._tunnelled(inner, data[: packet.end], packet.start + packet.length, context)

    def _tunnelled(self, inner: tunnels.Inner, data: bytes, wire_end: int, context: _Context) -> Fact | None:
        if context.depth == _MAX_DEPTH:
            raise DecodeError(f"more than {_MAX_DEPTH} packets inside each other")
        version, offset = inner
        return self._network(version, data, offset, wire_end, context._replace(depth=context.depth + 1))
