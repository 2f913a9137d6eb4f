from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from h3probe.vantage.mitm.altsvc import rewrite
from h3probe.wire import altsvc

STANDING = {("example.org", 443): 8443, ("other.example", 8443): 9443, ("2001:db8::1", 443): 6443}


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        # What it stands before, named without a host and with one.
        ('h3=":443"; ma=3600', 'h3=":8443"; ma=3600'),
        ('h3="example.org:443"', 'h3=":8443"'),
        ('h3="EXAMPLE.org:443";persist=1', 'h3=":8443";persist=1'),
        ('h3="other.example:8443"', 'h3=":9443"'),
        ('h3="[2001:db8::1]:443"', 'h3=":6443"'),
        ('h3="[2001:DB8:0::1]:443"', 'h3=":6443"'),
        ('h2=":443"', 'h2=":8443"'),
        # What it does not stand before.
        ('h3=":444"', 'h3=":444"'),
        ('h3="alt.example.org:443"', 'h3="alt.example.org:443"'),
        ('h3="[2001:db8::2]:443"; ma=60', 'h3="[2001:db8::2]:443"; ma=60'),
        ("clear", "clear"),
        # Several values: each for itself, and all between them as it was.
        ('h3=":443"; ma=1 , h3-29=":443",h2=":80"', 'h3=":8443"; ma=1 , h3-29=":8443",h2=":80"'),
        ('h3=":443"; v="46,43=\\":443\\""; ma=5,  h3=":444"', 'h3=":8443"; v="46,43=\\":443\\""; ma=5,  h3=":444"'),
        # Parts that break the grammar.
        ("h3=:443", "h3=:443"),
        ('h3=":443', 'h3=":443'),
        ('=":443", h3=":443"', '=":443", h3=":8443"'),
        (",,", ",,"),
        ("", ""),
    ],
)
def test_one_line(line: str, expected: str) -> None:
    """Only the authorities that the proxy stands before change, and nothing else in the line does."""
    assert rewrite([line], "example.org", STANDING) == [expected]


def test_several_lines_stay_several() -> None:
    """Header lines are kept apart and in order."""
    lines = ['h3=":443"', "clear", 'h2=":444"']
    assert rewrite(lines, "Example.ORG", STANDING) == ['h3=":8443"', "clear", 'h2=":444"']


def test_an_origin_that_is_an_address() -> None:
    """An authority without a host means the origin's own, also where that is an IPv6 address."""
    assert rewrite(['h3=":443"'], "2001:db8::1", STANDING) == ['h3=":6443"']


@given(st.lists(st.text('h3=":4, ;ma\\[]x', max_size=60), max_size=4))
def test_nothing_to_stand_before_changes_nothing(lines: list[str]) -> None:
    """Whatever the lines hold, a proxy that stands before none of it passes them on as they are."""
    assert rewrite(lines, "example.org", {}) == lines


@given(st.text('h3=":4, ;ma\\[]x', max_size=60))
def test_what_is_invalid_stays_invalid(line: str) -> None:
    """Rewriting neither mends nor breaks anything: as many alternatives and as many invalid parts as before."""
    before, after = altsvc.parse([line]), altsvc.parse(rewrite([line], "example.org", {("example.org", 4): 5}))
    assert len(after.alternatives) == len(before.alternatives)
    assert len(after.invalid) == len(before.invalid)
    assert after.clear == before.clear
