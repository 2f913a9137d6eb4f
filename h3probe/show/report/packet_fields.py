"""A packet's decoded fields, as h3probe's own decoders read them: a tree of names and values.

Headers and handshakes, never payload: of what is encrypted only Initials are opened, whose keys are public, and of
HTTP in the clear only what names the parties and the outcome is shown. Secrets that stand in headers (session ids,
tokens) are told by their length.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from h3probe.errors import DecodeError
from h3probe.events import Endpoint
from h3probe.records import QuicRecord
from h3probe.show.report.secure_fields import quic_fields, tls_fields
from h3probe.show.report.tree import Field, listed
from h3probe.wire import dns, ip
from h3probe.wire.http1 import connect_target, looks_like_request, parse_request_head, parse_response_head
from h3probe.wire.link import network_layer
from h3probe.wire.link_names import link_type_name
from h3probe.wire.packet import ACK, FIN, PSH, RST, SYN, IcmpError, PacketDecoder, TcpSegment, UdpDatagram
from h3probe.wire.quic.packets import LongPacket, looks_like_quic, split_datagram

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from h3probe.events import Frame
    from h3probe.records import AnyRecord
    from h3probe.wire.http1 import RequestHead

DNS_PORTS = frozenset({53, 5353})
TCP_FLAGS = ((SYN, "SYN"), (FIN, "FIN"), (RST, "RST"), (PSH, "PSH"), (ACK, "ACK"))
DCIDS = 8
"""Connection IDs to derive Initial keys from that are tried on one flow's packets."""

Flow = frozenset[Endpoint]


@dataclass(frozen=True, slots=True)
class Packet:
    """A packet, taken apart.

    Attributes:
        number: Its frame's.
        layers: From the outside to the inside.
    """

    number: int
    layers: tuple[Field, ...]


class PacketReader:
    """Takes packets apart.

    Args:
        frames: All that will be asked for; what one of them says may open another.
        records: What is known of the connections; their first connection IDs open the server's Initials.
    """

    def __init__(self, frames: Mapping[int, Frame], records: Iterable[AnyRecord]) -> None:
        self._dcids: dict[frozenset[str], dict[bytes, None]] = {}
        for record in records:
            if isinstance(record, QuicRecord) and record.dcid is not None:
                self._know(frozenset((record.client, record.server)), bytes.fromhex(record.dcid))
        for frame in frames.values():
            fact = PacketDecoder().decode(frame)
            if isinstance(fact, UdpDatagram):
                for packet in _quic_packets(fact):
                    if packet.kind == "initial":  # after a Retry, the keys come from the ID that it gave
                        self._know(frozenset((str(fact.source), str(fact.destination))), packet.dcid)

    def _know(self, flow: frozenset[str], dcid: bytes) -> None:
        known = self._dcids.setdefault(flow, {})
        if len(known) < DCIDS:
            known[dcid] = None

    def read(self, frame: Frame) -> Packet:
        """Take a packet apart, as far as it can be read."""
        layers = [_frame(frame)]
        try:
            layers += _network(frame)
        except DecodeError as error:
            layers.append(Field("Network layer", f"cannot be read: {error}"))
            return Packet(frame.number, tuple(layers))
        fact = PacketDecoder().decode(frame)
        match fact:
            case UdpDatagram():
                layers += self._udp(fact)
            case TcpSegment():
                layers += _tcp(fact)
            case IcmpError():
                layers += _icmp(fact)
            case None:
                layers.append(Field("Inside", "nothing that h3probe follows, or not whole"))
        return Packet(frame.number, tuple(layers))

    def _udp(self, datagram: UdpDatagram) -> list[Field]:
        udp = Field.of(
            "UDP",
            ("Source port", datagram.source.port),
            ("Destination port", datagram.destination.port),
            ("Payload", _bytes(len(datagram.payload), datagram.length)),
        )
        if DNS_PORTS & {datagram.source.port, datagram.destination.port}:
            return [udp, *_dns(datagram.payload)]
        known = self._dcids.get(frozenset((str(datagram.source), str(datagram.destination))), {})
        if known or looks_like_quic(datagram.payload, datagram.length):
            return [udp, *quic_fields(datagram.payload, tuple(known))]
        return [udp]


def _quic_packets(datagram: UdpDatagram) -> list[LongPacket]:
    try:
        return [packet for packet in split_datagram(datagram.payload) if isinstance(packet, LongPacket)]
    except DecodeError:
        return []


def _frame(frame: Frame) -> Field:
    whole, rest = divmod(frame.time_ns, 1_000_000_000)
    time = f"{datetime.fromtimestamp(whole, UTC):%Y-%m-%d %H:%M:%S}.{rest:09d} UTC"
    return Field.of(
        "Frame",
        ("Number", frame.number),
        ("Time", time),
        ("Bytes", _bytes(len(frame.data), frame.length)),
        ("Interface", frame.interface),
        ("Link type", link_type_name(frame.link_type)),
    )


def _bytes(captured: int, length: int) -> str:
    return f"{length}" if captured >= length else f"{length}, {captured} of them captured"


def _network(frame: Frame) -> list[Field]:
    """The link's sender and the outermost IP header.

    Raises:
        DecodeError: It ends within its headers, or is none.
    """
    version, offset, station = network_layer(frame.link_type, frame.data)
    link = [] if not station else [Field.of("Link", ("Source", station.hex(":")))]
    if not version:
        return [*link, Field("Network layer", "no IP")]
    parse, ttl_at = (ip.parse_ipv4, 8) if version == 4 else (ip.parse_ipv6, 7)
    packet = parse(frame.data, offset, len(frame.data), frame.length)
    fragment = packet.fragment
    return [
        *link,
        Field.of(
            f"IPv{version}",
            ("Source", Endpoint(packet.source, 0).address),
            ("Destination", Endpoint(packet.destination, 0).address),
            ("TTL" if version == 4 else "Hop limit", frame.data[offset + ttl_at]),
            ("Protocol", {ip.TCP: "6 TCP", ip.UDP: "17 UDP", ip.ICMP: "1 ICMP", ip.ICMPV6: "58 ICMPv6"}.get(
                packet.protocol, packet.protocol)),
            ("Payload", f"{packet.length} bytes"),
            ("Fragment", None if fragment is None else f"offset {fragment.offset}{', more follow' * fragment.more}"),
        ),
    ]  # fmt: skip


def _tcp(segment: TcpSegment) -> list[Field]:
    flags = " ".join(name for bit, name in TCP_FLAGS if segment.flags & bit)
    tcp = Field.of(
        "TCP",
        ("Source port", segment.source.port),
        ("Destination port", segment.destination.port),
        ("Sequence number", segment.seq),
        ("Acknowledgement number", segment.ack if segment.flags & ACK else None),
        ("Flags", flags or "none"),
        ("Payload", _bytes(len(segment.payload), segment.length)),
    )
    if not segment.payload:
        return [tcp]
    return [tcp, *(tls_fields(segment.payload) or _http1(segment.payload))]


def _http1(payload: bytes) -> list[Field]:
    """What an HTTP/1 message in the clear says of the parties and the outcome."""
    try:
        if looks_like_request(payload):
            request = parse_request_head(payload)
            return [Field("HTTP", "the beginning of a request")] if request is None else [_request(request)]
        response = parse_response_head(payload)
    except DecodeError:
        return [Field("Data", "not shown")]
    if response is None:
        return [Field("HTTP", "the beginning of a response")]
    offers = [("Alt-Svc", value) for name, value in response.headers if name == "alt-svc"]
    return [Field.of("HTTP response", ("Status", f"{response.status} {response.reason}"), *offers)]


def _request(head: RequestHead) -> Field:
    """A request, without the path: that is nobody's business but the two ends'."""
    host = next((value for name, value in head.headers if name == "host"), None)
    target = head.target if connect_target(head) is not None else None
    return Field.of("HTTP request", ("Method", head.method), ("Target", target), ("Host", host))


def _dns(payload: bytes) -> list[Field]:
    try:
        message = dns.parse_message(payload)
    except DecodeError:
        return [Field("DNS", "cannot be read")]
    asked = [f"{name}, type {kind}" for name, kind in message.questions]
    answers = [_dns_answer(answer) for answer in message.answers]
    return [
        Field.of(
            "DNS",
            ("Kind", "response" if message.is_response else "query"),
            ("Response code", message.rcode if message.is_response else None),
            ("Questions", listed(asked)),
            ("Answers", listed(answers)),
        )
    ]


def _dns_answer(answer: dns.Answer) -> str:
    match answer:
        case dns.AddressRecord():
            return f"{answer.name} is {Endpoint(answer.address, 0).address}"
        case dns.AliasRecord():
            return f"{answer.name} is {answer.target}"
        case dns.ServiceBinding():
            return f"{answer.name}: {', '.join(answer.protocols) or 'no protocols'} at {answer.target}"


def _icmp(error: IcmpError) -> list[Field]:
    version = "ICMP" if len(error.sender) == 4 else "ICMPv6"
    protocol = {ip.TCP: "TCP", ip.UDP: "UDP"}.get(error.protocol, f"protocol {error.protocol}")
    quoted = Field.of(
        "Packet that it is about",
        ("Source", str(error.source)),
        ("Destination", str(error.destination)),
        ("Protocol", protocol),
        ("Quoted bytes", len(error.quoted)),
    )
    icmp = Field.of(
        version,
        ("Type", error.icmp_type),
        ("Code", error.icmp_code),
        ("Meaning", error.meaning),
        ("Sent by", Endpoint(error.sender, 0).address),
        ("Next hop's MTU", error.mtu),
    )
    return [icmp, quoted]
