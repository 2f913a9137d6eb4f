"""Experiments and results that nobody had, for tables and texts."""

from __future__ import annotations

from h3probe.lab.article import parse_experiment
from h3probe.lab.judge import NotPlayed, Played
from h3probe.lab.outcome import Outcome
from h3probe.lab.sockets import Counted
from h3probe.records import Evidence, FindingRecord, VerdictRecord

EXPERIMENTS = [
    parse_experiment(
        "01-made-up",
        """
title = "Code that was not changed"
source = "An article, 1"
[[run]]
title = "an old Java"
reports = "HTTP/2 each time"
server.kind = "h3"
client.requests = 3
expect.versions = ["HTTP/2"]
[[run]]
title = "-Dan.unbreakable.property.of.a.name.that.no.column.holds=1"
reports = "the same"
server.kind = "h3"
expect.versions = ["HTTP/2"]
""",
    ),
    parse_experiment(
        "02-made-up",
        """
title = "Many clients"
source = "Another article, 5.2"
[[run]]
title = "fifty at once"
reports = "Too many open files"
server.kind = "h3"
client.requests = 50
java.clients = 50
expect.versions = ["HTTP/3"]
[[run]]
title = "without a network of its own"
reports = "(nothing)"
server.kind = "h3"
expect.versions = ["HTTP/3"]
""",
    ),
]


def verdict(sentence: str) -> VerdictRecord:
    """A verdict."""
    return VerdictRecord("verdict-1", 1.0, None, "localhost:4433", "java[7]", None, sentence, [])


def finding(rule: str) -> FindingRecord:
    """A finding of two sentences."""
    evidence = [Evidence(1, 0.0, "a packet")]
    return FindingRecord(
        "finding-1",
        1.0,
        None,
        rule,
        "notice",
        "localhost:4433",
        "It is so. Here is more of it.",
        evidence,
        "",
        None,
        [],
    )


def results() -> list[Played | NotPlayed]:
    """One for each run."""
    first, second, third, fourth = (run.scenario for experiment in EXPERIMENTS for run in experiment.runs)
    offered = 'h3=":4433"; ma=3600'
    calm = [Outcome(number, "HTTP/2", 200, offered, 0.5 / number) for number in (1, 2, 3)]
    failed = [Outcome(1, None, None, None, 60.4, "java.net.ConnectException: No response from peer for 30 seconds")]
    many = [Outcome(number, "HTTP/3", 200, offered, number / 50) for number in range(1, 51)]
    return [
        Played(
            first, calm, [verdict("HTTP/2 for all 3 requests, by the client's own log."), finding("no-quic-attempt")]
        ),
        Played(second, failed, [verdict("No connection.")], ["the client saw error; expected HTTP/2"]),
        Played(third, many, [verdict("HTTP/3 from the first request.")], counted=Counted(50, 167)),
        NotPlayed(fourth, "refusing UDP takes a network of its own: no pasta here"),
    ]
