from __future__ import annotations

import dataclasses

import pytest

from h3probe.lab.judge import judge
from h3probe.lab.outcome import Outcome
from h3probe.lab.scenario import Expectation
from h3probe.lab.sockets import Counted
from h3probe.records import ExchangeRecord


def outcome(number: int, version: str | None) -> Outcome:
    """An outcome of which the version alone matters."""
    return Outcome(number, version, 200 if version else None, None, 0.1)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("change", "miss"),
    [
        ({"versions": ("HTTP/3", "error")}, "the client saw HTTP/2, error; expected HTTP/3, error"),
        ({"versions": ("HTTP/2",)}, "the client saw HTTP/2, error; expected HTTP/2"),
        ({"quic": ("established",)}, "QUIC: nothing; expected established"),
        ({"findings": ("race-lost",)}, "no finding race-lost"),
        ({"verdict": ("tunnel",)}, "the verdict does not say 'tunnel'"),
    ],
)
def test_judge_names_what_differs(change: dict[str, tuple[str, ...]], miss: str) -> None:
    """Each expectation that does not hold is a sentence of its own."""
    seen = [outcome(1, "HTTP/2"), outcome(2, None)]
    right = Expectation(versions=("any", "error"), quic=(), tcp=(), absent=("race-lost",))
    assert judge(right, seen, []) == []
    assert judge(dataclasses.replace(right, **change), seen, []) == [miss]  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("change", "miss"),
    [
        ({"seconds": ((0.0, 0.05),)}, "request 1 took 0.100 s; expected 0 to 0.05 s"),
        ({"seconds": ((0.0, 1.0), (2.0, 3.0))}, "request 2 took 0.100 s; expected 2 to 3 s"),
        ({"errors": ("timeout",)}, "no error says 'timeout'"),
        ({"udp_sockets": (1.0, 2.0)}, "5 UDP sockets at once; expected 1 to 2"),
    ],
)
def test_figures_and_words_are_judged(change: dict[str, object], miss: str) -> None:
    """Seconds of each request, or of all, the words of errors and the sockets counted are held against ranges."""
    right = Expectation(versions=("any",), seconds=((0.1, 0.1),), errors=("refused",), udp_sockets=(5.0, 5.0))
    seen = [outcome(1, "HTTP/2"), dataclasses.replace(outcome(2, None), error="ConnectException: refused")]
    assert judge(right, seen, [], Counted(5, 9)) == []
    assert miss in judge(dataclasses.replace(right, **change), seen, [], Counted(5, 9))  # type: ignore[arg-type]


def test_findings_of_the_log_are_expected_with_the_log_alone() -> None:
    """What only the client's log can show is missed only where it was read."""
    expect = Expectation(versions=("HTTP/2",), log_findings=("race-lost",))
    assert judge(expect, [outcome(1, "HTTP/2")], []) == []
    assert judge(expect, [outcome(1, "HTTP/2")], [], with_log=True) == ["no finding race-lost"]


def test_h3probe_and_the_client_must_agree() -> None:
    """A version that h3probe knows otherwise than the client is a miss, whatever was expected."""
    said = ExchangeRecord("exchange-1", 0.0, None, None, "GET", None, 200, "HTTP/3", "client-log", None, None, None)
    assert judge(Expectation(versions=("any",)), [outcome(1, "HTTP/2")], [said]) == [
        "h3probe says HTTP/3, and the client HTTP/2"
    ]
