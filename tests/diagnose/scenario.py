"""A network in a test: made-up clients and servers that send real packets, and the engine's word on them.

    network = Network()
    quic = network.quic(software=JDK)
    quic.initial(at=0.0)
    quic.initial(at=1.0)
    quic.close(at=2.75, code=0xC, application=True)
    network.tcp(software=JDK).connects(at=2.76)
    assert network.explain().rules == ["fallback-delay", "quic-unanswered"]

A proxy that reports what it sees, of connections whose packets are seen too, or are not:

    client = network.tcp(server="127.0.0.1", port=8899)
    network.proxy().carries(client, at=0.0)

Times are seconds since the capture began. Packets may be written in any order; the capture holds them by time.
"""

from __future__ import annotations

import ipaddress
import struct
from collections import Counter
from dataclasses import dataclass, field, replace
from itertools import count
from typing import TYPE_CHECKING, Any, Literal

from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from h3probe.engine import Engine
from h3probe.events import (
    AltSvcSeen,
    CaRejected,
    ClientHelloSeen,
    ConnectionEnded,
    Dropped,
    Endpoint,
    Exchange,
    Frame,
    OnwardConnection,
    PlainRequest,
    Process,
    ProxyMode,
    ProxyReady,
    SocketOwner,
    ToldAltSvc,
    ToldExchange,
    TunnelAnswered,
    TunnelAsked,
    Unreadable,
    UpstreamTrouble,
)
from h3probe.filters import Filters
from h3probe.records import (
    AltSvcRecord,
    ExchangeRecord,
    FindingRecord,
    QuicRecord,
    RaceRecord,
    SummaryRecord,
    TcpRecord,
    TunnelRecord,
    VerdictRecord,
)
from h3probe.wire.ja4 import ja4
from h3probe.wire.packet import ACK, FIN, RST, SYN
from h3probe.wire.quic.versions import V1, known
from h3probe.wire.tls_hello import parse_client_hello
from tests.wire import hello_builder as tls
from tests.wire import quic_builder as packets

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from h3probe.diagnose.story import Story
    from h3probe.events import Event
    from h3probe.records import AnyRecord, HttpVersion, Moment

Side = Literal["client", "server"]
START_NS = 1_780_000_000_000_000_000
RAW_IP, ETHERNET = 101, 1
STATION, ROUTER_STATION = bytes.fromhex("02000000000a"), bytes.fromhex("020000000001")
CLIENT, SERVER, ROUTER = "192.0.2.10", "198.51.100.1", "192.0.2.1"
CLIENT6, SERVER6 = "2001:db8:a::10", "2001:db8:b::1"
QUIC_V1_ACK_OF_0 = b"\x02\x00\x00\x00\x00"
SERVER_HELLO_13 = tls.server_hello([(43, b"\x03\x04")])


@dataclass(frozen=True, slots=True)
class Software:
    """What gives a client's software away.

    Attributes:
        dcid: Length of its first Destination Connection ID, bytes.
        scid: Length of its Source Connection ID, bytes.
        datagram: UDP payload of its Initials, bytes.
        parameters: Its transport parameters, in order.
        ciphers: The cipher suites it offers over TCP.
    """

    dcid: int
    scid: int
    datagram: int
    parameters: tuple[int, ...]
    ciphers: tuple[int, ...] = (0x1301, 0x1302, 0x1303)


JDK_CIPHERS = bytes.fromhex(
    "130213011303c02cc02bcca9c030cca8c02f009fccaa00a3009e00a2c024c028c023c027006b006a00670040"
    "c00ac014c009c0130039003800330032"
    "00ff"
)
JDK = Software(
    dcid=17,
    scid=12,
    datagram=1200,
    parameters=(1, 3, 4, 5, 6, 7, 8, 9, 14, 15, 17),
    ciphers=struct.unpack(f">{len(JDK_CIPHERS) // 2}H", JDK_CIPHERS),
)
OPENSSL_CIPHERS = bytes.fromhex(
    "130213031301c02cc030009fcca9cca8ccaac02bc02f009ec024c028006bc023c0270067"
    "c00ac0140039c009c0130033009d009c003d003c0035002f"
)
CURL = Software(
    dcid=20,
    scid=20,
    datagram=1200,
    parameters=(15, 5, 6, 7, 4, 8, 9, 17),
    ciphers=struct.unpack(f">{len(OPENSSL_CIPHERS) // 2}H", OPENSSL_CIPHERS),
)
CHROMIUM_CIPHERS = bytes.fromhex("130113021303c02bc02fc02cc030cca9cca8c013c014009c009d002f0035")
CHROMIUM = Software(
    dcid=8,
    scid=0,
    datagram=1250,
    parameters=(4, 0x4752, 1, 5, 15),
    ciphers=struct.unpack(f">{len(CHROMIUM_CIPHERS) // 2}H", CHROMIUM_CIPHERS),
)
FIREFOX_CIPHERS = bytes.fromhex("130113031302c02bc02fcca9cca8c02cc030c013c00ac014009c009d002f0035")
FIREFOX = Software(
    dcid=9,
    scid=3,
    datagram=1357,
    parameters=(1, 4, 5, 6, 15, 0x20),
    ciphers=struct.unpack(f">{len(FIREFOX_CIPHERS) // 2}H", FIREFOX_CIPHERS),
)
QUIC_GO = Software(dcid=14, scid=4, datagram=1280, parameters=(7126, 5, 6, 7, 4, 8, 9, 1, 3, 11, 14, 15))
STRANGER = Software(dcid=8, scid=8, datagram=1200, parameters=(1, 4, 15))


@dataclass(frozen=True, slots=True)
class Packet:
    """An IP packet on the wire, and whose it is.

    Attributes:
        at: When.
        data: From the IP header on.
        by: Which side of its connection sent it; `router` for errors.
        flow: The number of its connection, 0 for none.
    """

    at: float
    data: bytes
    by: Literal["client", "server", "router"]
    flow: int


@dataclass(frozen=True, slots=True)
class Explained:
    """What the engine said.

    Attributes:
        engine: The engine, finished.
        records: All that it gave, in order.
        moments: The timeline.
    """

    engine: Engine
    records: list[AnyRecord]
    moments: list[Moment]

    @property
    def findings(self) -> list[FindingRecord]:
        """The findings."""
        return [r for r in self.records if isinstance(r, FindingRecord)]

    @property
    def rules(self) -> list[str]:
        """The findings' rules, in order."""
        return [finding.rule for finding in self.findings]

    def found(self, rule: str) -> list[FindingRecord]:
        """The findings of one rule."""
        return [finding for finding in self.findings if finding.rule == rule]

    def the(self, rule: str) -> FindingRecord:
        """The one finding of a rule."""
        (finding,) = self.found(rule)
        return finding

    @property
    def verdicts(self) -> list[VerdictRecord]:
        """The verdicts."""
        return [r for r in self.records if isinstance(r, VerdictRecord)]

    @property
    def sentence(self) -> str:
        """The sentence of the one verdict."""
        (verdict,) = self.verdicts
        return verdict.sentence

    @property
    def races(self) -> list[RaceRecord]:
        """The races."""
        return [r for r in self.records if isinstance(r, RaceRecord)]

    @property
    def quic(self) -> list[QuicRecord]:
        """The QUIC connections."""
        return [r for r in self.records if isinstance(r, QuicRecord)]

    @property
    def tcp(self) -> list[TcpRecord]:
        """The TCP connections."""
        return [r for r in self.records if isinstance(r, TcpRecord)]

    @property
    def tunnels(self) -> list[TunnelRecord]:
        """The tunnels."""
        return [r for r in self.records if isinstance(r, TunnelRecord)]

    @property
    def exchanges(self) -> list[ExchangeRecord]:
        """The exchanges."""
        return [r for r in self.records if isinstance(r, ExchangeRecord)]

    @property
    def alt_svc(self) -> list[AltSvcRecord]:
        """The Alt-Svc lines."""
        return [r for r in self.records if isinstance(r, AltSvcRecord)]

    @property
    def verdict(self) -> VerdictRecord:
        """The one verdict."""
        (verdict,) = self.verdicts
        return verdict

    @property
    def summary(self) -> SummaryRecord:
        """The summary, which is the last record."""
        last = self.records[-1]
        assert isinstance(last, SummaryRecord)
        return last

    @property
    def stories(self) -> list[Story]:
        """The stories."""
        return self.engine.stories()


@dataclass(slots=True)
class Network:
    """Holds the packets of all connections, and whatever else a vantage point reports.

    Attributes:
        stations: Link-layer addresses by address. With any of them the capture is one of an Ethernet, where whoever
            is not named sits behind the router.
        sent: The packets.
        reported: What is no packet, and when.
    """

    stations: dict[str, bytes] = field(default_factory=dict)
    sent: list[Packet] = field(default_factory=list)
    reported: list[tuple[float, Event]] = field(default_factory=list)
    _software: set[Software] = field(default_factory=set)
    _flows: count[int] = field(default_factory=lambda: count(1))
    _ports: count[int] = field(default_factory=lambda: count(50_001))

    def quic(
        self,
        *,
        client: str = CLIENT,
        client_port: int | None = None,
        server: str = SERVER,
        port: int = 443,
        sni: str | None = "example.org",
        alpn: tuple[str, ...] = ("h3",),
        software: Software = STRANGER,
        version: int = V1,
        ech: bool = False,
        available: tuple[int, ...] = (V1,),
        psk: bool = False,
    ) -> Quic:
        """A client that may speak QUIC to a server."""
        number = next(self._flows)
        self._software.add(software)
        ends = (client, client_port or next(self._ports), server, port)
        hello = _quic_hello(number, sni, alpn, software, ech=ech, psk=psk, versions=(version, *available))
        return Quic(self, number, *ends, software, version, hello)

    def tcp(
        self,
        *,
        client: str = CLIENT,
        client_port: int | None = None,
        server: str = SERVER,
        port: int = 443,
        sni: str | None = "example.org",
        alpn: tuple[str, ...] = ("h2", "http/1.1"),
        software: Software | None = None,
        hello_of: Tcp | None = None,
        ech: bool = False,
    ) -> Tcp:
        """A client that may speak TCP to a server; `hello_of` repeats another one's ClientHello.

        Without `software` it is the one whose QUIC came before, as long as that is one.
        """
        software = software or (next(iter(self._software)) if len(self._software) == 1 else STRANGER)
        number = next(self._flows)
        ends = (client, client_port or next(self._ports), server, port)
        extensions = [tls.supported_versions(0x0304)]
        extensions += [tls.server_name(sni.encode())] if sni is not None else []
        extensions += [tls.alpn(*(p.encode() for p in alpn))] if alpn else []
        extensions += [(0xFE0D, bytes(32))] if ech else []
        hello = hello_of.client_hello if hello_of is not None else _hello(number, extensions, software.ciphers)
        return Tcp(self, number, *ends, hello)

    def proxy(self) -> Proxy:
        """A proxy that reports on the connections made to it."""
        return Proxy(self)

    def report(self, at: float, event: Event) -> None:
        """The vantage point reports something."""
        self.reported.append((at, event))

    def send(self, packet: Packet) -> None:
        """Put a packet on the wire."""
        self.sent.append(packet)

    def delay(self, seconds: float) -> None:
        """All that was sent so far comes later."""
        self.sent = [replace(packet, at=packet.at + seconds) for packet in self.sent]

    def bystander(self, at: float) -> None:
        """Somebody else's packet, which shows that the capture goes on."""
        datagram = struct.pack(">HHHH", 9, 9, 12, 0) + b"time"
        self.send(Packet(at, ip("203.0.113.7", "203.0.113.8", 17, datagram), "client", 0))

    def dns(self, at: float, name: str, address: str, *, client: str = CLIENT) -> None:
        """A DNS answer: the address of a name."""
        host = ipaddress.ip_address(address)
        kind = 1 if host.version == 4 else 28
        self._dns_answer(at, name, kind, host.packed, client)

    def https_record(
        self, at: float, name: str, *alpn: str, client: str = CLIENT, parameters: tuple[bytes, bytes] = (b"", b"")
    ) -> None:
        """A DNS answer: an HTTPS record that advertises protocols; `parameters` stand before and after those."""
        protocols = b"".join(tls.vector(1, p.encode()) for p in alpn)
        before, after = parameters
        data = b"\x00\x01\x00" + before + b"\x00\x01" + tls.vector(2, protocols) + after
        self._dns_answer(at, name, 65, data, client)

    def _dns_answer(self, at: float, name: str, kind: int, data: bytes, client: str) -> None:
        labels = b"".join(tls.vector(1, label.encode()) for label in name.split(".")) + b"\x00"
        question = labels + struct.pack(">HH", kind, 1)
        answer = b"\xc0\x0c" + struct.pack(">HHIH", kind, 1, 300, len(data)) + data
        message = struct.pack(">HHHHHH", 7, 0x8180, 1, 1, 0, 0) + question + answer
        datagram = struct.pack(">HHHH", 53, 40_000, 8 + len(message), 0) + message
        self.send(Packet(at, ip(ROUTER, client, 17, datagram), "server", 0))

    def owns(self, at: float, connection: Quic | Tcp, pid: int, name: str) -> None:
        """The vantage point learns whose a client's socket is."""
        protocol = 17 if isinstance(connection, Quic) else 6
        local = Endpoint(ipaddress.ip_address(connection.client).packed, connection.client_port)
        self.reported.append((at, SocketOwner(nanoseconds(at), protocol, local, Process(pid, name))))

    def lost(self, at: float, number: int, reason: str = "the kernel's ring was full") -> None:
        """The vantage point lost packets."""
        self.reported.append((at, Dropped(number, reason)))

    def unreadable(self, at: float, reason: str) -> None:
        """The vantage point could not read something."""
        self.reported.append((at, Unreadable(reason)))

    def told(
        self,
        at: float,
        connection: Tcp | Quic | None,
        version: str | None = "HTTP/2",
        *,
        began: float | None = None,
        within: float = 0.0,
        known_from: Literal["client-log", "decrypted"] = "client-log",
        **fields: Any,  # noqa: ANN401 - of the event
    ) -> None:
        """What the client's own log says of a request: by default no more than version, status and port."""
        event = ToldExchange(
            time_ns=nanoseconds(at),
            known_from=known_from,
            origin="https://example.org:443",
            method="GET",
            url="https://example.org/",
            version=version,
            status=200 if version is not None else None,
            local_port=connection.client_end.port if connection is not None else None,
            began_ns=None if began is None else nanoseconds(began),
            error=None if version is not None else "it failed",
            within_ns=round(within * 1e9),
        )
        self.report(at, replace(event, **fields))

    def told_alt_svc(self, at: float, *lines: str, origin: str = "https://example.org:443") -> None:
        """What it says of a response's Alt-Svc lines."""
        self.report(at, ToldAltSvc(nanoseconds(at), "client-log", origin, lines))

    def events(self, seen: Callable[[Packet], bool] = lambda _: True) -> list[Event]:
        """What a vantage point reports that sees the packets it is told to see, in order of time."""
        number = count(1)
        timed: list[tuple[float, int, Event | Packet]] = [(p.at, 0, p) for p in self.sent if seen(p)]
        timed += [(at, 1, event) for at, event in self.reported]
        timed.sort(key=lambda item: item[:2])
        return [self._frame(next(number), item) if isinstance(item, Packet) else item for _, _, item in timed]

    def _frame(self, number: int, packet: Packet) -> Frame:
        if not self.stations:
            return frame(number, packet.at, packet.data)
        six = packet.data[0] >> 4 == 6
        source = str(ipaddress.ip_address(packet.data[8:24] if six else packet.data[12:16]))
        station = self.stations.get(source, ROUTER_STATION)
        header = bytes(6) + station + (b"\x86\xdd" if six else b"\x08\x00")
        data = bytearray(packet.data)
        data[7 if six else 8] = 64 if source in self.stations else 63  # The router takes one hop off.
        return frame(number, packet.at, header + bytes(data), ETHERNET)

    def explain(
        self,
        *,
        seen: Callable[[Packet], bool] = lambda _: True,
        filters: Filters | None = None,
        truncated: bool = False,
        expects: HttpVersion | None = None,
    ) -> Explained:
        """Run the engine over what a vantage point sees."""
        return explain(self.events(seen), filters=filters, truncated=truncated, expects=expects)


def explain(
    events: Iterable[Event],
    *,
    filters: Filters | None = None,
    truncated: bool = False,
    expects: HttpVersion | None = None,
) -> Explained:
    """Run an engine over events, and check that what it says hangs together."""
    engine = Engine("test", "pcap", filters or Filters(), expects=expects)
    records = [record for event in events for record in engine.feed(event)]
    records += engine.finish(truncated=truncated)
    counts = Counter(record.type for record in records)
    result = Explained(engine, records, engine.take_moments())
    assert records[0].type == "capture"
    assert result.summary.records == counts
    ids = [record.id for record in records]
    assert len(set(ids)) == len(ids)
    return result


def nanoseconds(at: float) -> int:
    """Seconds since the capture began as a frame's time."""
    return START_NS + round(at * 1_000_000_000)


def frame(number: int, at: float, data: bytes, link_type: int = RAW_IP) -> Frame:
    """A frame; by default one that holds an IP packet and nothing before it."""
    return Frame(number, nanoseconds(at), link_type, data, len(data))


def ip(source: str, destination: str, protocol: int, payload: bytes) -> bytes:
    """An IP packet of the addresses' family."""
    one, other = ipaddress.ip_address(source), ipaddress.ip_address(destination)
    if one.version == 6:
        return struct.pack(">IHBB", 0x60000000, len(payload), protocol, 64) + one.packed + other.packed + payload
    header = struct.pack(">BBHHHBBH", 0x45, 0, 20 + len(payload), 1, 0, 64, protocol, 0)
    return header + one.packed + other.packed + payload


def _hello(number: int, extensions: list[tuple[int, bytes]], ciphers: tuple[int, ...]) -> bytes:
    """A ClientHello message whose random is its connection's own."""
    body = tls.client_hello(extensions, ciphers=ciphers)
    return tls.message(1, body[:2] + number.to_bytes(32) + body[34:])


def _quic_hello(
    number: int,
    sni: str | None,
    alpn: tuple[str, ...],
    software: Software,
    *,
    ech: bool,
    psk: bool,
    versions: tuple[int, ...],
) -> bytes:
    values = {17: tls.u16s(*(half for v in versions for half in (v >> 16, v & 0xFFFF))), 0x4752: bytes(4)}
    parameters = b"".join(
        packets.varint(kind) + tls.vector(1, values.get(kind, b"" if kind == 15 else b"\x20"))
        for kind in software.parameters
    )
    extensions = [tls.supported_versions(0x0304), tls.alpn(*(p.encode() for p in alpn)), (57, parameters)]
    extensions += [tls.server_name(sni.encode())] if sni is not None else []
    extensions += [(0xFE0D, bytes(32))] if ech else []
    extensions += [(41, bytes(32))] if psk else []
    return _hello(number, extensions, (0x1301, 0x1302, 0x1303))


@dataclass(slots=True)
class _Connection:
    """What the two kinds of connection share."""

    network: Network
    number: int
    client: str
    client_port: int
    server: str
    port: int

    @property
    def client_end(self) -> Endpoint:
        """Address and port of the client."""
        return Endpoint(ipaddress.ip_address(self.client).packed, self.client_port)

    @property
    def server_end(self) -> Endpoint:
        """Address and port of the server."""
        return Endpoint(ipaddress.ip_address(self.server).packed, self.port)

    def _send(self, at: float, by: Side, protocol: int, segment: bytes) -> bytes:
        ends = (self.client, self.server) if by == "client" else (self.server, self.client)
        packet = ip(*ends, protocol, segment)
        self.network.send(Packet(at, packet, by, self.number))
        return packet

    def _icmp(self, at: float, quoted: bytes, code: tuple[int, int] | None, sender: str, recipient: str) -> None:
        """An ICMP error of the quoted packet's family; `code` is type and code, else port unreachable."""
        six = quoted[0] >> 4 == 6
        icmp_type, icmp_code = code or ((1, 4) if six else (3, 3))
        message = struct.pack(">BBHI", icmp_type, icmp_code, 0, 0) + quoted[:548]
        self.network.send(Packet(at, ip(sender, recipient, 58 if six else 1, message), "router", self.number))


@dataclass(slots=True)
class Quic(_Connection):
    """A QUIC client and its server, on one pair of ports; `again` starts a new connection on the same ones."""

    software: Software
    version: int
    client_hello: bytes
    dcid: bytes = b""
    client_scid: bytes = b""
    server_scid: bytes = b""
    key_dcid: bytes = b""
    token: bytes = b""
    answered: bool = False
    client_numbers: count[int] = field(default_factory=count)
    server_numbers: count[int] = field(default_factory=count)
    first_bytes: count[int] = field(default_factory=count)
    last_from_client: bytes = b""
    last_from_server: bytes = b""
    times: int = 1

    def __post_init__(self) -> None:
        self._fresh_ids(self.number)

    def _fresh_ids(self, number: int) -> None:
        self.dcid = self.key_dcid = (0xD0 << 8 * (self.software.dcid - 1) | number).to_bytes(self.software.dcid)
        self.client_scid = (number % 251 + 1).to_bytes(self.software.scid) if self.software.scid else b""
        self.server_scid = (0x5E << 56 | number).to_bytes(8)
        self.token, self.answered = b"", False
        self.client_numbers, self.server_numbers = count(), count()

    def again(self, version: int | None = None) -> None:
        """The client begins a new connection from the same port."""
        self.version = version or self.version
        self._fresh_ids(self.number + 100 * self.times)
        self.times += 1

    def datagram(self, at: float, by: Side, payload: bytes) -> None:
        """Any UDP datagram on this pair of ports."""
        ports = (self.client_port, self.port) if by == "client" else (self.port, self.client_port)
        segment = struct.pack(">HHHH", *ports, 8 + len(payload), 0) + payload
        packet = self._send(at, by, 17, segment)
        if by == "client":
            self.last_from_client = packet
        else:
            self.last_from_server = packet

    def client_initial(self, at: float, frames: bytes) -> None:
        """An Initial of the client's that holds the given frames."""
        if known(self.version) is None:
            # Nobody can read what follows the part that no version changes (RFC 8999, 5.1).
            ids = tls.vector(1, self.dcid) + tls.vector(1, self.client_scid)
            head = b"\xc0" + self.version.to_bytes(4) + ids
            self.datagram(at, "client", head.ljust(self.software.datagram, b"\x00"))
            return
        packet = packets.initial(
            frames,
            version=self.version,
            dcid=self.server_scid if self.answered else self.dcid,
            scid=self.client_scid,
            key_dcid=self.key_dcid,
            token=self.token,
            number=next(self.client_numbers),
            size=self.software.datagram,
        )
        self.datagram(at, "client", packet)

    def initial(self, at: float) -> None:
        """The client sends its ClientHello, or sends it again."""
        self.client_initial(at, packets.crypto(0, self.client_hello))

    def initials(self, *times: float) -> None:
        """The client sends its ClientHello each time."""
        for at in times:
            self.initial(at)

    def initial_in_two(self, at: float) -> None:
        """The client's ClientHello takes two datagrams, the second part first."""
        half = len(self.client_hello) // 2
        self.client_initial(at, packets.crypto(half, self.client_hello[half:]))
        self.client_initial(at + 0.000_01, packets.crypto(0, self.client_hello[:half]))

    def acknowledges(self, at: float) -> None:
        """The client's Initial acknowledges the server's."""
        self.client_initial(at, QUIC_V1_ACK_OF_0)

    def server_initial(self, at: float, frames: bytes, *, size: int = 1200) -> None:
        """An Initial of the server's that holds the given frames."""
        packet = packets.initial(
            frames,
            version=self.version,
            dcid=self.client_scid,
            scid=self.server_scid,
            key_dcid=self.key_dcid,
            number=next(self.server_numbers),
            from_client=False,
            size=size,
        )
        self.answered = True
        self.datagram(at, "server", packet)

    def answers(self, at: float, *, size: int = 1200) -> None:
        """The server's ServerHello."""
        hello = packets.crypto(0, tls.message(2, SERVER_HELLO_13))
        self.server_initial(at, QUIC_V1_ACK_OF_0 + hello, size=size)

    def server_handshake(self, at: float, *, size: int = 1000) -> None:
        """The server's encrypted part of the handshake, or a repetition of it."""
        body = packets.opaque(
            "handshake", bytes(size), version=self.version, dcid=self.client_scid, scid=self.server_scid
        )
        self.answered = True
        self.datagram(at, "server", body)

    def client_handshake(self, at: float) -> None:
        """A Handshake packet of the client's: its Finished, an acknowledgement or a close, nobody can tell."""
        self.datagram(
            at,
            "client",
            packets.opaque("handshake", bytes(60), version=self.version, dcid=self.server_scid, scid=self.client_scid),
        )

    def _one_rtt(self) -> bytes:
        """The first byte of a 1-RTT packet, of which header protection makes another one each time."""
        return bytes((0x40 | next(self.first_bytes) * 11 & 0x1F,))

    def request(self, at: float, size: int = 200) -> None:
        """A 1-RTT packet from the client."""
        self.datagram(at, "client", self._one_rtt() + self.server_scid + bytes(size))

    def response(self, at: float, size: int = 900) -> None:
        """A 1-RTT packet from the server."""
        self.datagram(at, "server", self._one_rtt() + self.client_scid + bytes(size))

    def completes(self, at: float, rtt: float = 0.02) -> None:
        """What follows a ClientHello that is answered: the handshake from the server's part on, and an exchange."""
        self.answers(at)
        self.server_handshake(at + 0.000_1)
        self.client_handshake(at + 0.001)
        self.request(at + 0.001_1)
        self.response(at + 0.001_1 + rtt)

    def connects(self, at: float, rtt: float = 0.02) -> None:
        """The whole of a connection: handshake and one exchange."""
        self.initial(at)
        self.completes(at + rtt, rtt)

    def retry(self, at: float) -> None:
        """The server wants the client's address proven; what the client sends from now on does that."""
        scid = (0x4E << 56 | self.number).to_bytes(8)
        head = packets.long_header("retry", version=self.version, dcid=self.client_scid, scid=scid) + b"token"
        version = known(self.version)
        assert version is not None
        assert version.retry_key is not None
        assert version.retry_nonce is not None
        pseudo = bytes((len(self.dcid),)) + self.dcid + head
        tag = AESGCM(version.retry_key).encrypt(version.retry_nonce, b"", pseudo)
        self.datagram(at, "server", head + tag)
        self.dcid = self.key_dcid = scid
        self.token = b"token"

    def version_negotiation(self, at: float, *versions: int) -> None:
        """The server says which versions it speaks."""
        answer = packets.version_negotiation(*versions, dcid=self.client_scid, scid=self.dcid)
        self.datagram(at, "server", answer)

    def close(
        self, at: float, code: int, reason: bytes = b"", *, by: Side = "client", application: bool = False
    ) -> None:
        """A CONNECTION_CLOSE that everyone can read, since it is in an Initial."""
        frame_type = None if application else 0
        frames = packets.close(code, reason, frame_type)
        if by == "client":
            self.client_initial(at, frames)
        else:
            self.server_initial(at, frames, size=60)

    def unreachable(self, at: float, *, code: tuple[int, int] | None = None, sender: str | None = None) -> None:
        """An ICMP error about the client's latest datagram, port unreachable from the server if nothing is said."""
        self._icmp(at, self.last_from_client, code, sender or self.server, self.client)

    def client_is_gone(self, at: float) -> None:
        """The client's host says that nobody has the port any more that the server sent to."""
        self._icmp(at, self.last_from_server, None, self.client, self.server)


@dataclass(slots=True)
class Tcp(_Connection):
    """A TCP client and its server."""

    client_hello: bytes
    client_seq: int = 1000
    server_seq: int = 9000
    last_from_client: bytes = b""

    def segment(self, at: float, by: Side, flags: int, payload: bytes = b"") -> None:
        """Any segment; the sequence numbers follow."""
        ports = (self.client_port, self.port) if by == "client" else (self.port, self.client_port)
        numbers = (self.client_seq, self.server_seq) if by == "client" else (self.server_seq, self.client_seq)
        header = struct.pack(">HHIIBBHHH", *ports, *numbers, 5 << 4, flags, 65535, 0, 0)
        packet = self._send(at, by, 6, header + payload)
        length = len(payload) + bool(flags & (SYN | FIN))
        if by == "client":
            self.client_seq += length
            self.last_from_client = packet
        else:
            self.server_seq += length

    def syn(self, at: float) -> None:
        """The client's SYN."""
        self.segment(at, "client", SYN)

    def syn_again(self, at: float) -> None:
        """The client's SYN, once more."""
        self.client_seq -= 1
        self.segment(at, "client", SYN)

    def refuse(self, at: float) -> None:
        """The server's RST to a SYN."""
        self.segment(at, "server", RST | ACK)

    def accepts(self, at: float) -> None:
        """The server's SYN-ACK and the client's ACK."""
        self.segment(at, "server", SYN | ACK)
        self.segment(at + 0.000_05, "client", ACK)

    def hello(self, at: float) -> None:
        """The ClientHello."""
        self.segment(at, "client", ACK, tls.record(22, self.client_hello))

    def server_flight(self, at: float) -> None:
        """The server's part of a TLS 1.3 handshake."""
        flight = tls.record(22, tls.message(2, SERVER_HELLO_13)) + tls.record(20, b"\x01") + tls.record(23, bytes(900))
        self.segment(at, "server", ACK, flight)

    def server_flight_12(self, at: float, alpn: str) -> None:
        """The server's part of a TLS 1.2 handshake that resumes a session: its hello, and its Finished."""
        hello = tls.server_hello([tls.alpn(alpn.encode())])
        flight = tls.record(22, tls.message(2, hello)) + tls.record(20, b"\x01") + tls.record(22, bytes(40))
        self.segment(at, "server", ACK, flight)

    def finished(self, at: float) -> None:
        """The client's Finished."""
        self.segment(at, "client", ACK, tls.record(20, b"\x01") + tls.record(23, bytes(53)))

    def request(self, at: float, size: int = 200) -> None:
        """Protected data from the client."""
        self.segment(at, "client", ACK, tls.record(23, bytes(size)))

    def response(self, at: float, size: int = 900) -> None:
        """Protected data from the server."""
        self.segment(at, "server", ACK, tls.record(23, bytes(size)))

    def alert(self, at: float, code: int, *, by: Side = "server") -> None:
        """A fatal alert in the clear."""
        self.segment(at, by, ACK, tls.record(21, bytes((2, code))))

    def gets_ready(self, at: float, rtt: float = 0.02) -> None:
        """The TLS handshake, and nothing after it."""
        self.hello(at)
        self.server_flight(at + rtt)
        self.finished(at + rtt + 0.001)

    def opens(self, at: float, rtt: float = 0.02) -> None:
        """A connection that is ready and carries nothing."""
        self.syn(at)
        self.accepts(at + rtt)
        self.gets_ready(at + rtt + 0.000_1, rtt)

    def connects(self, at: float, rtt: float = 0.02) -> None:
        """The whole of a connection: handshakes and one exchange."""
        self.opens(at, rtt)
        self.exchanges(at + 2 * rtt + 0.002, rtt)

    def exchanges(self, at: float, rtt: float = 0.02) -> None:
        """One request and its response."""
        self.request(at)
        self.response(at + rtt)

    def fin(self, at: float, by: Side = "client") -> None:
        """One side is done."""
        self.segment(at, by, FIN | ACK)

    def rst(self, at: float, by: Side = "server") -> None:
        """One side tears it down."""
        self.segment(at, by, RST | ACK)

    def asks_proxy(self, at: float, target: str, rtt: float = 0.001) -> None:
        """A connection to a proxy, and CONNECT on it."""
        self.syn(at)
        self.accepts(at + rtt)
        self.asks_again(at + rtt + 0.000_1, target)

    def asks_again(self, at: float, target: str) -> None:
        """CONNECT."""
        self.segment(at, "client", ACK, f"CONNECT {target} HTTP/1.1\r\nHost: {target}\r\n\r\n".encode())

    def asks_connect_udp(self, at: float, host: str, port: int) -> None:
        """The HTTP/1.1 form of connect-udp (RFC 9298, 3.2)."""
        head = (
            f"GET /.well-known/masque/udp/{host}/{port}/ HTTP/1.1\r\nHost: proxy\r\nConnection: Upgrade\r\n"
            "Upgrade: connect-udp\r\nCapsule-Protocol: ?1\r\n\r\n"
        )
        self.segment(at, "client", ACK, head.encode())

    def proxy_answers(self, at: float, status: int, words: str = "Answer", fields: str = "") -> None:
        """The proxy's status line, and header fields that each end with CRLF."""
        self.segment(at, "server", ACK, f"HTTP/1.1 {status} {words}\r\n{fields}\r\n".encode())

    def unreachable(self, at: float, *, code: tuple[int, int] | None = None, sender: str | None = None) -> None:
        """An ICMP error about the client's latest segment."""
        self._icmp(at, self.last_from_client, code, sender or self.server, self.client)


@dataclass(slots=True)
class Proxy:
    """Reports what a proxy sees of connections to it; whether their packets are seen as well is another matter."""

    network: Network
    _ids: count[int] = field(default_factory=lambda: count(1))

    def asked(
        self,
        at: float,
        connection: Tcp,
        host: str = "example.org",
        port: int = 443,
        method: Literal["CONNECT", "connect-udp"] = "CONNECT",
    ) -> str:
        """A client asks for a tunnel; returns the tunnel's id."""
        tunnel = f"t{next(self._ids)}"
        ends = (connection.client_end, connection.server_end)
        event = TunnelAsked(nanoseconds(at), tunnel, _id(connection), *ends, host, port, method)
        self.network.report(at, event)
        return tunnel

    def answered(
        self,
        at: float,
        tunnel: str,
        status: int = 200,
        *,
        seconds: float = 0.05,
        by: Literal["proxy", "upstream"] = "proxy",
        error: str | None = None,
        challenges: tuple[str, ...] = (),
    ) -> None:
        """The client gets its answer."""
        self.network.report(at, TunnelAnswered(nanoseconds(at), tunnel, status, seconds, by, error, challenges))

    def hello(self, at: float, connection: Tcp | Quic, tunnel: str | None = None) -> None:
        """The connection's ClientHello went by."""
        hello = parse_client_hello(connection.client_hello[4:])
        quic = connection if isinstance(connection, Quic) else None
        event = ClientHelloSeen(
            time_ns=nanoseconds(at),
            connection=_id(connection),
            client=connection.client_end,
            proxy=connection.server_end,
            transport="tcp" if quic is None else "udp",
            tunnel=tunnel,
            sni=hello.sni,
            alpn=hello.alpn,
            ja4=ja4(hello, "t" if quic is None else "q"),
            quic_version=None if quic is None else quic.version,
            dcid=None if quic is None else quic.dcid,
            scid=None if quic is None else quic.client_scid,
        )
        self.network.report(at, event)

    def ended(
        self,
        at: float,
        connection: Tcp | Quic,
        tunnel: str | None = None,
        *,
        sent: int = 700,
        received: int = 5000,
        closed_by: Literal["client", "server", "proxy", "idle"] = "client",
        after_hello: int | None = None,
        terminated: bool = False,
    ) -> None:
        """The connection is over."""
        event = ConnectionEnded(
            time_ns=nanoseconds(at),
            connection=_id(connection),
            client=connection.client_end,
            proxy=connection.server_end,
            transport=_transport(connection),
            tunnel=tunnel,
            sent=sent,
            received=received,
            seconds=at,
            closed_by=closed_by,
            after_hello=after_hello,
            terminated=terminated,
        )
        self.network.report(at, event)

    def carries(self, connection: Tcp, at: float, host: str = "example.org", port: int = 443) -> str:
        """A tunnel from its request to its end, with TLS inside that the proxy does not touch."""
        tunnel = self.asked(at, connection, host, port)
        self.answered(at + 0.05, tunnel)
        self.hello(at + 0.06, connection, tunnel)
        self.ended(at + 1.0, connection, tunnel)
        return tunnel

    def exchange(
        self,
        at: float,
        connection: Tcp | Quic,
        version: str = "HTTP/2",
        *,
        status: int | None = 200,
        took: float = 0.02,
        origin: str = "https://example.org:443",
        intercepted: bool = False,
        error: str = "connection closed",
        distrusted: bool = False,
    ) -> None:
        """A request and its response, or an error in place of one."""
        event = Exchange(
            time_ns=nanoseconds(at),
            connection=_id(connection),
            client=connection.client_end,
            proxy=connection.server_end,
            origin=origin,
            method="GET",
            url=f"{origin}/?q=",
            status=status,
            version=version,
            server_version=None if status is None else "HTTP/2",
            answered_ns=None if status is None else nanoseconds(at + took / 2),
            ended_ns=nanoseconds(at + took),
            error=error if status is None else None,
            intercepted=intercepted,
            distrusted=distrusted,
        )
        self.network.report(at + took, event)

    def alt_svc(
        self,
        at: float,
        connection: Tcp | Quic,
        *lines: str,
        passed_on: tuple[str, ...] | None = None,
        origin: str = "https://example.org:443",
        directly: bool = False,
    ) -> None:
        """A response's Alt-Svc lines; the client gets the same ones if nothing is said."""
        got = lines if passed_on is None else passed_on
        event = AltSvcSeen(nanoseconds(at), _id(connection), connection.client_end, origin, lines, got, directly)
        self.network.report(at, event)

    def rejected(
        self,
        at: float,
        connection: Tcp | Quic,
        alert: str | None = "unknown_ca",
        host: str = "example.org",
        *,
        let_alone: bool = True,
    ) -> None:
        """The client does not take the certificate."""
        end, transport = connection.client_end, _transport(connection)
        self.network.report(at, CaRejected(nanoseconds(at), _id(connection), end, host, transport, alert, let_alone))

    def trouble(
        self,
        at: float,
        connection: Tcp,
        tunnel: str | None = None,
        kind: Literal["refused", "unreachable", "silent", "garbage", "slow"] = "silent",
        status: int | None = None,
    ) -> None:
        """The proxy behind this one fails."""
        event = UpstreamTrouble(
            nanoseconds(at), _id(connection), tunnel, "corp.example:3128", kind, 1.0, f"it is {kind}", status
        )
        self.network.report(at, event)

    def ready(self, mode: ProxyMode) -> None:
        """The proxy listens, before all else."""
        self.network.report(-1.0, ProxyReady(nanoseconds(-1.0), mode, (), True, "12.0.0", "0.0.0"))

    def unreached(self, at: float, connection: Tcp | Quic, target: str, error: str = "connection refused") -> None:
        """The proxy's own connection, which could not be made."""
        self.network.report(at, OnwardConnection(nanoseconds(at), _id(connection), "tcp", target, error=error))

    def plain(self, at: float, connection: Tcp, url: str = "http://example.org/") -> None:
        """A request in the clear."""
        ends = (connection.client_end, connection.server_end)
        self.network.report(at, PlainRequest(nanoseconds(at), _id(connection), *ends, "GET", url))

    def cannot_connect(self, at: float, connection: Tcp, error: str = "connection refused") -> None:
        """The proxy's own connection, which is not there."""
        ends = (connection.client_end, connection.server_end)
        target = f"{connection.server}:{connection.port}"
        event = OnwardConnection(nanoseconds(at), _id(connection), "tcp", target, None, None, None, error, *ends)
        self.network.report(at, event)

    def onward(self, at: float, connection: Tcp | Quic, leg: Tcp | Quic) -> None:
        """The proxy's own connection, made for a client's."""
        ends = (leg.client_end, leg.server_end)
        transport, target = _transport(leg), f"{leg.server}:{leg.port}"
        self.network.report(at, OnwardConnection(nanoseconds(at), _id(connection), transport, target, *ends, 0.01))


def _id(connection: Tcp | Quic) -> str:
    return f"c{connection.number}"


def _transport(connection: Tcp | Quic) -> Literal["tcp", "udp"]:
    return "udp" if isinstance(connection, Quic) else "tcp"
