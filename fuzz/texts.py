"""What comes as text: logs of clients, of which no line raises anything, events and records, with their one error."""

from __future__ import annotations

import io
import json
import zipfile
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from fuzz.explaining import explain
from h3probe.capture.bundle import CAPTURE, OBSERVED
from h3probe.errors import DecodeError
from h3probe.redact import Mapping, Redactor
from h3probe.redact.events import EventRedactor
from h3probe.run.redacted_environment import redacted_environment
from h3probe.show.ndjson import to_json
from h3probe.show.ndjson_read import from_json
from h3probe.vantage.clientlog import recognise
from h3probe.vantage.clientlog.curl import CurlLog
from h3probe.vantage.clientlog.jdk import JdkLog
from h3probe.vantage.clientlog.lines import Lines
from h3probe.vantage.clientlog.netlog import LONGEST_EVENT, NetLog
from h3probe.vantage.clientlog.pipe import Sieve
from h3probe.vantage.files import ProxyEvents
from h3probe.vantage.proxy_events import format_observed, parse_observed
from h3probe.vantage.recorded import Recorded

if TYPE_CHECKING:
    from h3probe.vantage.clientlog import ClientLog

RECORDING = Path(__file__).parents[1] / "captures" / "curl-alt-svc-cache.pcap"
NOW_NS = 1_796_044_480_000_000_000


def _log(log: ClientLog, data: bytes, now_ns: int | None = None) -> None:
    """Read a log, and explain what it tells."""
    lines = Lines(LONGEST_EVENT)
    told = []
    for line in (*lines.feed(data), *lines.finish()):
        recognise(line)
        log.line(line, now_ns)
        told += log.take()
    log.finish(now_ns)
    base_ns = log.clock.base_ns(NOW_NS)
    assert isinstance(base_ns, int)
    explain(told + log.take())


def jdk_log(data: bytes) -> None:
    """A log of the JDK's HttpClient."""
    _log(JdkLog(), data)


def curl_log(data: bytes) -> None:
    """A log of curl."""
    _log(CurlLog(), data)


def net_log(data: bytes) -> None:
    """A log of Chromium's."""
    _log(NetLog(), data)


def live_log(data: bytes) -> None:
    """What a command prints, cut where its first byte says: passed on is all of it, in its order."""
    cut = data[0] if data else 0
    sieve = Sieve([JdkLog(), CurlLog()], [])
    parts = [data[:cut], data[cut:]]
    passed = b"".join(sieve.feed(part, NOW_NS + at) + sieve.release() for at, part in enumerate(parts))
    assert passed + sieve.finish(NOW_NS) == data
    explain(sieve.take())


def observed(data: bytes) -> None:
    """What a bundle has beside its packets, played back with the packets of a recording."""
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as archive:
        archive.writestr(CAPTURE, RECORDING.read_bytes())
        archive.writestr(OBSERVED, data)
    explain(Recorded("fuzz", stream))


def events(data: bytes) -> None:
    """A file of the proxy's events; and as a bundle's, redacted line by line: what comes out can be read again."""
    explain(ProxyEvents(io.BytesIO(data), "fuzz"))
    redactor = EventRedactor(Mapping(bytes(32)))
    for line in data.split(b"\n"):
        with suppress(DecodeError):
            event, after = parse_observed(line)
            made = redactor.event(event)
            assert made is None or parse_observed(format_observed(made, after)) == (made, after)


def json_texts(data: bytes) -> None:
    """Records as NDJSON; and what a bundle says of where it was recorded, redacted."""
    for line in data.decode(errors="replace").split("\n"):
        with suppress(ValueError):
            to_json(from_json(line))
    try:
        found = json.loads(data)
    except (ValueError, RecursionError):
        return
    if isinstance(found, dict):
        json.dumps(redacted_environment(found, Redactor(Mapping(bytes(32))))).encode()
