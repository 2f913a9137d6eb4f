from __future__ import annotations

from pathlib import Path

import pytest

import h3probe.diagnose.rules
from h3probe.diagnose.rule import Finding, by_severity, hellos, severity_of_failure
from h3probe.diagnose.rules import CATALOGUE
from h3probe.track.mark import Mark
from tests.diagnose.scenario import (
    CHROMIUM,
    CLIENT,
    CLIENT6,
    CURL,
    FIREFOX,
    SERVER6,
    STATION,
    STRANGER,
    Network,
    Software,
)


def test_the_catalogue_is_the_folder() -> None:
    """One file for each rule, named like its slug, and one test file beside it."""
    names = {slug.replace("-", "_") for slug in CATALOGUE}
    folder = Path(h3probe.diagnose.rules.__file__).parent
    assert {path.stem for path in folder.glob("[a-z]*.py")} == names
    assert {path.stem.removeprefix("test_") for path in (Path(__file__).parent / "rules").glob("test_*.py")} == names


@pytest.mark.parametrize("slug", CATALOGUE)
def test_a_rule_is_whole(slug: str) -> None:
    """A rule has its words, its sources, and looks either at stories, whole or in parts, or at the capture."""
    rule = CATALOGUE[slug]
    assert rule.slug == slug
    assert rule.title
    assert rule.looks_for.endswith(".")
    assert rule.advice.endswith(".")
    assert rule.sources
    assert [rule.check, rule.check_whole, rule.check_capture].count(None) == 2


def test_a_finding_is_known_by_rule_and_connections() -> None:
    """The same rule about the same connections is the same finding, whatever it says by then."""
    network = Network()
    network.quic().connects(0.0)
    (story,) = network.explain().stories
    about = list(story.connections)
    one = Finding("quic-stalled", "problem", "a", [(Mark(1, 1), "x")], "b", about)
    two = Finding("quic-stalled", "notice", "c", [(Mark(2, 2), "y")], "d", about)
    assert one.key == two.key
    assert one.key != Finding("quic-closed", "problem", "a", [], "b", about).key
    assert one.key != Finding("quic-stalled", "problem", "a", [], "b", []).key


def failed(network: Network, at: float = 0.0) -> None:
    """A QUIC attempt that its client gives up after 2.75 s."""
    quic = network.quic()
    quic.initials(at, at + 1.0)
    quic.close(at + 2.75, 0xC)


@pytest.mark.parametrize(
    ("tcp_at", "severity"),
    [
        (None, "problem"),
        (0.1, "notice"),
        (0.9, "notice"),
        (1.5, "problem"),
        (2.8, "problem"),
        (4.0, "problem"),
        (-5.0, "notice"),
    ],
)
def test_a_failure_is_judged_by_what_the_request_lost(tcp_at: float | None, severity: str) -> None:
    """Nothing where TCP raced or was open; more than a second where the fallback came later; all without one."""
    network = Network()
    failed(network)
    if tcp_at is not None:
        network.tcp().connects(tcp_at)
    network.dns(0.0, "example.org", "198.51.100.1")
    (story,) = network.explain().stories
    assert severity_of_failure(story, story.quic[0]) == severity


@pytest.mark.parametrize(
    ("software", "severity"), [(CHROMIUM, "notice"), (FIREFOX, "notice"), (CURL, "problem"), (STRANGER, "problem")]
)
def test_a_browsers_tcp_may_have_been_left_out(software: Software, severity: str) -> None:
    """A browser never tries QUIC alone: where the capture holds no TCP at all, nobody knows what its request lost."""
    network = Network()
    network.quic(software=software).initials(0.0, 0.3, 0.9, 2.1, 4.5, 9.3)
    network.dns(0.0, "example.org", "198.51.100.1")
    (story,) = network.explain().stories
    assert severity_of_failure(story, story.quic[0]) == severity
    network.tcp(server="198.51.100.9", port=25, sni="other.example").connects(0.0)
    (story,) = [story for story in network.explain().stories if story.quic]
    assert severity_of_failure(story, story.quic[0]) == "problem"


@pytest.mark.parametrize(("at", "severity"), [(0.25, "info"), (0.9, "info"), (3.0, "notice")])
def test_another_address_makes_it_harmless_when_it_is_quick(at: float, severity: str) -> None:
    """RFC 8305: a quarter of a second between addresses is how it is meant to be, three seconds are not."""
    network = Network(stations={CLIENT: STATION, CLIENT6: STATION})
    failed(network)
    network.quic(client=CLIENT6, server=SERVER6).connects(at)
    (story,) = network.explain().stories
    assert severity_of_failure(story, story.quic[0]) == severity


@pytest.mark.parametrize("how", ["refused", "reset"])
def test_a_race_that_nobody_won_is_a_problem(how: str) -> None:
    """A filter that drops QUIC and resets TCP leaves the client with nothing: that TCP raced does not help."""
    network = Network()
    failed(network)
    tcp = network.tcp()
    tcp.syn(0.05)
    if how == "refused":
        tcp.refuse(0.06)
    else:
        tcp.accepts(0.06)
        tcp.hello(0.07)
        tcp.rst(0.08)
    explained = network.explain()
    assert explained.the("quic-unanswered").severity == "problem"
    assert explained.summary.exit_status == 1
    assert explained.sentence.startswith("No connection")


@pytest.mark.parametrize(("closed_at", "severity"), [(-1.0, "problem"), (20.0, "notice")])
def test_tcp_that_was_closed_before_is_no_way(closed_at: float, severity: str) -> None:
    """A connection that ended before the attempt began carried nothing for it; one that ended later may have."""
    network = Network()
    tcp = network.tcp()
    tcp.connects(-5.0)
    tcp.fin(closed_at)
    failed(network)
    assert network.explain().the("quic-unanswered").severity == severity


def test_failures_are_grouped_the_worst_first() -> None:
    """What cost the same is told together."""
    network = Network()
    network.tcp().connects(50.1)
    failed(network)
    failed(network, at=50.0)
    network.dns(0.0, "example.org", "198.51.100.1")
    (story,) = network.explain().stories
    groups = by_severity(story, story.quic)
    assert [severity for severity, _ in groups] == sorted(
        (severity for severity, _ in groups), key=["problem", "notice", "info"].index
    )
    assert sorted(q.id for _, group in groups for q in group) == ["quic-1", "quic-2"]


def test_evidence_of_an_attempt_is_its_initials() -> None:
    """The first, some between, and the last; parts of one hello count once."""
    network = Network()
    quic = network.quic()
    quic.initial_in_two(0.0)
    quic.initials(1.0, 3.0, 7.0, 15.0, 31.0)
    (story,) = network.explain().stories
    rows = hellos(story.quic[0], limit=4)
    assert len(rows) == 4
    assert "DCID" in rows[0][1]
    assert rows[-1][0].frame == 7
    assert "31.0 s after the first" in rows[-1][1]
