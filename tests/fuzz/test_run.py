"""What `fuzz.run` understands of Atheris."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fuzz.run import HEADER, Run, print_table, read

if TYPE_CHECKING:
    import pytest

GOOD = b"""\
INFO: Instrumenting h3probe.wire
longest: 3 ms 12 bytes
#2	INITED cov: 25 ft: 26 corp: 1/1b exec/s: 0 rss: 60Mb
longest: 41 ms 6324 bytes
#4096	REDUCE cov: 1841 ft: 2900 corp: 80/9Kb lim: 40 exec/s: 1365 rss: 61Mb L: 5/9 MS: 1 EraseBytes-
#9000	DONE   cov: 1842 ft: 2901 corp: 80/9Kb lim: 40 exec/s: 900 rss: 61Mb
Done 9000 runs in 10 second(s)
stat::number_of_executed_units: 9000
stat::average_exec_per_sec:     900
"""
BAD = (
    GOOD[: GOOD.index(b"#9000")]
    + b"""\
 === Uncaught Python exception: ===
ValueError: no
artifact_prefix='/x/dns-'; Test unit written to /x/dns-crash-0a1b
Base64: AAA=
stat::number_of_executed_units: 5012
stat::average_exec_per_sec:     1253
"""
)


def test_a_run_without_a_finding() -> None:
    """What was executed, how fast, how much was reached, and what took longest."""
    assert read("dns", GOOD, 0) == Run("dns", 9000, 900, 1842, "41 ms for 6,324 B", "")


def test_a_run_with_a_finding() -> None:
    """The input that broke it is named, and what was done before counts."""
    run = read("dns", BAD, 77)
    assert run == Run("dns", 5012, 1253, 1841, "41 ms for 6,324 B", "/x/dns-crash-0a1b")


def test_a_run_that_did_not_begin() -> None:
    """Whatever else ends a run is a finding too, never a silence."""
    assert read("dns", b"Traceback\nModuleNotFoundError: atheris\n", 1).finding == "ModuleNotFoundError: atheris"
    assert read("dns", b"", -9).finding == "nothing was printed"


def test_the_table(capsys: pytest.CaptureFixture[str]) -> None:
    """One line for each target, in Markdown."""
    print_table([HEADER, read("dns", GOOD, 0).row()])
    assert capsys.readouterr().out.splitlines() == [
        "| target | executions | per second | edges | longest input | finding |",
        "| --- | --: | --: | --: | --: | --- |",
        "| dns | 9,000 | 900 | 1,842 | 41 ms for 6,324 B | none |",
    ]
