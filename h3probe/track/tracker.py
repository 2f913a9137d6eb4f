"""The tracker: frames in, connections out."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import count, islice
from typing import TYPE_CHECKING

from h3probe.track.clock import NS, Clock
from h3probe.track.hosts import Hosts
from h3probe.track.mark import Mark
from h3probe.track.names import DNS_PORTS, Names
from h3probe.track.proxied import ProxyTracker
from h3probe.track.quic import QuicConnection
from h3probe.track.quic_tracker import QuicTracker
from h3probe.track.table import BoundedTable
from h3probe.track.tcp import TcpConnection
from h3probe.track.tcp_tracker import TcpTracker
from h3probe.track.timeline import Timeline
from h3probe.track.told import ToldFacts, ToldTracker
from h3probe.wire.packet import IcmpError, PacketDecoder, TcpSegment, UdpDatagram

if TYPE_CHECKING:
    from h3probe.events import Counted, Frame, ProxyEvent, Secrets, SocketOwner, Told
    from h3probe.track.decrypted import Decrypter
    from h3probe.track.names import DnsSighting
    from h3probe.track.proxy_facts import AltSvcSighting, ExchangeSighting
    from h3probe.wire.packet import Fact, Transported

Connection = QuicConnection | TcpConnection

TCP = 6
UDP = 17
# How often, in the capture's own time, settled connections are looked for.
SWEEP_NS = 5 * NS
ICMP_PER_CONNECTION = 64
RECEIVERS_LIMIT = 65_536


@dataclass(frozen=True, slots=True)
class IcmpSighting:
    """An ICMP error about a connection that is tracked."""

    mark: Mark
    error: IcmpError
    connection: str


@dataclass(slots=True)
class Progress:
    """What a step brought.

    Attributes:
        opened: Connections that are new.
        settled: Connections of which nothing more is expected, or that had to be forgotten.
        icmp: ICMP errors about connections.
        dns: Service bindings in DNS answers.
        exchanges: Requests and responses that the proxy saw.
        alt_svc: Alt-Svc lines that it saw.
        told: What the client's log, or decrypted traffic, told of; None where that is nothing.
        decrypted: What decrypted traffic tells of.
    """

    opened: list[Connection] = field(default_factory=list)
    settled: list[Connection] = field(default_factory=list)
    icmp: list[IcmpSighting] = field(default_factory=list)
    dns: list[DnsSighting] = field(default_factory=list)
    exchanges: list[ExchangeSighting] = field(default_factory=list)
    alt_svc: list[AltSvcSighting] = field(default_factory=list)
    told: ToldFacts | None = None
    decrypted: list[Told] = field(default_factory=list)

    @property
    def tells(self) -> bool:
        """Whether there is something to tell of: new connections alone are not."""
        return bool(
            self.settled or self.icmp or self.dns or self.exchanges or self.alt_svc or self.told or self.decrypted
        )


class Tracker:
    """Decodes frames and follows the connections in them; bounded in memory, without a clock of its own.

    Attributes:
        clock: The capture's time.
        timeline: Lines for people.
        decoder: Holds the counts of what could not be decoded.
        names: What DNS said.
        hosts: Which addresses are one host's.
        proxy: What the proxy reports.
        told: What the client's log, or decrypted traffic, tells of.
        decrypter: Reads what is encrypted; None as long as there are no secrets.
        packets: Frames taken.
        fact: What the latest frame was.
        next_sweep_ns: When connections are looked for next of which nothing more is expected.
        watched: Connections, by id, whose packets are not all fed; `unwatched` are those of them that were settled.
    """

    def __init__(self) -> None:
        self.clock = Clock()
        self.timeline = Timeline(self.clock)
        self.decoder = PacketDecoder()
        self.names = Names()
        self.hosts = Hosts()
        self.decrypter: Decrypter | None = None
        self.packets = 0
        self._receivers: set[bytes] = set()
        self._transports: set[str] = set()
        self.fact: Fact | None = None
        self.watched: set[str] = set()
        self.unwatched: list[str] = []
        self._progress = Progress()
        # Whether anything but packets was told of: by the client's log, by the proxy, or because there are secrets.
        self._beside = False
        self._alive: dict[str, Connection] = {}
        self._icmp_seen: BoundedTable[str, int] = BoundedTable(4096)
        self.next_sweep_ns = 0
        quic_ids, tcp_ids, tunnel_ids = count(1), count(1), count(1)
        self.quic = QuicTracker(
            self.timeline, lambda: f"quic-{next(quic_ids)}", on_open=self._opened, on_evict=self._settle
        )

        def new_tunnel_id() -> str:
            return f"tunnel-{next(tunnel_ids)}"

        self.tcp = TcpTracker(
            self.timeline,
            lambda: f"tcp-{next(tcp_ids)}",
            new_tunnel_id,
            on_open=self._opened,
            on_evict=self._settle,
        )
        self.proxy = ProxyTracker(self.timeline, self.tcp, self.quic, new_tunnel_id)
        self.told = ToldTracker(self.timeline)

    @property
    def evicted(self) -> int:
        """Connections that were forgotten to keep memory bounded."""
        return self.quic.evicted + self.tcp.evicted

    def feed(self, frame: Frame) -> None:
        """Take one frame."""
        self.follow(self.decoder.decode(frame), frame.time_ns)

    def follow(self, fact: Fact | None, time_ns: int) -> None:
        """Take one frame as what it was decoded to; None where that is nothing that is followed."""
        self.packets += 1
        self.clock.see(time_ns)
        self.fact = fact
        if isinstance(fact, TcpSegment):
            self._met(fact, "tcp")
            self.tcp.feed(fact)
            if self.decrypter is not None:
                self._decrypt(self.decrypter, fact)
        elif isinstance(fact, UdpDatagram):
            self._met(fact, "udp")
            self._udp(fact)
        elif isinstance(fact, IcmpError):
            self._heard(fact.recipient)
            self._icmp(fact)
        if self.clock.now_ns >= self.next_sweep_ns:
            self.sweep(self.clock.now_ns)

    def count(self, counted: Counted) -> None:
        """Take the sums of frames that were not fed."""
        self.packets += counted.frames
        self.clock.see(counted.time_ns)
        for flow in counted.flows:
            connection = self._alive[flow.connection]
            if connection.transport == "quic":
                self.quic.count(connection, flow)
            else:
                self.tcp.count(connection, flow)

    def feed_proxy(self, event: ProxyEvent) -> None:
        """Take an event of the proxy."""
        self._beside = True
        self.clock.see(event.time_ns)
        self.proxy.feed(event)
        if self.clock.now_ns >= self.next_sweep_ns:
            self.sweep(self.clock.now_ns)

    def feed_told(self, event: Told) -> None:
        """Take what the client's log, or decrypted traffic, tells; its time is not the capture's."""
        self._beside = True
        self.told.feed(event)

    def add_secrets(self, secrets: Secrets) -> None:
        """Take TLS secrets; what comes after them is decrypted where they fit."""
        self._beside = True
        if self.decrypter is None:
            from h3probe.track.decrypted import Decrypter  # noqa: PLC0415 - who has no secrets needs no ciphers

            self.decrypter = Decrypter()
            self.quic.on_packet = self.decrypter.packet
        self.decrypter.add(secrets)

    def attribute(self, owner: SocketOwner) -> None:
        """Take note of the process that owns a client's socket."""
        for connection in self._alive.values():
            if connection.client == owner.local and (connection.transport == "tcp") == (owner.protocol == TCP):
                connection.process = owner.process

    def sweep(self, now_ns: int) -> None:
        """Settle the connections of which nothing more is expected."""
        self.next_sweep_ns = now_ns + SWEEP_NS
        for connection in [c for c in self._alive.values() if c.is_idle(now_ns)]:
            if connection.transport == "quic":
                self.quic.forget(connection)
            else:
                self.tcp.forget(connection)
            self._settle(connection)

    def settle(self, most: int) -> bool:
        """Settle so many connections, the oldest, of which nothing more will come; return whether there were any."""
        some = list(islice(self._alive.values(), most))
        for connection in some:
            self._settle(connection)
        return bool(some)

    def finish(self) -> None:
        """Settle everything."""
        while self.settle(len(self._alive)):
            pass
        self._hear_decrypted()
        self.told.finish()

    @property
    def quiet(self) -> bool:
        """Whether nothing has come since the last call of `take`."""
        progress = self._progress
        if progress.opened or progress.settled or progress.icmp or progress.dns:
            return False
        return not self._beside or (self.decrypter is None and not self.told.busy and not self.proxy.news)

    def take(self) -> Progress:
        """Return what has come since the last call."""
        self._hear_decrypted()
        progress, self._progress = self._progress, Progress()
        progress.exchanges, progress.alt_svc = self.proxy.take()
        self.told.advance(self.clock.now_ns)
        progress.told = self.told.take()
        return progress

    @property
    def lacks(self) -> frozenset[str]:
        """Transports of which not one packet was seen, as where a capture filter left them out."""
        return frozenset({"tcp", "udp"}) - self._transports

    def hears(self, host: bytes) -> bool:
        """Whether any packet to a host was seen: without one, silence towards it proves nothing."""
        return host in self._receivers or len(self._receivers) >= RECEIVERS_LIMIT

    def _met(self, fact: Transported, transport: str) -> None:
        """Take note of whom a packet is from and to."""
        self._transports.add(transport)
        if fact.destination.host not in self._receivers:
            self._heard(fact.destination.host)
        self.hosts.see(fact.station, fact.source.host)

    def _heard(self, host: bytes) -> None:
        if len(self._receivers) < RECEIVERS_LIMIT:
            self._receivers.add(host)

    def _decrypt(self, decrypter: Decrypter, segment: TcpSegment) -> None:
        connection = self.tcp.find(segment.source, segment.destination)
        if connection is not None:
            decrypter.segment(connection, segment)

    def _hear_decrypted(self) -> None:
        if self.decrypter is not None:
            for event in self.decrypter.take():
                self._progress.decrypted.append(event)
                self.told.feed(event)

    def _udp(self, datagram: UdpDatagram) -> None:
        if datagram.source.port in DNS_PORTS or datagram.destination.port in DNS_PORTS:
            self._progress.dns += self.names.feed(datagram)
        else:
            self.quic.feed(datagram)

    def _icmp(self, error: IcmpError) -> None:
        connection: Connection | None = None
        if error.protocol == UDP:
            connection = self.quic.feed_icmp(error)
        elif error.protocol == TCP:
            connection = self.tcp.feed_icmp(error)
        if connection is None:
            return
        seen = self._icmp_seen.get(connection.id) or 0
        self._icmp_seen.put(connection.id, seen + 1)
        if seen < ICMP_PER_CONNECTION:
            self._progress.icmp.append(IcmpSighting(Mark(error.frame, error.time_ns), error, connection.id))

    def _opened(self, connection: Connection) -> None:
        self._alive[connection.id] = connection
        self.told.opened(connection)
        self._progress.opened.append(connection)

    def _settle(self, connection: Connection) -> None:
        if self._alive.pop(connection.id, None) is not None:
            connection.settled = True
            if connection.id in self.watched:
                self.unwatched.append(connection.id)
            if self.decrypter is not None:
                self.decrypter.settle(connection)
            connection.release()
            self._progress.settled.append(connection)
