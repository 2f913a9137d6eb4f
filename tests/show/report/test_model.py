"""What a report shows: what follows from it."""

from __future__ import annotations

import pytest

from h3probe.show.report.assemble import make_report
from h3probe.show.report.model import Origin

from .samples import STALE, explanation, recorded, verdict


def test_many_origins_without_a_problem_are_folded() -> None:
    """A few stand open; many are brief, since nothing is wrong with any of them."""
    few, many = explanation(verdict(rules=[])), explanation(verdict(rules=[]))
    many.all_records += [verdict(n, f"host{n}.example:443", rules=[]) for n in range(2, 12)]
    assert [make_report(few).is_brief(origin) for origin in make_report(few).origins] == [False]
    assert {make_report(many).is_brief(origin) for origin in make_report(many).origins} == {True}


def test_a_loss_is_a_part_of_the_whole() -> None:
    """In per cent of the time from the first thing that is drawn to the last one."""
    (origin,) = make_report(recorded(STALE)[0]).origins
    (part,) = origin.parts
    assert (part.x, part.width) == (pytest.approx(8.3, abs=0.1), pytest.approx(90.7, abs=0.1))
    assert (origin.begin, origin.end) == (0.0, pytest.approx(33.09, abs=0.01))


def test_an_empty_origin_has_no_length() -> None:
    """Without connections and requests it begins and ends at once."""
    assert (Origin(1, "x").begin, Origin(1, "x").end, Origin(1, "x").parts) == (0.0, 0.0, [])


def test_exchanges_are_counted_in_words() -> None:
    """By version, as the verdict has them."""
    (origin,) = make_report(explanation(verdict(versions={"HTTP/2": 1, "HTTP/3": 2}))).origins
    assert origin.verdicts[0].versions == "1 exchange over HTTP/2, 2 exchanges over HTTP/3"
