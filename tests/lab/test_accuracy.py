from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from h3probe.lab.accuracy import compare
from h3probe.lab.outcome import HttpVersion, Outcome
from h3probe.records import (
    AnyRecord,
    Evidence,
    ExchangeRecord,
    ExpectationRecord,
    FindingRecord,
    QuicRecord,
    RaceRecord,
    TcpRecord,
    Transport,
    VerdictRecord,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

QUIC = QuicRecord(
    "quic-1", 1.0, None, "127.0.0.1:50001", "127.0.0.1:443", "v1", "00", "00", "00", None, ["h3"], None, "IiH",
    "established", None, 1, 1, 1.1, None, None, None,
)  # fmt: skip
TCP = TcpRecord(
    "tcp-1", 0.0, None, "127.0.0.1:50002", "127.0.0.1:443", None, ["h2"], None, None, "established", 0.1, 0.2, None,
    None, 1, None, None,
)  # fmt: skip
RACE = RaceRecord(
    "race-1", 0.0, None, None, "127.0.0.1", "quic-1", "tcp-1", 0.0, 0.1, 0.2, "quic", 0.1, None, None
)  # fmt: skip
FAILED = Outcome(2, None, None, None, 1.2, "no response")


def asked(*versions: HttpVersion | None, seconds: float = 0.1) -> list[Outcome]:
    """What a client says of its requests."""
    return [
        Outcome(n, version, 200 if version else None, None, seconds, None if version else "failed")
        for n, version in enumerate(versions, 1)
    ]


def exchange(number: int, version: HttpVersion | None, connection: str | None = None) -> ExchangeRecord:
    """An exchange that was answered."""
    name = connection or ("quic-1" if version == "HTTP/3" else "tcp-1")
    return ExchangeRecord(
        f"exchange-{number}", float(number), None, "localhost:443", "GET", None, 200, version, "client-log",
        name, 0.05, None,
    )  # fmt: skip


def verdict(sentence: str, versions: dict[str, int] | None = None) -> VerdictRecord:
    """A verdict."""
    return VerdictRecord("verdict-1", 0.0, None, "localhost:443", "x", versions, sentence, [])


def expectation(version: HttpVersion, *, met: bool = True) -> ExpectationRecord:
    """What was expected of all exchanges."""
    return ExpectationRecord("expectation-1", 0.0, None, "localhost:443", version, met, None, "so it was")


def cost(seconds: float | None) -> FindingRecord:
    """A finding that has a cost."""
    evidence = [Evidence(1, 0.0, "a packet")]
    return FindingRecord("finding-1", 0.0, None, "fallback-delay", "problem", None, "", evidence, "", seconds, [])


ONE_EACH = asked("HTTP/2", "HTTP/3")
TOLD: list[AnyRecord] = [TCP, QUIC, exchange(1, "HTTP/2"), exchange(2, "HTTP/3")]


def wrong(records: Sequence[AnyRecord], outcomes: Sequence[Outcome]) -> str:
    """What is wrong, in one text."""
    return "; ".join(compare(records, outcomes, sees_all=True).wrong)


def test_what_is_told_and_so_is_right() -> None:
    """Version, transport and port of every request are told, and nothing is left open."""
    ports = [replace(ONE_EACH[0], local_port=50002), replace(ONE_EACH[1], local_port=50001)]
    sentence = "HTTP/2 for the first request, then HTTP/3 for 1, by the client's own log."
    told = [*TOLD, replace(RACE, carried="tcp"), verdict(sentence, {"HTTP/2": 1, "HTTP/3": 1})]
    compared = compare(told, ports, sees_all=True)
    assert (compared.wrong, compared.untold) == ([], [])


def test_what_is_not_told_is_right_and_counted() -> None:
    """Null is no error: the packets alone tell neither version nor transport, and no cost of a long wait."""
    compared = compare([TCP, QUIC, RACE, verdict("QUIC and TCP raced.")], asked("HTTP/2", "HTTP/3", seconds=9.0))
    assert (compared.wrong, compared.untold) == ([], ["version", "transport", "seconds"])
    some = compare([*TOLD[:3], exchange(2, None, "quic-1")], ONE_EACH)
    assert (some.wrong, some.untold) == ([], ["version"])


@pytest.mark.parametrize(
    ("records", "outcomes", "words"),
    [
        ([*TOLD[:3], exchange(2, "HTTP/2")], ONE_EACH, "exchanges: h3probe says HTTP/2, HTTP/2"),
        ([*TOLD, exchange(3, "HTTP/3")], ONE_EACH, "exchanges: h3probe says HTTP/2, HTTP/3, HTTP/3"),
        ([TCP, QUIC, exchange(1, "HTTP/3"), exchange(2, "HTTP/2")], ONE_EACH, "exchanges"),
        ([*TOLD[:3], replace(exchange(2, None), status=None, error="x")], ONE_EACH, "HTTP/2, error; the client"),
        ([TCP, QUIC, exchange(1, "HTTP/2"), exchange(2, "HTTP/3", "tcp-1")], ONE_EACH, "carried by tcp"),
        (TOLD, [replace(ONE_EACH[0], local_port=9), ONE_EACH[1]], "from port 50002; the client 9"),
        ([*TOLD[:2], replace(exchange(1, "HTTP/2"), took=5.0)], asked("HTTP/2"), "took 5.000 s; the client 0.100 s"),
        ([TCP], ONE_EACH, "quic: no connection was established"),
        ([QUIC], ONE_EACH, "tcp: no connection was established"),
        ([*TOLD, verdict("So it was.", {"HTTP/3": 2})], ONE_EACH, "counts {'HTTP/3': 2}"),
        ([QUIC, TCP, expectation("HTTP/3")], ONE_EACH, "all exchanges were HTTP/3"),
        ([TCP, expectation("HTTP/2")], [*asked("HTTP/2"), FAILED], "all exchanges were HTTP/2"),
        ([TCP], [], "the client says nothing"),
    ],
)
def test_what_is_told_and_is_otherwise_is_wrong(records: list[AnyRecord], outcomes: list[Outcome], words: str) -> None:
    """An answer that was made wrong on purpose makes the cell wrong, whatever it is about."""
    assert words in wrong(records, outcomes)


@pytest.mark.parametrize(("carried", "is_wrong"), [(None, False), ("tcp", False), ("quic", True)])
def test_carried_is_null_or_right(carried: Transport | None, *, is_wrong: bool) -> None:
    """Who carried the first request of the first race is what the client says of request 1."""
    assert bool(wrong([TCP, QUIC, replace(RACE, carried=carried)], ONE_EACH)) is is_wrong


def test_a_later_race_is_about_a_later_request() -> None:
    """A client that comes back may have the other one win."""
    later = [replace(RACE, carried="tcp"), replace(RACE, id="race-2", carried="quic")]
    assert wrong([TCP, QUIC, *later], ONE_EACH) == ""
    assert "race-2: carried by quic" in wrong([TCP, *later], asked("HTTP/2", "HTTP/2"))


def test_an_expectation_of_all_origins_speaks_for_all() -> None:
    """One that is met beside one that is not says nothing of every request."""
    both = [expectation("HTTP/3"), expectation("HTTP/3", met=False)]
    assert compare([TCP, QUIC, *both], ONE_EACH).untold == ["version", "transport"]
    assert compare([QUIC, expectation("HTTP/3")], asked("HTTP/3")).untold == []


@pytest.mark.parametrize(
    ("sentence", "right", "false"),
    [
        ("HTTP/3 from the first request, ready after 9 ms.", ["HTTP/3", "HTTP/3"], ["HTTP/3", "HTTP/2"]),
        ("HTTP/2 or HTTP/1.1: no QUIC packet was sent to this origin.", ["HTTP/1.1"], ["HTTP/3"]),
        ("HTTP/2, not HTTP/3, after 2.75 s of waiting for QUIC: QUIC was not answered.", ["HTTP/2"], ["HTTP/3"]),
        ("HTTP/2 or HTTP/1.1 won the race: QUIC was refused.", ["HTTP/2", "HTTP/3"], ["HTTP/3", "HTTP/2"]),
        ("HTTP/3 won the race against TCP.", ["HTTP/3", "HTTP/2"], ["HTTP/2", "HTTP/3"]),
        ("HTTP/2 or HTTP/1.1 first, then HTTP/3: QUIC began later.", ["HTTP/2", "HTTP/3"], ["HTTP/3", "HTTP/2"]),
        ("No connection: QUIC was not answered, and no TCP was seen.", [None], ["HTTP/2"]),
        ("HTTP/2 for both requests, by the client's own log.", ["HTTP/2", "HTTP/2"], ["HTTP/2"]),
        ("HTTP/2 for all 3 requests, as the decrypted traffic shows.", ["HTTP/2"] * 3, ["HTTP/2", "HTTP/2", "HTTP/3"]),
        ("HTTP/2 for the one request, seen at the proxy.", ["HTTP/2", None], ["HTTP/2", "HTTP/2"]),
    ],
)  # fmt: skip
def test_the_words_of_a_verdict_are_claims(
    sentence: str, right: list[HttpVersion | None], false: list[HttpVersion | None]
) -> None:
    """What a person reads is held against the client, too."""
    both: list[AnyRecord] = [TCP, QUIC, verdict(sentence)]
    assert wrong(both, asked(*right)) == ""
    assert sentence in wrong(both, asked(*false))


def test_of_several_verdicts_none_is_about_all() -> None:
    """Where there is one for each of two ports, neither tells what the other one saw."""
    two = [verdict("HTTP/3 from the first request."), verdict("HTTP/2: no QUIC packet was sent to this origin.")]
    assert wrong([TCP, QUIC, *two], ONE_EACH) == ""


def test_over_tcp_is_not_all() -> None:
    """Who intercepts TCP alone counts what went there."""
    sentence = "HTTP/2 for the one request over TCP, seen at the proxy. QUIC went past the proxy."
    assert wrong([TCP, QUIC, verdict(sentence, {"HTTP/2": 1})], ONE_EACH) == ""


@pytest.mark.parametrize(
    ("costs", "waits", "says"),
    [
        ([2.75, 30.0], [3.4, 30.1], ""),
        ([30.0], [0.1, 3.0], "cost: 30.000 s"),
        ([1.2], [30.1], "cost: 1.200 s"),
        ([1.5, 1.5], [1.6, 0.1], "cost: 1.500 s"),
        ([0.5], [0.6], ""),
        ([0.5], [0.2], "longer than any request"),
        ([None], [0.2], ""),
    ],
)
def test_a_cost_is_a_wait_of_the_clients_own(costs: list[float | None], waits: list[float], says: str) -> None:
    """Each noticeable cost is what one request waited, of about that length, and no request pays twice."""
    outcomes = [replace(asked("HTTP/2")[0], seconds=wait) for wait in waits]
    said = wrong([TCP, *map(cost, costs)], outcomes)
    assert says in said
    assert bool(says) == bool(said)


def test_a_cold_client_takes_its_time() -> None:
    """What its first request takes beyond a second is no wait of which anything was to be told."""
    outcomes = asked("HTTP/2", seconds=2.5)
    assert "seconds" in compare([TCP], outcomes).untold
    assert "seconds" not in compare([TCP], outcomes, cold_s=2.0).untold
    assert not compare([TCP, cost(1.5)], asked("HTTP/2", seconds=9.0), cold_s=2.0).wrong
    assert compare([TCP, cost(1.5)], asked("HTTP/2", seconds=9.0)).wrong
    assert compare([TCP, cost(9.5)], asked("HTTP/2", seconds=9.0), cold_s=2.0).wrong
