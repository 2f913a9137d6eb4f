from __future__ import annotations

import json
from dataclasses import replace
from functools import cache
from typing import TYPE_CHECKING

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st

from h3probe.diagnose.difference import NOISE_S, UNEXPLAINED, UNEXPLAINED_TIMES, compare, is_noise
from h3probe.records import RaceRecord
from h3probe.run.explaining import Asked, explained
from h3probe.show.ndjson import to_json
from h3probe.show.ndjson_read import from_json
from h3probe.show.schema import json_schema
from tests.captures.recordings import FOLDER, NAMES
from tests.diagnose.test_retold import finding, quic, tcp, verdict

if TYPE_CHECKING:
    from h3probe.records import AnyRecord, DifferenceRecord

HTTP3: list[AnyRecord] = [quic("q", sni="a.example"), verdict("a.example:443")]
TCP: list[AnyRecord] = [
    replace(quic("q", sni="a.example"), outcome="unanswered", ready_at=None),
    tcp("t", sni="a.example"),
    replace(verdict("a.example:443"), sentence="HTTP/2 or HTTP/1.1, not HTTP/3."),
]


@cache
def recorded(name: str) -> tuple[AnyRecord, ...]:
    """What is said of a recording."""
    return tuple(explained(Asked((str(FOLDER / f"{name}.pcap"),))).all_records)


def only(a: list[AnyRecord] | tuple[AnyRecord, ...], b: list[AnyRecord] | tuple[AnyRecord, ...]) -> DifferenceRecord:
    """The one difference."""
    (difference,) = compare(a, b)
    return difference


@pytest.mark.parametrize("name", NAMES)
def test_a_recording_does_not_differ_from_itself(name: str) -> None:
    """What is the same is said to be the same, whatever was found in it."""
    difference = only(recorded(name), recorded(name))
    assert difference.same
    assert difference.sentence.startswith("In both ")
    assert UNEXPLAINED not in difference.sentence
    assert (difference.came, difference.went) == ([], [])


@pytest.mark.parametrize("a", NAMES)
def test_differences_between_recordings_obey_the_contract(a: str) -> None:
    """Each pair gives records that the schema describes, and only causes that one of the two has as a finding."""
    validator = jsonschema.Draft202012Validator(json_schema())
    for b in NAMES:
        for difference in compare(recorded(a), recorded(b)):
            line = to_json(difference)
            assert to_json(from_json(line)) == line
            validator.validate(json.loads(line))
            found = {*(difference.a.rules if difference.a else ()), *(difference.b.rules if difference.b else ())}
            named = {word.strip("().,;:") for word in difference.sentence.split() if word.startswith("(")}
            assert {*difference.came, *difference.went} <= found
            assert {word for word in named if "-" in word} <= found


def test_udp_that_is_dropped_explains_the_difference() -> None:
    """At home HTTP/3, in the office QUIC without an answer: both are said, with the rule."""
    difference = only(recorded("jdk26-request-any"), recorded("jdk26-udp-dropped-request-any"))
    assert difference.origin == "localhost:4433"
    assert difference.a is not None
    assert difference.b is not None
    assert (difference.a.origin, difference.a.http3, difference.b.http3) == ("127.0.0.1:4433", True, False)
    assert difference.sentence.startswith("In A HTTP/3 from the first request; in B HTTP/2 or HTTP/1.1: ")
    assert "QUIC was not answered (quic-unanswered)" in difference.sentence
    assert UNEXPLAINED not in difference.sentence


def test_the_other_way_round() -> None:
    """What came from A to B went from B to A."""
    there = only(recorded("curl-http3"), recorded("curl-http3-tinyproxy"))
    back = only(recorded("curl-http3-tinyproxy"), recorded("curl-http3"))
    assert there.came == back.went == ["proxy-refused", "proxy-downgrade"]
    assert (there.a, there.b) == (back.b, back.a)
    assert [(t.what, t.a, t.b) for t in there.times] == [(t.what, t.b, t.a) for t in back.times]


def test_without_a_finding_nothing_is_explained() -> None:
    """HTTP/3 here and not there, and no rule fired: no cause is named."""
    difference = only(HTTP3, TCP)
    assert difference.sentence == f"In A HTTP/3 from the first request; in B HTTP/2 or HTTP/1.1. {UNEXPLAINED}"
    assert not difference.same


def test_a_finding_of_the_side_with_http3_explains_nothing() -> None:
    """Why B had no HTTP/3 is no finding of A's."""
    difference = only([*HTTP3, finding("h3-learned-late", "a.example:443", "q")], TCP)
    assert difference.went == ["h3-learned-late"]
    assert difference.sentence.endswith(UNEXPLAINED)
    explained_by = only(HTTP3, [*TCP, finding("quic-unanswered", "a.example:443", "q")])
    assert explained_by.sentence.endswith("in B HTTP/2 or HTTP/1.1: QUIC was not answered (quic-unanswered).")


def test_a_finding_about_something_else_explains_nothing() -> None:
    """Many sockets are no reason for TCP."""
    difference = only(HTTP3, [*TCP, finding("socket-fan-out", "a.example:443", "q")])
    assert difference.sentence.endswith(UNEXPLAINED)


def test_an_incomplete_capture_is_named() -> None:
    """What is missing in a capture with holes proves nothing, and that is said wherever something differs."""
    holes = finding("incomplete-capture", None)
    assert "B does not hold everything (incomplete-capture)" in only(HTTP3, [*TCP, holes]).sentence
    assert "A and B do not hold everything" in only([*HTTP3, holes], [*TCP, holes]).sentence
    same = only([*HTTP3, holes], HTTP3)
    assert same.same
    assert same.sentence.endswith(
        "A does not hold everything (incomplete-capture): what is missing there proves nothing."
    )


def test_a_race_that_quic_is_known_to_have_won_used_http3() -> None:
    """Where both were ready, HTTP/3 counts as used only where it is known that QUIC carried a request."""
    race = RaceRecord("r", 0.0, None, "a.example:443", "10.0.0.5", "q", "t", 0.1, 0.1, 0.2, "quic", 0.1, "quic", None)
    both: list[AnyRecord] = [quic("q", sni="a.example"), tcp("t", sni="a.example"), verdict("a.example:443")]
    for carried, http3 in (("quic", True), ("tcp", None), (None, None)):
        side = only(both, [*both, replace(race, carried=carried)]).b  # type: ignore[arg-type]
        assert side is not None
        assert side.http3 is http3


def test_times_that_differ_by_more_than_noise_are_a_difference() -> None:
    """A second later is a difference, that no finding explains; a tenth of one is none."""
    late: list[AnyRecord] = [replace(quic("q", sni="a.example"), ready_at=1.1), verdict("a.example:443")]
    difference = only(HTTP3, late)
    assert difference.sentence == (
        f"In both HTTP/3 from the first request; QUIC was ready 1.00 s later in B. {UNEXPLAINED_TIMES}"
    )
    assert [(t.what, t.change, t.noise) for t in difference.times] == [("quic-ready", 1.0, False)]
    little = only(HTTP3, [replace(quic("q", sni="a.example"), ready_at=0.2), verdict("a.example:443")])
    assert little.same
    assert [t.noise for t in little.times] == [True]


def test_seconds_lost_are_timers_and_hardly_noise() -> None:
    """Half a second more of a long wait is a difference in what was lost, and noise in anything else."""
    assert is_noise("tcp-ready", 30.0, 30.5)
    assert not is_noise("cost", 30.0, 30.5)
    lost = [replace(finding("fallback-delay", "a.example:443", "q"), cost=cost) for cost in (2.75, 30.0)]
    difference = only([*TCP, lost[0]], [*TCP, lost[1]])
    assert difference.sentence == "In both HTTP/2 or HTTP/1.1; B lost 27.2 s more."


@given(st.floats(0, 1e4), st.floats(0, 1e4))
def test_noise_is_the_same_both_ways(a: float, b: float) -> None:
    """Which one comes first does not matter, and less than the limit is always noise."""
    assert is_noise("tcp-ready", a, b) == is_noise("tcp-ready", b, a)
    assert is_noise("cost", a, b) == (abs(a - b) < NOISE_S)


def test_what_is_in_one_capture_alone() -> None:
    """It is said in which, with its findings, and is a difference."""
    (first, second) = compare(HTTP3, [quic("q", sni="b.example"), verdict("b.example:443")])
    assert (first.sentence, second.sentence) == (
        "Only in A: HTTP/3 from the first request.",
        "Only in B: HTTP/3 from the first request.",
    )
    assert (first.b, second.a, first.same, second.same) == (None, None, False, False)
    assert compare([], []) == []


def test_two_names_at_one_server_are_two_origins() -> None:
    """Only an origin without a name is matched by its server."""
    other: list[AnyRecord] = [quic("q", sni="b.example"), verdict("b.example:443")]
    assert len(compare(HTTP3, other)) == 2
    unnamed: list[AnyRecord] = [quic("q"), verdict("192.0.2.1:443")]
    assert only(HTTP3, unnamed).same
    both: list[AnyRecord] = [*HTTP3, quic("p", sni="b.example"), verdict("b.example:443", number=2)]
    assert len(compare(both, unnamed)) == 3, "of two candidates it may be either"


def test_several_clients_are_matched_by_name() -> None:
    """Each client with itself, process numbers aside; those of whom there are two are matched with nobody."""

    def clients(*names: str) -> list[AnyRecord]:
        return [verdict("a.example:443", name, number) for number, name in enumerate(names, 1)]

    pairs = compare(clients("java[1]", "curl[2]"), clients("curl[3]", "java[4]"))
    assert [(d.a and d.a.client, d.b and d.b.client) for d in pairs] == [("java[1]", "java[4]"), ("curl[2]", "curl[3]")]
    pairs = compare(clients("java[1]", "java[2]"), clients("java[3]"))
    assert [(d.a and d.a.client, d.b and d.b.client) for d in pairs] == [
        ("java[1]", None), ("java[2]", None), (None, "java[3]"),
    ]  # fmt: skip


def test_versions_that_are_known_are_named() -> None:
    """Where exchanges are known, they are counted instead of guessed from connections."""
    a: list[AnyRecord] = [quic("q", sni="a.example"), replace(verdict("a.example:443"), versions={"HTTP/3": 3})]
    b: list[AnyRecord] = [
        quic("q", sni="a.example"),
        replace(verdict("a.example:443"), versions={"HTTP/2": 1, "HTTP/3": 2}),
    ]
    difference = only(a, b)
    assert difference.sentence.startswith(
        "In A 3 requests over HTTP/3; in B 1 request over HTTP/2, 2 requests over HTTP/3"
    )


@pytest.mark.parametrize(
    ("sentence", "http3", "how"),
    [
        ("HTTP/3 from the first request, ready after 2.4 ms; no TCP was seen.", True, "HTTP/3 from the first request"),
        (
            "HTTP/3, ready after 19 ms; a TCP connection from before the capture may have carried requests too.",
            True,
            "HTTP/3",
        ),
        (
            "HTTP/3, ready after 2 ms; too little followed to tell whether a request was answered; no TCP was seen.",
            None,
            "QUIC was ready",
        ),
    ],
)
def test_no_more_is_said_than_the_verdict_says(sentence: str, http3: bool | None, how: str) -> None:  # noqa: FBT001 - drawn
    """A capture that began late has no first request, and one that ended early perhaps none at all."""
    late: list[AnyRecord] = [HTTP3[0], replace(verdict("a.example:443"), sentence=sentence)]
    difference = only(TCP, late)
    assert difference.b is not None
    assert difference.b.http3 is http3
    assert f"; in B {how}." in difference.sentence
