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
    texts = ("localhost:4433", "repeated-timeout", "quic-refused", "the capture as a whole")
    order = [output.index(text) for text in texts]
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


@pytest.mark.parametrize(("severity", "other", "advised"), [("info", "info", True), ("info", "notice", False)])
def test_an_info_that_is_the_answer_has_its_advice(severity: Severity, other: Severity, *, advised: bool) -> None:
    """What a verdict names first is what people come for; beside something worse an info stays short."""
    verdict = dataclasses.replace(samples.verdicts()[0], rules=["proxy-downgrade", "some-rule"])
    answer = dataclasses.replace(
        samples.blocked_finding(), rule="proxy-downgrade", severity=severity, advice="Exempt the host."
    )
    beside = dataclasses.replace(answer, rule="some-rule", severity=other, advice="Look there.", evidence=[])
    output = draw([answer, beside, verdict], moments=False)
    assert ("Exempt the host." in output) is advised
    assert ("Look there." in output) is not advised


def test_strangers_verdicts_are_one_line() -> None:
    """On a busy host the command's own verdict is not lost among those on connections whose owner is not known."""
    own = samples.verdicts()[0]
    stranger = dataclasses.replace(
        own, origin="other:443", client="::1, owner not known", rules=[], sentence="Strange."
    )
    output = draw([stranger, own, stranger], moments=False, width=200)
    assert "Strange." not in output
    assert output.index("Verdict ") < output.index("localhost:4433, client java")
    assert "and 2 verdicts on connections whose owner is not known: no finding 2; --json has them all" in output
    alone = draw([stranger], moments=False)
    assert "Strange." in alone
    assert "and 1 verdict" not in alone


def test_silence_is_said() -> None:
    """Without any verdict the output says that nothing was seen, rather than nothing."""
    assert "Nothing to judge: no request that is asked about was seen" in draw([], moments=False)


def test_of_very_many_the_worst_are_printed_and_the_others_summed_up() -> None:
    """Of origins with the same findings some are printed, problems first; verdicts that say the same are one."""
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
    assert re.findall(r"host-\d+", findings) == ["host-95", "host-96", "host-97", "host-0", "host-1", "host-2"]
    assert "and findings about 94 origins more: some-rule 92, bad-rule 2; --json has them all" in findings
    assert re.findall(r"host-\d+", verdicts) == ["host-1", "host-95", "host-0"]
    numbers = re.findall(r"client java\[4711\], and (\d+) more like it", verdicts)
    assert numbers == ["46", "2", "49"]
    assert "by cause" not in verdicts
    assert "5 problems, 95 notices" in output


def test_of_very_many_that_differ_some_are_printed() -> None:
    """Of verdicts that all say something else 40 are printed, those with findings first; the rest by cause."""
    verdicts = [
        dataclasses.replace(
            samples.verdicts()[0],
            id=f"verdict-{n}",
            origin=f"host-{n}.test:443",
            sentence=f"After {n} s.",
            rules=[] if n % 2 else ["quic-blocked"],
        )
        for n in range(99)
    ]
    found = dataclasses.replace(samples.blocked_finding(), origin="host-98.test:443", rule="quic-blocked")
    output = " ".join(draw([found, *verdicts], moments=False, width=200).split("Verdicts")[1].split())
    assert len(re.findall(r"host-\d+", output)) == 40
    assert output.index("host-98.") < output.index("host-0.")
    assert "and more, by cause: no finding 30, quic-blocked 29; --json has them all, --origin picks one" in output


def test_forty_are_no_more_than_can_be_read() -> None:
    """As many as are printed at the most are printed in their order, and nothing is said of others."""
    verdicts = [
        dataclasses.replace(samples.verdicts()[0], id=f"verdict-{n}", origin=f"host-{n}.test:443") for n in range(40)
    ]
    output = draw([*verdicts], moments=False)
    assert re.findall(r"host-(\d+)", output) == [str(number) for number in range(40)]
    assert " more" not in output
