"""What the proxy reports, joined with what the wire shows of the same connections, whichever comes first."""

from __future__ import annotations

from typing import TYPE_CHECKING

from h3probe.events import (
    AltSvcSeen,
    CaRejected,
    ClientHelloSeen,
    ConnectionEnded,
    Exchange,
    OnwardConnection,
    PlainRequest,
    ProxyDied,
    ProxyReady,
    TunnelAnswered,
    TunnelAsked,
    UpstreamTrouble,
)
from h3probe.text import clean, count, seconds
from h3probe.track.clock import NS
from h3probe.track.mark import Mark
from h3probe.track.proxy_facts import LIMIT, AltSvcSighting, ExchangeSighting, FailedLeg, ProxyFacts
from h3probe.track.quic import QuicConnection
from h3probe.track.table import BoundedTable
from h3probe.track.tcp import TcpConnection
from h3probe.track.tls_progress import TlsProgress
from h3probe.track.tunnel import Tunnel, Tunnels
from h3probe.wire.tls_hello import ClientHello

if TYPE_CHECKING:
    from collections.abc import Callable

    from h3probe.events import Endpoint, ProxyEvent
    from h3probe.track.quic_tracker import QuicTracker
    from h3probe.track.tcp_tracker import TcpTracker
    from h3probe.track.timeline import Timeline, Weight

# Bytes a client sends after its ClientHello to finish a handshake: a Finished record alone takes 45 (TLS 1.2) or 58; an
# alert with a change_cipher_spec before it takes 30.
LEAST_FINISHED = 40


class ProxyTracker:
    """Takes the proxy's events to the connections and tunnels that they are about.

    Args:
        timeline: Where lines for people go.
        tcp: The TCP connections, which may know a connection from the wire.
        quic: The QUIC connections, likewise.
        new_tunnel_id: Gives the next tunnel its id.
    """

    def __init__(
        self, timeline: Timeline, tcp: TcpTracker, quic: QuicTracker, new_tunnel_id: Callable[[], str]
    ) -> None:
        self._timeline = timeline
        self._tcp = tcp
        self._quic = quic
        self._new_tunnel_id = new_tunnel_id
        self._connections: BoundedTable[str, TcpConnection] = BoundedTable(LIMIT)
        self._claimed: BoundedTable[str, bool] = BoundedTable(LIMIT)
        self._quic_connections: BoundedTable[str, QuicConnection] = BoundedTable(LIMIT)
        self._tunnels: BoundedTable[str, tuple[TcpConnection, Tunnel]] = BoundedTable(LIMIT)
        self._new_exchanges: list[ExchangeSighting] = []
        self._new_alt_svc: list[AltSvcSighting] = []
        self.facts = ProxyFacts()
        self._takers: dict[type, Callable[..., None]] = {
            ProxyReady: self._ready,
            TunnelAsked: self._asked,
            TunnelAnswered: self._answered,
            ClientHelloSeen: self._hello,
            ConnectionEnded: self._ended,
            PlainRequest: self._plain_request,
            Exchange: self._exchange,
            AltSvcSeen: self._alt_svc,
            OnwardConnection: self._onward,
            CaRejected: self._rejected,
            UpstreamTrouble: self._trouble,
            ProxyDied: self._died,
        }

    @property
    def news(self) -> bool:
        """Whether there is something to take."""
        return bool(self._new_exchanges or self._new_alt_svc)

    def take(self) -> tuple[list[ExchangeSighting], list[AltSvcSighting]]:
        """Return the exchanges and Alt-Svc lines that have come since the last call."""
        taken = (self._new_exchanges, self._new_alt_svc)
        self._new_exchanges, self._new_alt_svc = [], []
        return taken

    def feed(self, event: ProxyEvent) -> None:
        """Take one event; one of a type that says nothing about a connection is passed over."""
        take = self._takers.get(type(event))
        if take is not None:
            take(event)

    def _ready(self, event: ProxyReady) -> None:
        self.facts.ready = event

    def _died(self, event: ProxyDied) -> None:
        self.facts.died = event

    def _onward(self, event: OnwardConnection) -> None:
        known = self._connections.get(event.connection)
        if event.local is not None:
            self.facts.legs.put(event.local, value=True)
        elif event.transport == "tcp" and len(self.facts.failed_legs) < LIMIT:
            if self._is_transparent and event.client is not None and event.proxy is not None:
                # The client was let in before: to it, and on the wire, this is a server that accepts and hangs up.
                known = self._connection(event.connection, event.client, event.proxy, event.time_ns)
                text = f"the proxy cannot connect to {event.proxy} for it: {clean(event.error or 'no reason', 100)}"
                self._say(known, event.time_ns, text, outgoing=False, weight="bad")
            began_ns = event.time_ns if known is None else _latest_request_ns(known)
            about = None if known is None else known.id
            error = clean(event.error or "no reason known", 160)
            leg = FailedLeg(event.target, began_ns, event.time_ns, error, about, self._has_upstream)
            self.facts.failed_legs.append(leg)
        if known is not None and known.tunnels_asked and self._has_upstream:
            known.tunnels_asked[-1].upstream = clean(event.target, 300)

    @property
    def _is_transparent(self) -> bool:
        return self.facts.ready is not None and self.facts.ready.mode == "transparent"

    @property
    def _has_upstream(self) -> bool:
        return self.facts.ready is not None and self.facts.ready.mode == "upstream"

    def _plain_request(self, event: PlainRequest) -> None:
        connection = self._connection(event.connection, event.client, event.proxy, event.time_ns)
        self._say(connection, event.time_ns, f"{clean(event.method, 16)} {clean(event.url, 80)}", outgoing=True)

    def _trouble(self, event: UpstreamTrouble) -> None:
        known = self._connections.get(event.connection)
        if len(self.facts.trouble) < LIMIT:
            self.facts.trouble.append((known.id if known is not None else None, event))
        asked = self._tunnels.get(event.tunnel) if event.tunnel is not None else None
        if asked is not None:
            tunnel = asked[1]
            tunnel.upstream = clean(event.upstream, 300) or tunnel.upstream
            tunnel.trouble = tunnel.trouble if event.kind == "slow" and tunnel.trouble is not None else event.kind
        if known is not None:
            self._say(known, event.time_ns, clean(event.text, 120), outgoing=False, weight="bad")

    def _connection(self, connection_id: str, client: Endpoint, proxy: Endpoint, time_ns: int) -> TcpConnection:
        known = self._connections.get(connection_id)
        if known is None:
            found = self._tcp.find(client, proxy)
            if found is not None and self._claimed.get(found.id) is not None:
                self._tcp.replace(found)  # Another connection of the proxy's: the client's port is used anew.
            known = self._tcp.accept(client, proxy, Mark(None, time_ns))
            self._connections.put(connection_id, known)
            self._claimed.put(known.id, value=True)
        return known

    def _asked(self, event: TunnelAsked) -> None:
        connection = self._connection(event.connection, event.client, event.proxy, event.time_ns)
        if connection.tunnels is None:
            connection.tunnels = Tunnels()
            connection.plain = True
        tunnel = Tunnel(
            self._new_tunnel_id(), clean(event.host, 255), event.port, event.method, Mark(None, event.time_ns)
        )
        known = connection.tunnels.report(tunnel)
        self._tunnels.put(event.id, (connection, known))
        if known is tunnel:
            self._say(connection, event.time_ns, f"{tunnel.method} {tunnel.target}", outgoing=True, weight="start")

    def _answered(self, event: TunnelAnswered) -> None:
        known = self._tunnels.get(event.id)
        if known is None:
            return
        connection, tunnel = known
        fresh = tunnel.status is None
        tunnel.status = event.status
        tunnel.by_upstream = event.by == "upstream"
        tunnel.error = None if event.error is None else clean(event.error, 200)
        tunnel.waited = event.seconds
        tunnel.answered = tunnel.answered or Mark(None, event.time_ns)
        if fresh:
            who = "upstream proxy" if tunnel.by_upstream else "proxy"
            text = f"{who} answered {event.status} to {tunnel.target} after {seconds(event.seconds)}"
            self._say(connection, event.time_ns, text, outgoing=False, weight="good" if tunnel.open else "bad")

    def _hello(self, event: ClientHelloSeen) -> None:
        if event.transport == "udp":
            self._quic_hello(event)
            return
        connection = self._connection(event.connection, event.client, event.proxy, event.time_ns)
        if connection.hello is not None:
            return
        tls = connection.tls = connection.tls or TlsProgress()
        tls.hello, tls.ja4, tls.hello_mark = _hello_of(event), clean(event.ja4, 64), Mark(None, event.time_ns)
        inside = " in the tunnel" if event.tunnel is not None else ""
        self._say(connection, event.time_ns, f"ClientHello{inside}, {_offer(event)}", outgoing=True, weight="start")

    def _quic_hello(self, event: ClientHelloSeen) -> None:
        mark = Mark(None, event.time_ns)
        reported = QuicConnection(
            self._quic.next_id(),
            event.client,
            event.proxy,
            event.quic_version or 0,
            first=mark,
            last=mark,
            dcid=event.dcid,
            key_dcid=event.dcid,
            client_scid=event.scid,
        )
        connection = self._quic.accept(reported)
        self._quic_connections.put(event.connection, connection)
        if connection.hello is None:
            connection.hello, connection.ja4 = _hello_of(event), clean(event.ja4, 64)
            self._timeline.say(
                connection, mark, f"Initial, {_offer(event)}", transport="quic", outgoing=True, weight="start"
            )

    def _ended(self, event: ConnectionEnded) -> None:
        connection = self._connections.get(event.connection)
        if connection is None:
            return
        if connection.hello is not None and _went_no_further(event):
            connection.failed = True
        connection.laid_open = connection.laid_open or event.terminated
        if connection.first.frame is None:
            connection.client_stream.bytes_seen = event.sent
            connection.server_stream.bytes_seen = event.received
        mark = Mark(None, event.time_ns)
        connection.last = max(connection.last, mark, key=lambda m: m.time_ns)
        if connection.ended is None:
            connection.fin = (mark, "client" if event.closed_by == "client" else "server")
            text = (
                f"closed by the {event.closed_by} after {seconds(event.seconds)}, {count(event.received, 'byte')} back"
            )
            self._say(connection, event.time_ns, text, outgoing=event.closed_by == "client")

    def _exchange(self, event: Exchange) -> None:
        carrier: TcpConnection | QuicConnection | None
        if event.version == "HTTP/3":
            carrier = self._quic_connections.get(event.connection) or self._quic.find(event.client, event.proxy)
            if carrier is not None:
                carrier.exchanged = True
        else:
            carrier = self._connections.get(event.connection) or self._tcp.find(event.client, event.proxy)
        sighting = ExchangeSighting(event, carrier.id if carrier is not None else None)
        self._new_exchanges.append(sighting)
        if len(self.facts.exchanges) < LIMIT:
            self.facts.exchanges.append(sighting)
        if carrier is None:
            return
        carrier.last = max(carrier.last, Mark(None, event.ended_ns), key=lambda m: m.time_ns)
        status = clean(event.error or "no response", 60) if event.status is None else str(event.status)
        took = seconds((event.ended_ns - event.time_ns) / NS)
        text = f"{clean(event.version, 16)} {clean(event.method, 16)} {clean(event.url, 60)}: {status} after {took}"
        self._say(carrier, event.ended_ns, text, outgoing=False, weight="bad" if event.status is None else "good")

    def _carrier(self, connection_id: str) -> TcpConnection | QuicConnection | None:
        return self._connections.get(connection_id) or self._quic_connections.get(connection_id)

    def _rejected(self, event: CaRejected) -> None:
        known = self._carrier(event.connection)
        if len(self.facts.rejected) < LIMIT:
            self.facts.rejected.append((known.id if known is not None else None, event))
        if known is not None:
            if isinstance(known, TcpConnection):
                known.failed = True
            why = clean(event.alert or "no alert", 40)
            text = f"the client does not take the certificate for {clean(event.host, 64)}: {why}"
            self._say(known, event.time_ns, text, outgoing=True, weight="bad")

    def _alt_svc(self, event: AltSvcSeen) -> None:
        known = self._carrier(event.connection)
        sighting = AltSvcSighting(event, known.id if known is not None else None)
        self._new_alt_svc.append(sighting)
        if len(self.facts.alt_svc) < LIMIT:
            self.facts.alt_svc.append(sighting)
        if known is not None:
            self._say(known, event.time_ns, f"alt-svc: {clean(', '.join(event.lines), 80)}", outgoing=False)

    def _say(
        self,
        connection: TcpConnection | QuicConnection,
        time_ns: int,
        text: str,
        *,
        outgoing: bool,
        weight: Weight = "progress",
    ) -> None:
        mark = Mark(None, time_ns)
        self._timeline.say(connection, mark, text, transport="proxy", outgoing=outgoing, weight=weight)


def _latest_request_ns(connection: TcpConnection) -> int:
    """When the proxy was last asked for something on a connection."""
    asked = connection.tunnels_asked
    return asked[-1].asked.time_ns if asked else connection.first.time_ns


def _went_no_further(event: ConnectionEnded) -> bool:
    """Whether TLS cannot have got ready: nothing came back, or the client did not finish the handshake."""
    return event.received == 0 or (event.after_hello is not None and event.after_hello < LEAST_FINISHED)


def _offer(event: ClientHelloSeen) -> str:
    name = f"SNI {clean(event.sni, 64)}" if event.sni else "no SNI"
    return f"{name}, {clean(','.join(event.alpn), 40) or 'no ALPN'}"


def _hello_of(event: ClientHelloSeen) -> ClientHello:
    """What the proxy says of a ClientHello, in the shape that the wire's have; what it does not say is empty."""
    return ClientHello(
        legacy_version=0x0303,
        random=b"",
        session_id=b"",
        cipher_suites=(),
        compression_methods=b"",
        extensions=(),
        sni=None if event.sni is None else clean(event.sni),
        alpn=tuple(clean(name, 64) for name in event.alpn),
        alpn_raw=tuple(name.encode() for name in event.alpn),
        supported_versions=(),
        groups=(),
        key_share_groups=(),
        signature_algorithms=(),
        ech=event.ech,
        psk=False,
        early_data=False,
        transport_parameters=None,
    )
