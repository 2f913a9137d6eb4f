from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from h3probe.diagnose.rules import CATALOGUE
from h3probe.errors import UserError
from h3probe.lab.article import Run, load_experiments, parse_experiment

GOOD = """
title = "A title"
source = "An article, 1"
[[run]]
title = "first"
reports = "HTTP/2 after 3 s"
patient = true
server.kind = "h2"
client.requests = 2
java = { release = 25, program = "Plain", pause_ms = 5, linger_ms = 7 }
expect.versions = ["HTTP/2"]
expect.seconds = [[2.5, 4]]
expect.errors = ["no"]
expect.udp_sockets = [[1, 2]]
expect.log_findings = ["race-lost"]
[[run]]
title = "second"
reports = "the same"
server = { kind = "h3", clears_after = 0 }
expect.versions = ["HTTP/3"]
"""

RUNS = [run for experiment in load_experiments() for run in experiment.runs]


def test_package_has_a_row_for_each_of_the_articles() -> None:
    """All experiments of the articles that need no benchmark are here, and ours, in their order."""
    assert [experiment.name[:2] for experiment in load_experiments()] == [
        "01", "02", "03", "04", "05", "06", "10", "11", "12", "13", "20",
    ]  # fmt: skip


@pytest.mark.parametrize("run", RUNS, ids=lambda run: run.scenario.name)
def test_each_run_expects_versions_and_known_rules(run: Run) -> None:
    """No run passes whatever comes, and every rule it names is in the catalogue."""
    expect = run.scenario.java.expect
    assert expect.versions
    assert set(expect.versions) != {"any"}
    assert {*expect.findings, *expect.log_findings, *expect.absent} <= set(CATALOGUE)


def test_everything_is_read() -> None:
    """Each key arrives where it belongs; runs are numbered."""
    experiment = parse_experiment("x", GOOD)
    assert (experiment.name, experiment.title, experiment.source) == ("x", "A title", "An article, 1")
    first, second = experiment.runs
    assert (first.reports, first.scenario.name, first.scenario.title) == ("HTTP/2 after 3 s", "x/1", "first")
    java = first.scenario.java
    assert (java.release, java.program, java.pause_ms, java.linger_ms) == (25, "Plain", 5, 7)
    expect = java.expect
    assert (expect.seconds, expect.errors, expect.udp_sockets) == (((2.5, 4.0),), ("no",), (1.0, 2.0))
    assert expect.log_findings == ("race-lost",)
    assert (first.scenario.patient, second.scenario.patient) == (True, False)
    assert second.scenario.java.expect.versions == ("HTTP/3",)


@pytest.mark.parametrize(
    ("old", "new", "complaint"),
    [
        ('source = "An article, 1"', "", "experiment x: source must be a text"),
        ('reports = "the same"', "", "experiment x: run 2.reports must be a text"),
        ('reports = "the same"', 'reports = "the same"\nresult = 1', "experiment x: run 2.result has no meaning"),
        ('server.kind = "h2"', 'server.kind = "h4"', "no server 'h4'"),
        ("seconds = [[2.5, 4]]", "seconds = [[4]]", "run 1.expect.seconds must be a list of pairs"),
    ],
)
def test_mistakes_are_named(old: str, new: str, complaint: str) -> None:
    """A mistake gives one line that names the run and the key."""
    assert old in GOOD
    with pytest.raises(UserError) as raised:
        parse_experiment("x", GOOD.replace(old, new))
    assert complaint in str(raised.value)


@pytest.mark.parametrize("runs", ["", "run = []", "run = 1", "run = [1]"])
def test_an_experiment_has_a_run(runs: str) -> None:
    """One without any is refused."""
    with pytest.raises(UserError, match="run must be a list of tables"):
        parse_experiment("x", f'title = "A"\nsource = "B"\n{runs}')


@given(st.text(max_size=200))
def test_any_text_parses_or_is_refused(text: str) -> None:
    """No text raises anything but UserError."""
    try:
        parse_experiment("x", text)
    except UserError:
        return
