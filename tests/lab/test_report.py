from __future__ import annotations

import json

import pytest

from h3probe.lab.article import parse_experiment
from h3probe.lab.judge import NotPlayed, Played
from h3probe.lab.outcome import Outcome
from h3probe.lab.report import (
    article_json,
    as_json,
    expected_words,
    explanation,
    first_packet,
    first_sentence,
    got_words,
    outcome_words,
)
from h3probe.lab.scenario import Expectation
from h3probe.lab.sockets import Counted
from h3probe.records import AnyRecord, TcpRecord, VerdictRecord
from tests.lab.made_up import EXPERIMENTS, finding, results, verdict


def answers(*given: tuple[str | None, float]) -> list[Outcome]:
    """Outcomes with these versions and seconds; an error where there is no version."""
    return [
        Outcome(number, version, 200, None, seconds, None if version else "java.net.ConnectException: gone")  # type: ignore[arg-type]
        for number, (version, seconds) in enumerate(given, 1)
    ]


@pytest.mark.parametrize(
    ("outcomes", "words"),
    [
        ([], "nothing"),
        (answers(("HTTP/2", 0.812)), "HTTP/2 (812 ms)"),
        (answers(("HTTP/2", 0.812), ("HTTP/3", 0.015), ("HTTP/3", 0.009)), "HTTP/2 (812 ms), HTTP/3 ×2 (15, 9 ms)"),  # noqa: RUF001
        (answers((None, 60.4)), "ConnectException: gone (60.4 s)"),
        (answers(("HTTP/2", 30.1), ("HTTP/2", 0.005)), "HTTP/2 ×2 (30.1 s, 5 ms)"),  # noqa: RUF001
        (answers(*[("HTTP/2", n / 1000) for n in range(1, 9)]), "HTTP/2 ×8 (1 to 8 ms)"),  # noqa: RUF001
    ],
)
def test_outcomes_in_words(outcomes: list[Outcome], words: str) -> None:
    """Neighbours alike stand together, with all of a few times and the range of many."""
    assert outcome_words(outcomes) == words


def test_sockets_and_alt_svc_in_words() -> None:
    """What was counted, and an Alt-Svc that nobody followed, are told."""
    played = results()[0]
    assert isinstance(played, Played)
    assert "; Alt-Svc offered h3" in got_words(played)
    counted = Played(played.scenario, answers(("HTTP/3", 0.1)), [], counted=Counted(1, 20))
    assert got_words(counted) == "HTTP/3 (100 ms); at once 1 UDP socket of 20 descriptors"


def test_what_was_not_played_says_why() -> None:
    """A failure and an obstacle are told apart."""
    scenario = EXPERIMENTS[0].runs[0].scenario
    assert got_words(NotPlayed(scenario, "no Java 25")) == "not played: no Java 25"
    assert got_words(NotPlayed(scenario, "it broke", failed=True)) == "failed: it broke"
    assert explanation(NotPlayed(scenario, "no Java 25")) == []


def test_expectations_in_words() -> None:
    """Versions, findings and the words of the verdict."""
    expect = Expectation(versions=("HTTP/2", "any"), findings=("race-lost",), verdict=("raced",))
    assert expected_words(expect) == "HTTP/2, any; race-lost; verdict with 'raced'"


def test_what_differs_in_figures_alone_is_said_once() -> None:
    """Eight races told eight times would hide what they have in common."""
    scenario = EXPERIMENTS[0].runs[0].scenario
    records: list[AnyRecord] = [
        verdict("QUIC was ready 57 ms before TCP."),
        verdict("QUIC was ready 1.20 s before TCP."),
        finding("a-rule"),
    ]
    assert explanation(Played(scenario, [], records)) == [
        "QUIC was ready 57 ms before TCP. (And 1 more like it.)",
        "a-rule: It is so.",
    ]


@pytest.mark.parametrize(
    ("text", "first"),
    [
        ("It took 1.20 s. Then it ended.", "It took 1.20 s."),
        ("To 127.0.0.1:443: no answer. And more.", "To 127.0.0.1:443: no answer."),
        ("One sentence", "One sentence"),
    ],
)
def test_first_sentences(text: str, first: str) -> None:
    """A point within a figure ends no sentence."""
    assert first_sentence(text) == first


def test_where_the_time_of_request_1_went() -> None:
    """From the call to the first packet, to readiness and to the response: the JVM's share and the network's."""
    tcp = TcpRecord(
        "tcp-1", 0.5, "1970-01-01T00:00:01.500000000Z", "127.0.0.1:1", "127.0.0.1:2", None, None, None, None,
        "established", 0.51, 0.7, None, None, 1, None, None,
    )  # fmt: skip
    played = Played(EXPERIMENTS[0].runs[0].scenario, answers(("HTTP/2", 0.65)), [tcp], asked_ns=1_100_000_000)
    assert (
        first_packet(played)
        == "request 1: first packet after 400 ms, TCP ready 200 ms later, response after 650 ms in all"
    )
    assert first_packet(Played(played.scenario, played.outcomes, [tcp])) == ""


def test_json_has_everything() -> None:
    """An object has what was expected, what came, what h3probe says and its records; it can be read again."""
    experiment = EXPERIMENTS[0]
    told = json.loads(json.dumps(article_json(experiment, experiment.runs[0], results()[0], "java")))
    assert (told["type"], told["experiment"], told["reports"]) == ("scenario", "01-made-up", "HTTP/2 each time")
    assert told["as_expected"] is True
    assert told["outcomes"][0]["version"] == "HTTP/2"
    assert told["records"][0]["type"] == "verdict"
    assert told["verdict"] == told["records"][0]["sentence"]


def test_json_of_what_was_not_played() -> None:
    """The reason stands there, and whether that is a failure."""
    scenario = (
        parse_experiment("x", 'title="a"\nsource="b"\n[[run]]\ntitle="c"\nreports="d"\nserver.kind="h3"')
        .runs[0]
        .scenario
    )
    assert as_json(NotPlayed(scenario, "why"), "java")["as_expected"] is None
    assert as_json(NotPlayed(scenario, "why", failed=True), "java")["as_expected"] is False


def test_several_verdicts_are_all_told() -> None:
    """The object's verdict is the first one's; its records have them all."""
    records = [verdict("One."), verdict("Two.")]
    played = Played(EXPERIMENTS[0].runs[0].scenario, [], list(records))
    assert played.verdict == "One."
    assert [each for each in explanation(played) if each] == ["One.", "Two."]
    assert isinstance(played.records[1], VerdictRecord)
