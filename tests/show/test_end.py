"""What is printed below the timeline."""

from __future__ import annotations

import dataclasses
import re
from typing import TYPE_CHECKING

import pytest

from tests.show import samples
from tests.show.test_console import draw

if TYPE_CHECKING:
    from h3probe.records import AnyRecord, Severity


def test_findings_stand_by_origin_and_the_worst_first() -> None:
    """Findings of one origin stand together, in the order origins came, problems before infos."""
    output = draw([*samples.findings()], moments=False)
    order = [output.index(word) for word in ("localhost:4433", "repeated-timeout", "quic-refused", "origin not known")]
    assert order == sorted(order)


@pytest.mark.parametrize(("severity", "mark"), [("problem", "✗"), ("notice", "!"), ("info", "•")])
def test_a_verdict_bears_the_mark_of_its_worst_finding(severity: Severity, mark: str) -> None:
    """The verdict's mark comes from the findings it names, and an info raises no alarm."""
    finding = dataclasses.replace(samples.blocked_finding(), severity=severity)
    output = draw([finding, samples.verdicts()[0]], moments=False)
    assert f"\n{mark} localhost:4433, client java[4711]\n" in output


def test_a_finding_of_another_origin_does_not_mark_a_verdict() -> None:
    """The same rule fired elsewhere says nothing about this origin."""
    finding = dataclasses.replace(samples.blocked_finding(), origin="other:443")
    assert "\n• localhost:4433, client java" in draw([finding, samples.verdicts()[0]], moments=False)


def test_silence_is_said() -> None:
    """Without any verdict the output says that nothing was seen, rather than nothing."""
    assert "Nothing to judge: no request that is asked about was seen" in draw([], moments=False)


def test_of_very_many_the_worst_are_printed_and_the_others_summed_up() -> None:
    """40 origins with findings and 40 verdicts are printed, problems first; what the others are is said by cause."""
    records: list[AnyRecord] = []
    for number in range(100):
        origin, bad = f"host-{number}.test:443", number >= 95
        found = dataclasses.replace(
            samples.blocked_finding(),
            origin=origin,
            severity="problem" if bad else "notice",
            rule="bad-rule" if bad else "some-rule",
        )
        verdict = dataclasses.replace(
            samples.verdicts()[0], id=f"verdict-{number}", origin=origin, rules=[found.rule] if number % 2 else []
        )
        records += [found, verdict]
    output = " ".join(draw([*records, samples.summary()], moments=False, width=200).split())
    findings, verdicts = output.split("Verdicts")
    assert len(set(re.findall(r"host-\d+", findings))) == len(re.findall(r"host-\d+", verdicts)) == 40
    assert all(f"host-{number}.test" in findings for number in range(95, 100))
    assert findings.index("host-95.") < findings.index("host-0.")
    assert "and findings about 60 origins more: some-rule 60; --json has them all" in findings
    assert "host-99." not in verdicts.partition("host-79.")[0]
    assert "and 60 verdicts more: no finding 50, some-rule 7, bad-rule 3; --json has them all" in verdicts
    assert "5 problems, 95 notices" in output


def test_forty_are_no_more_than_can_be_read() -> None:
    """As many as are printed at the most are printed in their order, and nothing is said of others."""
    verdicts = [
        dataclasses.replace(samples.verdicts()[0], id=f"verdict-{n}", origin=f"host-{n}.test:443") for n in range(40)
    ]
    output = draw([*verdicts], moments=False)
    assert re.findall(r"host-(\d+)", output) == [str(number) for number in range(40)]
    assert " more" not in output
