from __future__ import annotations

import xml.etree.ElementTree as ET
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from h3probe.show.junit import to_junit

from . import samples


def parse(report: str) -> ET.Element:
    """What any XML parser makes of a report."""
    return ET.fromstring(report.encode())  # noqa: S314 - h3probe wrote it


def test_a_case_for_each_origin() -> None:
    """Counts, names, and a failure with its reason where the expectation was not met."""
    root = parse(to_junit(samples.expectations()))
    (suite,) = root
    assert (root.tag, suite.tag) == ("testsuites", "testsuite")
    assert (suite.get("tests"), suite.get("failures"), suite.get("errors")) == ("3", "2", "0")
    assert [case.get("name") for case in suite] == ["localhost:4433", "example.org:443", "no origin"]
    assert {case.get("classname") for case in suite} == {"h3probe HTTP/3"}
    failures = [case.find("failure") for case in suite]
    assert [failure.get("message") if failure is not None else None for failure in failures] == [
        "Not HTTP/3 for 1 of 4 requests: 1 HTTP/2.",
        None,
        "No request was seen.",
    ]
    assert suite[1].findtext("system-out") == "HTTP/3 for all 4 requests."


def test_nothing_from_the_network_is_markup() -> None:
    """Quotes, brackets and ends of sections come back as they were."""
    hostile = "\"><failure/>&amp;]]>'<!--"
    for sample in samples.expectations():
        root = parse(to_junit([replace(sample, origin=hostile, reason=hostile)]))
        (case,) = root[0]
        assert case.get("name") == hostile
        assert "".join(case.itertext()).strip() == hostile
        assert len(case) == 1


@given(st.text(), st.text())
def test_any_text_is_well_formed(origin: str, reason: str) -> None:
    """Control characters, lone surrogates and what XML cannot hold are spelled out: every parser reads the report."""
    for sample in samples.expectations():
        text = to_junit([replace(sample, origin=origin, reason=reason)])
        assert all(character.isprintable() or character == "\n" for character in text)
        parse(text)
