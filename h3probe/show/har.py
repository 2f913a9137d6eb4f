"""Exchanges as HAR 1.2 (http://www.softwareishard.com/blog/har-12-spec/).

HAR has no way of saying that something is not known but -1, for numbers; an empty list of headers, and `unknown` for a
version, have to do for the rest. Nothing in it is guessed, and headers, cookies and bodies are never in it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from h3probe import __version__
from h3probe.records import ExchangeRecord, FindingRecord, QuicRecord, TcpRecord, TunnelRecord, VerdictRecord

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from h3probe.records import AnyRecord, HttpVersion

    Connection = QuicRecord | TcpRecord

UNKNOWN = -1
VERSIONS: Mapping[HttpVersion | None, str] = {
    "HTTP/1.1": "http/1.1",
    "HTTP/2": "h2",
    "HTTP/3": "h3",
    None: "unknown",
}
"""ALPN names: what Chromium writes, and what readers of HAR files look for."""
KNOWN_FROM = {
    "proxy": "Seen at the proxy; wait holds the response's transfer as well.",
    "client-log": "From the client's own log.",
    "decrypted": "From decrypted traffic.",
    "inferred": "Inferred from sizes and times of encrypted packets, not known.",
}
NO_TIME = "How long it took is not known."


def har(records: Sequence[AnyRecord]) -> dict[str, Any]:
    """Make a HAR of an output's records.

    Returns:
        A JSON object; an entry for each exchange that has a record, in the order in which they began.
    """
    exchanges = [record for record in records if isinstance(record, ExchangeRecord)]
    exchanges.sort(key=lambda exchange: exchange.at)
    context = _Context(records)
    return {
        "log": {
            "version": "1.2",
            "creator": {"name": "h3probe", "version": __version__},
            "pages": [],
            "entries": [_entry(exchange, context) for exchange in exchanges],
            "_h3probe": {
                "verdicts": [
                    {"origin": v.origin, "client": v.client, "sentence": v.sentence, "rules": v.rules}
                    for v in context.verdicts
                ],
                "findings": [
                    {"rule": f.rule, "severity": f.severity, "origin": f.origin, "summary": f.summary, "cost": f.cost}
                    for f in context.findings
                ],
            },
        }
    }


class _Context:
    """What entries refer to."""

    def __init__(self, records: Sequence[AnyRecord]) -> None:
        self.connections: dict[str | None, Connection] = {
            record.id: record for record in records if isinstance(record, QuicRecord | TcpRecord)
        }
        # What leads to a proxy has the proxy's address, not the server's.
        self.proxied = {record.connection for record in records if isinstance(record, TunnelRecord)}
        self.verdicts = [record for record in records if isinstance(record, VerdictRecord)]
        self.findings = [record for record in records if isinstance(record, FindingRecord)]

    def sentences(self, origin: str | None) -> list[str]:
        """The verdicts on an origin."""
        return [verdict.sentence for verdict in self.verdicts if verdict.origin == origin]

    def rules(self, exchange: ExchangeRecord) -> list[str]:
        """The findings about an exchange's connection, or about its origin."""
        return list(
            dict.fromkeys(
                finding.rule
                for finding in self.findings
                if finding.origin == exchange.origin or exchange.connection in finding.connections
            )
        )


def _entry(exchange: ExchangeRecord, context: _Context) -> dict[str, Any]:
    connection = context.connections.get(exchange.connection)
    timings = _timings(exchange, connection)
    # Of the parts, TLS is within connect.
    took = sum(value for part, value in timings.items() if part != "ssl" and value != UNKNOWN)
    comment = KNOWN_FROM[exchange.known_from] + ("" if exchange.took is not None else f" {NO_TIME}")
    entry: dict[str, Any] = {
        "startedDateTime": _milliseconds(exchange.time),
        "time": round(took, 3),
        "request": _request(exchange),
        "response": _response(exchange),
        "cache": {},
        "timings": timings,
    }
    if connection is not None:
        # The proxy reports on the client's connection to itself.
        if exchange.known_from != "proxy" and connection.id not in context.proxied:
            entry["serverIPAddress"] = connection.server.rpartition(":")[0].strip("[]")
        entry["connection"] = connection.id
    entry["comment"] = comment
    entry["_h3probe"] = {
        "knownFrom": exchange.known_from,
        "origin": exchange.origin,
        "client": connection.client if connection is not None else None,
        "process": connection.process.name if connection is not None and connection.process is not None else None,
        "verdicts": context.sentences(exchange.origin),
        "findings": context.rules(exchange),
    }
    return entry


def _request(exchange: ExchangeRecord) -> dict[str, Any]:
    url = exchange.url or ""
    return {
        "method": exchange.method or "",
        "url": url,
        "httpVersion": VERSIONS[exchange.version],
        "cookies": [],
        "headers": [],
        "queryString": _query(url),
        "headersSize": UNKNOWN,
        "bodySize": UNKNOWN,
    }


def _response(exchange: ExchangeRecord) -> dict[str, Any]:
    response: dict[str, Any] = {
        "status": exchange.status or 0,
        "statusText": "",
        "httpVersion": VERSIONS[exchange.version],
        "cookies": [],
        "headers": [],
        "content": {"size": UNKNOWN, "mimeType": "x-unknown"},
        "redirectURL": "",
        "headersSize": UNKNOWN,
        "bodySize": UNKNOWN,
    }
    if exchange.error is not None:
        response["_error"] = exchange.error
    return response


def _timings(exchange: ExchangeRecord, connection: Connection | None) -> dict[str, float]:
    """Milliseconds; -1 where a part is not known, or is known only together with the next one."""
    timings = dict.fromkeys(("blocked", "dns", "connect", "ssl", "send", "wait", "receive"), float(UNKNOWN))
    if exchange.took is None:
        return timings
    began, ended = exchange.at, exchange.at + exchange.took
    ready = connection.ready_at if connection is not None and exchange.known_from != "proxy" else None
    if connection is None or ready is None or not began < ready <= ended or _is_coarse(exchange):
        timings["wait"] = _ms(exchange.took)
        return timings
    connecting = max(connection.at, began)
    timings["blocked"] = _ms(connecting - began)
    timings["connect"] = _ms(ready - connecting)
    if isinstance(connection, QuicRecord):
        timings["ssl"] = timings["connect"]  # QUIC's handshake is TLS's.
    elif connection.ja4 is not None and connection.connect_at is not None:
        timings["ssl"] = _ms(ready - max(connection.connect_at, connecting))
    timings["wait"] = _ms(ended - ready)
    return timings


def _is_coarse(exchange: ExchangeRecord) -> bool:
    """Whether a log told its times in whole seconds, which cannot be set against those of packets."""
    return exchange.took == round(exchange.took or 0.0) and (exchange.time or "").endswith(".000000000Z")


def _ms(seconds: float) -> float:
    return round(max(seconds, 0.0) * 1000, 3)


def _milliseconds(time: str | None) -> str:
    """RFC 3339 with three digits: what every reader of HAR files understands."""
    return f"{(time or '1970-01-01T00:00:00.000')[:23]}Z"


def _query(url: str) -> list[dict[str, str]]:
    """The names in a query; their values were left out when the URL was read."""
    query = url.partition("#")[0].partition("?")[2]
    parts = [part.partition("=") for part in query.replace(";", "&").split("&") if part]
    return [{"name": name, "value": value} for name, _, value in parts]
