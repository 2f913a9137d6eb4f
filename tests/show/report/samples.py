"""Explanations to make reports of: of recordings, and made up of hostile texts."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from h3probe.records import (
    AltSvcRecord,
    AnyRecord,
    CaptureRecord,
    Close,
    Evidence,
    ExchangeRecord,
    FindingRecord,
    Moment,
    ProcessInfo,
    QuicRecord,
    StoryOutline,
    TcpRecord,
    TunnelRecord,
    VerdictRecord,
)
from h3probe.run.explaining import Asked, Explained, explained, frames
from h3probe.show.report import render, wanted_packets
from h3probe.show.report.assemble import make_report

if TYPE_CHECKING:
    from h3probe.events import Frame
    from h3probe.show.report.model import Origin

CAPTURES = Path(__file__).parents[3] / "captures"
TIME = "2026-03-01T12:00:00.000000000Z"
SCRIPT = "</script></style></title><script>alert(1)</script><img src=x onerror=alert(2)>\"'`&amp;{{7*7}}"
CONTROL = "\x00\x07\x1b[31mred\r\n\u202egnp.exe\u2066\ud800\u200b"
HOSTILE = SCRIPT + CONTROL
STALE = "jdk26-udp-dropped-client-any"
"""A race that QUIC loses, and a request that waits for it for 30 s."""


@cache
def recorded(name: str) -> tuple[Explained, dict[int, Frame]]:
    """What there is to say about a recording, and the frames of its report."""
    asked = Asked((str(CAPTURES / f"{name}.pcap"),))
    found = explained(asked)
    return found, frames(asked, wanted_packets(found))


@cache
def page(name: str) -> str:
    """The report of a recording."""
    return render(*recorded(name), title=f"{name}.pcap")


def quic(number: int = 1, at: float = 0.0, **changes: object) -> QuicRecord:
    """A QUIC attempt that nobody answered, and that the client gave up after 30 s."""
    record = QuicRecord(
        f"quic-{number}", at, TIME, "10.0.0.1:40000", "10.0.0.2:443", "v1", "0a0b", "0c", None, "example.org", ["h3"],
        None, "ISIIIIIC", "unanswered",
        Close(12, "APPLICATION_ERROR", "No response from peer for 30 seconds", "client"),
        5, 1, None, at + 30.0, None, "JDK 26 HttpClient",
    )  # fmt: skip
    return replace(record, **changes)  # type: ignore[arg-type]


def tcp(number: int = 1, at: float = 0.02, **changes: object) -> TcpRecord:
    """A TCP connection that was ready after 80 ms."""
    record = TcpRecord(
        f"tcp-{number}", at, TIME, "10.0.0.1:50000", "10.0.0.2:443", "example.org", ["h2"], None, None, "established",
        at + 0.01, at + 0.08, None, None, 2, None, None,
    )  # fmt: skip
    return replace(record, **changes)  # type: ignore[arg-type]


def moment(connection: str, at: float, text: str, **changes: object) -> Moment:
    """A thing that happened on a connection."""
    made = Moment(
        round(at * 1e9), at, None, connection, "quic" if connection.startswith("quic") else "tcp", None,
        "10.0.0.1:40000", "10.0.0.2:443", True, text, "progress",
    )  # fmt: skip
    return replace(made, **changes)  # type: ignore[arg-type]


def finding(number: int = 1, **changes: object) -> FindingRecord:
    """A problem that cost 30 s."""
    record = FindingRecord(
        f"finding-{number}", 0.0, TIME, "fallback-delay", "problem", "example.org:443", "30.0 s passed.",
        [Evidence(1, 0.0, "Initial")], "Wait less.", 30.0, ["quic-1", "tcp-2"],
    )  # fmt: skip
    return replace(record, **changes)  # type: ignore[arg-type]


def verdict(number: int = 1, origin: str | None = "example.org:443", **changes: object) -> VerdictRecord:
    """A verdict on an origin."""
    record = VerdictRecord(
        f"verdict-{number}", 31.0, TIME, origin, "10.0.0.1", None, "It waited 30.0 s for QUIC.", ["fallback-delay"]
    )
    return replace(record, **changes)  # type: ignore[arg-type]


def explanation(*records: AnyRecord, moments: tuple[Moment, ...] = (), relayed: tuple[str, ...] = ()) -> Explained:
    """Records of one origin, `example.org:443`."""
    ids = tuple(record.id for record in records if isinstance(record, QuicRecord | TcpRecord))
    own = tuple(i for i in ids if i not in relayed)
    stories = [StoryOutline("example.org:443", relayed=False, connections=own)]
    if relayed:
        stories.append(StoryOutline("example.org:443", relayed=True, connections=relayed))
    return Explained(list(records), list(moments), [], stories)


def origin_of(*records: object, **more: object) -> Origin:
    """The only origin of an explanation."""
    (origin,) = make_report(explanation(*records, **more)).origins  # type: ignore[arg-type]
    return origin


def hostile() -> Explained:
    """An explanation in which every text that could come from a network does, from the worst one."""
    origin = f"{HOSTILE}:443"
    process = ProcessInfo(1, HOSTILE)
    records: list[AnyRecord] = [
        CaptureRecord("capture-1", 0.0, TIME, 1, "0", HOSTILE, "pcap"),
        quic(sni=HOSTILE, alpn=[HOSTILE], process=process, client=f"{HOSTILE}:1", server=f"{HOSTILE}:2",
             close=Close(1, HOSTILE, HOSTILE, "client"), client_guess=HOSTILE),
        tcp(sni=HOSTILE, process=process, client_guess=HOSTILE, client=f"{HOSTILE}:1"),
        TunnelRecord("tunnel-1", 0.0, TIME, "10.0.0.1:1", HOSTILE, HOSTILE, "CONNECT", 200, HOSTILE, [HOSTILE], 1,
                     None, None, "tcp-1", process),
        AltSvcRecord("alt-svc-1", 0.0, TIME, origin, HOSTILE, [], HOSTILE),
        ExchangeRecord("exchange-1", 0.1, TIME, origin, HOSTILE, f"https://x/{HOSTILE}", None, "HTTP/2", "proxy",
                       "tcp-1", 1.0, HOSTILE),
        finding(origin=origin, rule=HOSTILE, summary=HOSTILE, advice=HOSTILE, evidence=[Evidence(1, 0.0, HOSTILE)]),
        finding(2, origin=None, summary=HOSTILE),
        verdict(origin=origin, client=HOSTILE, sentence=HOSTILE, rules=[HOSTILE]),
        verdict(2, origin=f"other {HOSTILE}", client=HOSTILE, sentence=HOSTILE, rules=[]),
    ]  # fmt: skip
    moments = [moment("quic-1", 0.0, HOSTILE, weight="start", frame=1), moment("tcp-1", 0.02, HOSTILE, process=process)]
    stories = [StoryOutline(origin, relayed=False, connections=("quic-1", "tcp-1"))]
    return Explained(records, moments, [HOSTILE], stories)
