"""From what was tracked and diagnosed to the records of the output contract."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from h3probe.diagnose.clients import guess_name
from h3probe.diagnose.origin import origin_of_url
from h3probe.events import Endpoint
from h3probe.records import (
    SCHEMA_VERSION,
    AltService,
    AltSvcRecord,
    AnyRecord,
    Close,
    DnsRecord,
    Evidence,
    ExchangeRecord,
    FindingRecord,
    HttpVersion,
    IcmpRecord,
    QuicRecord,
    RaceRecord,
    TcpRecord,
    TunnelRecord,
)
from h3probe.text import clean
from h3probe.track.clock import NS
from h3probe.track.timeline import process_info
from h3probe.track.told import took_seconds
from h3probe.wire.altsvc import parse as parse_alt_svc
from h3probe.wire.quic.errors import error_name

if TYPE_CHECKING:
    from h3probe.diagnose.race import Race
    from h3probe.diagnose.rule import Finding
    from h3probe.diagnose.story import Story
    from h3probe.events import AltSvcSeen, ToldAltSvc, ToldExchange
    from h3probe.track.clock import Clock
    from h3probe.track.names import DnsSighting
    from h3probe.track.proxy_facts import ExchangeSighting
    from h3probe.track.quic import QuicConnection
    from h3probe.track.tcp import TcpConnection
    from h3probe.track.told import ToldSighting
    from h3probe.track.tracker import Connection, IcmpSighting
    from h3probe.track.tunnel import Tunnel

VERSIONS: dict[str, HttpVersion] = {"HTTP/1.1": "HTTP/1.1", "HTTP/2": "HTTP/2", "HTTP/3": "HTTP/3"}


def _hex(data: bytes | None) -> str | None:
    return None if data is None else data.hex()


@dataclass(slots=True)
class RecordBuilder:
    """Builds records in the capture's own time."""

    clock: Clock
    schema: int = SCHEMA_VERSION
    _icmp: int = 0
    _dns: int = 0
    _races: int = 0
    _exchanges: int = 0
    _alt_svc: int = 0

    def connection(self, connection: Connection) -> list[AnyRecord]:
        """The record of a connection, and those of the tunnels asked for on it."""
        if connection.transport == "quic":
            return [self._quic(connection)]
        records: list[AnyRecord] = [self._tcp(connection)]
        if connection.tunnels is not None:
            records += [self._tunnel(connection, tunnel) for tunnel in connection.tunnels.asked]
        return records

    def _quic(self, c: QuicConnection) -> QuicRecord:
        clock, now, hello = self.clock, self.clock.now_ns, c.hello
        outcome = c.outcome(now)
        failed = outcome in ("unanswered", "refused", "stalled", "version-negotiation")
        ended = c.ended.time_ns if c.ended is not None else (c.last.time_ns if failed else None)
        return QuicRecord(
            id=c.id,
            at=clock.at(c.first.time_ns),
            time=clock.rfc3339(c.first.time_ns),
            client=str(c.client),
            server=str(c.server),
            version=c.version_name,
            dcid=_hex(c.dcid),
            client_scid=_hex(c.client_scid),
            server_scid=_hex(c.server_scid),
            sni=hello.sni if hello is not None else None,
            alpn=list(hello.alpn) if hello is not None else None,
            ja4=c.ja4,
            history="".join(c.history),
            outcome=outcome,
            close=_close(c),
            initials_sent=c.initials_sent,
            first_packet=c.first.frame,
            ready_at=clock.maybe_at(c.ready.time_ns if c.ready is not None else None),
            ended_at=clock.maybe_at(ended),
            process=process_info(c.process),
            client_guess=guess_name(c, "quic"),
        )

    def _tcp(self, c: TcpConnection) -> TcpRecord:
        clock, hello = self.clock, c.hello
        chosen = c.tls.server_hello.alpn if c.tls is not None and c.tls.server_hello is not None else None
        return TcpRecord(
            id=c.id,
            at=clock.at(c.first.time_ns),
            time=clock.rfc3339(c.first.time_ns),
            client=str(c.client),
            server=str(c.server),
            sni=hello.sni if hello is not None else None,
            alpn=list(hello.alpn) if hello is not None else None,
            alpn_chosen=chosen,
            ja4=c.ja4,
            outcome=c.outcome(clock.now_ns),
            connect_at=clock.maybe_at(c.connected.time_ns if c.connected is not None else None),
            ready_at=clock.maybe_at(c.ready.time_ns if c.ready is not None else None),
            ended_at=clock.maybe_at(c.ended[0].time_ns if c.ended is not None else None),
            closed_by=c.ended[1] if c.ended is not None else None,
            first_packet=c.first.frame,
            process=process_info(c.process),
            client_guess=guess_name(c, "tcp"),
        )

    def _tunnel(self, c: TcpConnection, tunnel: Tunnel) -> TunnelRecord:
        clock = self.clock
        hello = c.hello if tunnel.open or tunnel.entered else None
        carried = 0
        if tunnel.open:
            carried = max(c.client_stream.bytes_seen - tunnel.client_start, 0)
            carried += max(c.server_stream.bytes_seen - tunnel.server_start, 0)
        return TunnelRecord(
            id=tunnel.id,
            at=clock.at(tunnel.asked.time_ns),
            time=clock.rfc3339(tunnel.asked.time_ns),
            client=str(c.client),
            proxy=str(c.server),
            target=tunnel.target,
            method=tunnel.method,
            status=tunnel.status,
            sni=hello.sni if hello is not None else None,
            alpn=list(hello.alpn) if hello is not None else None,
            bytes=carried,
            ended_at=clock.maybe_at(c.ended[0].time_ns if c.ended is not None else None),
            closed_by=c.ended[1] if c.ended is not None else None,
            connection=c.id,
            process=process_info(c.process),
        )

    def icmp(self, sighting: IcmpSighting) -> IcmpRecord:
        """The record of an ICMP error."""
        self._icmp += 1
        error, mark = sighting.error, sighting.mark
        return IcmpRecord(
            id=f"icmp-{self._icmp}",
            at=self.clock.at(mark.time_ns),
            time=self.clock.rfc3339(mark.time_ns),
            icmp_type=error.icmp_type,
            icmp_code=error.icmp_code,
            meaning=error.meaning,
            sender=Endpoint(error.sender, 0).address,
            connection=sighting.connection,
            frame=mark.frame,
        )

    def dns(self, sighting: DnsSighting) -> DnsRecord:
        """The record of an HTTPS or SVCB answer."""
        self._dns += 1
        binding, mark = sighting.binding, sighting.mark
        hints = (*binding.ipv4hints, *binding.ipv6hints)
        return DnsRecord(
            id=f"dns-{self._dns}",
            at=self.clock.at(mark.time_ns),
            time=self.clock.rfc3339(mark.time_ns),
            name=clean(binding.name),
            target=None if binding.target in (".", "") else clean(binding.target),
            priority=binding.priority,
            alpn=[clean(p) for p in binding.protocols],
            port=binding.port,
            hints=[Endpoint(hint, 0).address for hint in hints],
            ech=binding.ech,
            frame=mark.frame,
        )

    def exchange(self, sighting: ExchangeSighting) -> ExchangeRecord:
        """The record of a request and its response."""
        self._exchanges += 1
        seen = sighting.exchange
        return ExchangeRecord(
            id=f"exchange-{self._exchanges}",
            at=self.clock.at(seen.time_ns),
            time=self.clock.rfc3339(seen.time_ns),
            origin=origin_of_url(seen.origin),
            method=clean(seen.method, 32),
            url=clean(seen.url, 2048),
            status=seen.status,
            version=VERSIONS.get(seen.version),
            known_from="proxy",
            connection=sighting.connection,
            took=(seen.ended_ns - seen.time_ns) / NS,
            error=None if seen.error is None else clean(seen.error, 512),
        )

    def told(self, sighting: ToldSighting[ToldExchange]) -> ExchangeRecord:
        """The record of a request and its response that the client's log, or decrypted traffic, tells of."""
        self._exchanges += 1
        told = sighting.told
        began_ns = told.time_ns if told.began_ns is None else told.began_ns
        return ExchangeRecord(
            id=f"exchange-{self._exchanges}",
            at=self.clock.at(began_ns),
            time=self.clock.rfc3339(began_ns),
            origin=origin_of_url(told.origin),
            method=clean(told.method, 32) or None,
            url=clean(told.url, 2048) or None,
            status=told.status,
            version=VERSIONS.get(told.version or ""),
            known_from=told.known_from,
            connection=sighting.connection,
            took=took_seconds(told),
            error=None if told.error is None else clean(told.error, 512),
        )

    def alt_svc(self, seen: AltSvcSeen) -> AltSvcRecord:
        """The record of Alt-Svc lines that the proxy saw."""
        return self._alt_svc_lines(seen, "proxy")

    def told_alt_svc(self, told: ToldAltSvc) -> AltSvcRecord:
        """The record of Alt-Svc lines that the client's log, or decrypted traffic, tells of."""
        return self._alt_svc_lines(told, told.known_from)

    def _alt_svc_lines(self, seen: AltSvcSeen | ToldAltSvc, seen_at: str) -> AltSvcRecord:
        self._alt_svc += 1
        parsed = parse_alt_svc(seen.lines)
        services = [
            AltService(clean(a.protocol, 64), clean(a.host, 255), a.port, a.max_age, a.persist)
            for a in parsed.alternatives
        ]
        return AltSvcRecord(
            id=f"alt-svc-{self._alt_svc}",
            at=self.clock.at(seen.time_ns),
            time=self.clock.rfc3339(seen.time_ns),
            origin=origin_of_url(seen.origin),
            value=clean(", ".join(seen.lines), 4096),
            services=services,
            seen_at=seen_at,
        )

    def race(self, story: Story, race: Race) -> RaceRecord:
        """The record of a race."""
        self._races += 1
        clock = self.clock
        began = min(race.quic.first, race.tcp.syn or race.tcp.first, key=lambda mark: mark.time_ns)
        return RaceRecord(
            id=f"race-{self._races}",
            at=clock.at(began.time_ns),
            time=clock.rfc3339(began.time_ns),
            origin=story.origin,
            client=story.client,
            quic=race.quic.id,
            tcp=race.tcp.id,
            head_start=race.head_start,
            quic_ready_at=clock.maybe_at(race.quic.ready.time_ns if race.quic.ready is not None else None),
            tcp_ready_at=clock.maybe_at(race.tcp.ready.time_ns if race.tcp.ready is not None else None),
            first_ready=race.first_ready,
            ready_margin=race.ready_margin,
            carried=race.carried,
            carried_known_from=race.carried_known_from,
        )

    def finding(self, finding: Finding, story: Story | None, number: int) -> FindingRecord:
        """The record of a finding."""
        began_ns = min((mark.time_ns for mark, _ in finding.evidence), default=self.clock.start_ns)
        return FindingRecord(
            id=f"finding-{number}",
            at=0.0 if began_ns is None else self.clock.at(began_ns),
            time=None if began_ns is None else self.clock.rfc3339(began_ns),
            rule=finding.rule,
            severity=finding.severity,
            origin=story.label if story is not None else None,
            summary=finding.summary,
            evidence=[Evidence(mark.frame, self.clock.at(mark.time_ns), what) for mark, what in finding.evidence],
            advice=finding.advice,
            cost=finding.cost,
            connections=[connection.id for connection in finding.about],
        )


def _close(c: QuicConnection) -> Close | None:
    close = c.close
    if close is None:
        return None
    _, frame, side = close
    return Close(frame.code, error_name(frame.code, application=frame.application), clean(frame.reason), side)
