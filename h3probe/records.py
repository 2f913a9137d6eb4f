"""The output contract: one dataclass per record, printed as NDJSON and described by `h3probe schema`.

Every record has an `id` that others refer to, `at` (seconds since the first packet) and `time` (RFC 3339,
nanoseconds, UTC). A value that is not known is None, never guessed. Addresses are `ip:port` or `[v6]:port`,
byte strings lower-case hex. The string beside each type is the field's description in the JSON Schema.
"""

from __future__ import annotations

from typing import Annotated, Literal

from h3probe.facts import fact

SCHEMA_VERSION = 1

QuicOutcome = Literal["established", "unanswered", "refused", "stalled", "closed", "version-negotiation", "mid-stream"]
TcpOutcome = Literal["established", "unanswered", "refused", "reset", "mid-stream"]
Transport = Literal["quic", "tcp"]
Side = Literal["client", "server"]
KnownFrom = Literal["proxy", "client-log", "decrypted", "inferred"]
HttpVersion = Literal["HTTP/1.1", "HTTP/2", "HTTP/3"]
Severity = Literal["problem", "notice", "info"]


@fact
class ProcessInfo:
    """The process that owns the client's socket."""

    pid: Annotated[int, "process id"]
    name: Annotated[str, "process name"]


@fact
class Close:
    """A CONNECTION_CLOSE that could be read (RFC 9000, 19.19)."""

    code: Annotated[int, "error code; 0x100 to 0x1ff is CRYPTO_ERROR plus the TLS alert"]
    name: Annotated[str | None, "the code's name in its own space, null when it has none"]
    reason: Annotated[str, "the reason phrase, as sent"]
    by: Annotated[Side, "who sent it"]


@fact
class Evidence:
    """A packet that proves something."""

    frame: Annotated[int | None, "frame number from 1"]
    at: Annotated[float, "seconds since the first packet"]
    what: Annotated[str, "what the packet shows"]


@fact
class Record:
    """What all records have."""

    id: Annotated[str, "unique in this output; other records refer to it"]
    at: Annotated[float, "seconds since the first packet"]
    time: Annotated[str | None, "the same moment, RFC 3339 with nanoseconds, UTC; null where there was no packet"]


@fact
class CaptureRecord(Record):
    """The first line: what was looked at, and by which h3probe."""

    type = "capture"
    schema: Annotated[int, "version of this output contract"]
    h3probe: Annotated[str, "version of h3probe"]
    source: Annotated[str, "file names, interfaces or relays"]
    format: Annotated[str | None, "pcap, pcapng, live, relay"]


@fact
class QuicRecord(Record):
    """One QUIC connection, as far as its packets can be read without its keys."""

    type = "quic"
    client: Annotated[str, "ip:port"]
    server: Annotated[str, "ip:port"]
    version: Annotated[str | None, "v1, v2, draft-29, or 0x... as sent"]
    dcid: Annotated[str | None, "the client's first Destination Connection ID"]
    client_scid: Annotated[str | None, "the client's Source Connection ID"]
    server_scid: Annotated[str | None, "the server's Source Connection ID"]
    sni: Annotated[str | None, "server name in the ClientHello (the outer one under ECH)"]
    alpn: Annotated[list[str] | None, "protocols offered"]
    ja4: Annotated[str | None, "JA4 client fingerprint"]
    history: Annotated[
        str,
        "packets in order: I Initial, S hello, H Handshake, Z 0-RTT, R Retry, C CONNECTION_CLOSE, O 1-RTT, "
        "U Version Negotiation or unknown version; capitals from the client; the first 100",
    ]
    outcome: Annotated[QuicOutcome | None, "how the attempt ended; null when the capture ends before it did"]
    close: Annotated[Close | None, "the first CONNECTION_CLOSE that could be read"]
    initials_sent: Annotated[int, "datagrams that carried part of a ClientHello"]
    first_packet: Annotated[int | None, "frame number from 1"]
    ready_at: Annotated[float | None, "seconds: the client's Finished was sent"]
    ended_at: Annotated[float | None, "seconds: closed or given up; null while it lives"]
    process: Annotated[ProcessInfo | None, "the client's process"]
    client_guess: Annotated[str | None, "client software recognised from the wire"]


@fact
class TcpRecord(Record):
    """One TCP connection and the TLS handshake on it."""

    type = "tcp"
    client: Annotated[str, "ip:port"]
    server: Annotated[str, "ip:port"]
    sni: Annotated[str | None, "server name in the ClientHello"]
    alpn: Annotated[list[str] | None, "protocols offered"]
    alpn_chosen: Annotated[str | None, "protocol the server chose, where TLS 1.2 shows it; TLS 1.3 encrypts it"]
    ja4: Annotated[str | None, "JA4 client fingerprint"]
    outcome: Annotated[
        TcpOutcome | None,
        "how the attempt ended (`unanswered`: its SYN or its ClientHello; `reset`: by anyone, before it was ready); "
        "null when that is not seen",
    ]
    connect_at: Annotated[float | None, "seconds: the handshake's SYN-ACK was acknowledged"]
    ready_at: Annotated[float | None, "seconds: the first request could be sent"]
    ended_at: Annotated[float | None, "seconds: FIN or RST; null while it lives"]
    closed_by: Annotated[Side | None, "who ended it first"]
    first_packet: Annotated[int | None, "frame number from 1"]
    process: Annotated[ProcessInfo | None, "the client's process"]
    client_guess: Annotated[str | None, "client software recognised from the wire"]


@fact
class TunnelRecord(Record):
    """One tunnel asked of a proxy."""

    type = "tunnel"
    client: Annotated[str, "ip:port"]
    proxy: Annotated[str, "ip:port"]
    target: Annotated[str, "host:port asked for"]
    method: Annotated[Literal["CONNECT", "connect-udp"], "how it was asked for"]
    status: Annotated[int | None, "the proxy's answer; null when none was seen"]
    sni: Annotated[str | None, "server name in the ClientHello inside"]
    alpn: Annotated[list[str] | None, "protocols offered inside"]
    bytes: Annotated[int, "payload carried after the answer, both directions"]
    ended_at: Annotated[float | None, "seconds; null while it lives"]
    closed_by: Annotated[Side | None, "client, or server for the proxy"]
    connection: Annotated[str | None, "id of the tcp record that carries it"]
    process: Annotated[ProcessInfo | None, "the client's process"]


@fact
class IcmpRecord(Record):
    """An ICMP error about a connection that is in this output."""

    type = "icmp"
    icmp_type: Annotated[int, "ICMP or ICMPv6 type"]
    icmp_code: Annotated[int, "ICMP or ICMPv6 code"]
    meaning: Annotated[str, "the code in words"]
    sender: Annotated[str, "address of the host that sent it; `from` in JSON"]
    connection: Annotated[str | None, "id of the quic or tcp record it is about"]
    frame: Annotated[int | None, "frame number from 1"]


@fact
class DnsRecord(Record):
    """An HTTPS or SVCB record in a DNS answer (RFC 9460)."""

    type = "dns"
    name: Annotated[str, "owner name"]
    target: Annotated[str | None, "target name, null when it is the owner"]
    priority: Annotated[int, "0 is AliasMode"]
    alpn: Annotated[list[str], "protocols, the default one included unless no-default-alpn stands there"]
    port: Annotated[int | None, "port, null when not given"]
    hints: Annotated[list[str], "address hints"]
    ech: Annotated[bool, "whether an ECH configuration is given"]
    frame: Annotated[int | None, "frame number from 1"]


@fact
class AltService:
    """One alternative of an Alt-Svc value (RFC 7838)."""

    protocol: Annotated[str, "ALPN id, percent-decoded"]
    host: Annotated[str, "empty: the origin's own"]
    port: Annotated[int, "port"]
    max_age: Annotated[int, "seconds of freshness"]
    persist: Annotated[bool, "kept across network changes"]


@fact
class AltSvcRecord(Record):
    """An Alt-Svc header that was seen."""

    type = "alt_svc"
    origin: Annotated[str | None, "host:port that sent it"]
    value: Annotated[str, "as sent"]
    services: Annotated[list[AltService], "parsed; empty for `clear`"]
    seen_at: Annotated[str, "where: wire, proxy, client-log, decrypted"]


@fact
class ExchangeRecord(Record):
    """One HTTP request and its response."""

    type = "exchange"
    origin: Annotated[str | None, "host:port"]
    method: Annotated[str | None, "request method"]
    url: Annotated[str | None, "without user information"]
    status: Annotated[int | None, "response status"]
    version: Annotated[HttpVersion | None, "what carried it"]
    known_from: Annotated[KnownFrom, "where that is known from"]
    connection: Annotated[str | None, "id of the quic or tcp record"]
    took: Annotated[float | None, "seconds"]
    error: Annotated[str | None, "why there is no response, or no whole one, in the words of whoever tells"]


@fact
class RaceRecord(Record):
    """QUIC and TCP tried at the same time for one origin."""

    type = "race"
    origin: Annotated[str | None, "host:port"]
    client: Annotated[str, "address"]
    quic: Annotated[str, "id of the quic record"]
    tcp: Annotated[str, "id of the tcp record"]
    head_start: Annotated[float, "seconds from QUIC's first packet to TCP's SYN; negative when TCP began"]
    quic_ready_at: Annotated[float | None, "seconds since the first packet"]
    tcp_ready_at: Annotated[float | None, "seconds since the first packet"]
    first_ready: Annotated[Transport | None, "which could carry a request first"]
    ready_margin: Annotated[float | None, "seconds between the two"]
    carried: Annotated[Transport | None, "which one carried the first exchange; null when it cannot be told"]
    carried_known_from: Annotated[KnownFrom | None, "where that is known from"]


@fact
class FindingRecord(Record):
    """A named condition, with the packets that prove it."""

    type = "finding"
    rule: Annotated[str, "slug; `h3probe rule SLUG` explains it"]
    severity: Annotated[Severity, "from what happened"]
    origin: Annotated[str | None, "host:port, or the server's address"]
    summary: Annotated[str, "one or two sentences"]
    evidence: Annotated[list[Evidence], "packets that prove it"]
    advice: Annotated[str, "what to do"]
    cost: Annotated[float | None, "seconds lost, null where none can be stated"]
    connections: Annotated[list[str], "ids of the records it is about"]


OWNER_NOT_KNOWN = "owner not known"
"""Ends the `client` of a verdict on what may be a stranger's."""


@fact
class VerdictRecord(Record):
    """One sentence for an origin and a client: what carried its requests, and why."""

    type = "verdict"
    origin: Annotated[str | None, "host:port, or the server's address"]
    client: Annotated[str, "process, or address"]
    versions: Annotated[dict[str, int] | None, "exchanges per HTTP version, null where not known"]
    sentence: Annotated[str, "the verdict"]
    rules: Annotated[list[str], "slugs of the findings behind it"]


@fact
class ExpectationRecord(Record):
    """Whether an origin's exchanges were all of the version that `--expect` asks for; there only with that option."""

    type = "expectation"
    origin: Annotated[str | None, "host:port, or the server's address; null where no request to any origin was seen"]
    expected: Annotated[HttpVersion, "what was expected"]
    met: Annotated[bool, "there were exchanges, and each one is known to have been so"]
    versions: Annotated[dict[str, int] | None, "exchanges per HTTP version, null where not known"]
    reason: Annotated[str, "how they went"]


@fact
class DifferenceSide:
    """What one of two captures has of an origin and a client."""

    origin: Annotated[str | None, "host:port, or the server's address, as this capture gives it"]
    client: Annotated[str, "process, or address"]
    verdict: Annotated[str, "the verdict's sentence"]
    http3: Annotated[bool | None, "whether any request used HTTP/3; null where that is not known"]
    versions: Annotated[dict[str, int] | None, "exchanges per HTTP version, null where not known"]
    quic: Annotated[list[QuicOutcome | None], "how QUIC attempts ended, each way once; null where that is not seen"]
    tcp: Annotated[list[TcpOutcome | None], "the same of TCP"]
    rules: Annotated[list[str], "slugs of the findings"]


@fact
class TimeDifference:
    """One time in two captures."""

    what: Annotated[
        Literal["quic-ready", "tcp-ready", "cost", "head-start"],
        "from the first packet of the first connection that became ready to that moment, over QUIC or TCP; the seconds "
        "that findings say were lost; from QUIC's first packet to TCP's SYN in the first race",
    ]
    a: Annotated[float | None, "seconds in A, null where not known"]
    b: Annotated[float | None, "seconds in B, null where not known"]
    change: Annotated[float | None, "B less A; null where one is not known"]
    noise: Annotated[bool | None, "whether the change is too small to mean anything; null where there is none"]


@fact
class DifferenceRecord(Record):
    """What differs between two captures for an origin and a client; printed by `h3probe diff --json` alone."""

    type = "difference"
    origin: Annotated[str | None, "host:port, or the server's address"]
    a: Annotated[DifferenceSide | None, "the first capture's; null where only the second one has it"]
    b: Annotated[DifferenceSide | None, "the second capture's; null where only the first one has it"]
    same: Annotated[bool, "nothing differs, noise left out"]
    came: Annotated[list[str], "slugs of findings that only B has"]
    went: Annotated[list[str], "slugs of findings that only A has"]
    times: Annotated[list[TimeDifference], "times that one of the two has"]
    sentence: Annotated[str, "the difference, and the findings that explain it, if any do"]


@fact
class SummaryRecord(Record):
    """The last line."""

    type = "summary"
    packets: Annotated[int, "frames read"]
    link_types: Annotated[list[str], "link types seen"]
    truncated: Annotated[bool, "the source could not be read to its end: it stops in mid-packet, or is damaged"]
    dropped: Annotated[
        int | None, "packets known to be lost before h3probe saw them; null when the source does not say"
    ]
    malformed: Annotated[int, "packets that could not be decoded"]
    evicted: Annotated[int, "connections not followed to the end, or forgotten, to keep memory bounded"]
    records: Annotated[dict[str, int], "count per record type"]
    exit_status: Annotated[int, "0 no problem, 1 a finding of severity problem, or an expectation that is not met"]
    uncounted: Annotated[
        int, "packets of long transfers that came faster than they could be counted: sums of bytes are at least so much"
    ] = 0


AnyRecord = (
    CaptureRecord
    | QuicRecord
    | TcpRecord
    | TunnelRecord
    | IcmpRecord
    | DnsRecord
    | AltSvcRecord
    | ExchangeRecord
    | RaceRecord
    | FindingRecord
    | VerdictRecord
    | ExpectationRecord
    | DifferenceRecord
    | SummaryRecord
)


@fact
class StoryOutline:
    """Which connections belong together; for reports, and not part of the NDJSON contract.

    Attributes:
        origin: As verdicts and findings name it: `host:port`, or the server's address.
        relayed: Whether these are a proxy's own connections, on behalf of a client seen beside it.
        connections: Ids of the quic and tcp records.
    """

    origin: str
    relayed: bool
    connections: tuple[str, ...]


@fact
class Moment:
    """A thing that happened, for the live timeline; not part of the NDJSON contract.

    Attributes:
        time_ns: When.
        at: Seconds since the first packet.
        frame: Frame number, None when no packet shows it.
        connection: Id of the connection it belongs to.
        transport: `quic`, `tcp`, `icmp`, `dns` or `proxy`: picks the colour.
        process: The client's process, where it is known.
        client: `ip:port` of the client.
        server: `ip:port` of the server.
        outgoing: True from client to server, False back, None for neither.
        text: What happened, in a few words; already free of control characters.
        weight: `start`, `progress`, `good`, `bad`: how much it matters.
    """

    time_ns: int
    at: float
    frame: int | None
    connection: str | None
    transport: Literal["quic", "tcp", "icmp", "dns", "proxy"]
    process: ProcessInfo | None
    client: str
    server: str
    outgoing: bool | None
    text: str
    weight: Literal["start", "progress", "good", "bad"]
