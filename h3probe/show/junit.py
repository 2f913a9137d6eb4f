"""What was expected and what came of it, as a JUnit report: the form that CI systems read."""

from __future__ import annotations

from typing import TYPE_CHECKING
from xml.sax.saxutils import escape, quoteattr

from h3probe.text import clean

if TYPE_CHECKING:
    from collections.abc import Sequence

    from h3probe.records import ExpectationRecord

LONGEST = 4_096


def to_junit(expectations: Sequence[ExpectationRecord]) -> str:
    """Write a test case for each origin, a failure in each whose expectation was not met.

    Args:
        expectations: What the engine gave at its end.

    Returns:
        An XML document: `testsuites`, in it one `testsuite`, in it a `testcase` each. Whatever came from the network is
        escaped, and characters that XML 1.0 cannot hold (section 2.2) are spelled out.
    """
    failures = sum(not expectation.met for expectation in expectations)
    counts = f'tests="{len(expectations)}" failures="{failures}" errors="0"'
    lines = [
        '<?xml version="1.0" encoding="UTF-8"?>',
        f'<testsuites name="h3probe" {counts}>',
        f'  <testsuite name="h3probe" {counts} skipped="0">',
        *(line for expectation in expectations for line in _case(expectation)),
        "  </testsuite>",
        "</testsuites>",
    ]
    return "\n".join(lines) + "\n"


def _case(expectation: ExpectationRecord) -> list[str]:
    origin, reason = _fit(expectation.origin or "no origin"), _fit(expectation.reason)
    begin = f"    <testcase classname={quoteattr(f'h3probe {expectation.expected}')} name={quoteattr(origin)}"
    if expectation.met:
        return [f"{begin}>", f"      <system-out>{escape(reason)}</system-out>", "    </testcase>"]
    failure = f"<failure type={quoteattr(f'not {expectation.expected}')} message={quoteattr(reason)}>"
    return [f"{begin}>", f"      {failure}{escape(reason)}</failure>", "    </testcase>"]


def _fit(text: str) -> str:
    """A text without anything that is not to be seen: control characters and lone surrogates among it."""
    return clean(text, LONGEST)
