from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from h3probe.wire.altsvc import DEFAULT_MAX_AGE, Alternative, AltSvc, parse


def test_the_usual_line() -> None:
    """The line that most servers send gives its alternatives in their order."""
    assert parse(['h3=":443"; ma=3600, h2=":8443"']) == AltSvc(
        clear=False,
        alternatives=(Alternative("h3", "", 443, 3600), Alternative("h2", "", 8443, DEFAULT_MAX_AGE)),
        invalid=(),
    )


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ('h3="alt.example.com:443"', Alternative("h3", "alt.example.com", 443)),
        ('h3="[2001:DB8::1]:443"', Alternative("h3", "2001:db8::1", 443)),
        ('h3="192.0.2.1:443"', Alternative("h3", "192.0.2.1", 443)),
        ('h3=":443";ma=60;persist=1', Alternative("h3", "", 443, 60, persist=True)),
        ('h3=":443" \t; \tMA=60 ; Persist=1', Alternative("h3", "", 443, 60, persist=True)),
        ('h3=":443"; persist=0', Alternative("h3", "", 443)),
        ('h3=":443"; ma="60"', Alternative("h3", "", 443, 60)),
        (r'h3="\:4\43"', Alternative("h3", "", 443)),
        (r'h3=":443"; v="46,43;\"x\\"; ma=5', Alternative("h3", "", 443, 5)),
        ('h3=":443";', Alternative("h3", "", 443)),
        ('h3=":443"; ma=0', Alternative("h3", "", 443, 0)),
        ('h3=":443"; ma=99999999999999999999', Alternative("h3", "", 443, 2**31)),
        ('w%3Dx%3Ay#z=":443"', Alternative("w=x:y#z", "", 443)),
        ('x%25y=":443"', Alternative("x%y", "", 443)),
        ('%1b%ff=":443"', Alternative(r"\x1b\xff", "", 443)),
        ('h3=":00443"', Alternative("h3", "", 443)),
    ],
)
def test_grammar(value: str, expected: Alternative) -> None:
    """Every form that RFC 7838, section 3, allows is read."""
    assert parse([value]) == AltSvc(clear=False, alternatives=(expected,), invalid=())


def test_several_lines() -> None:
    """Several field lines are one list, and empty elements are no error."""
    result = parse(['h3=":443",', "", ' , h3=":8443" ,, h2=":443"'])
    assert [(a.protocol, a.port) for a in result.alternatives] == [("h3", 443), ("h3", 8443), ("h2", 443)]
    assert result.invalid == ()


def test_clear() -> None:
    """`clear` forgets all alternatives, those beside it too; other spellings are no such word."""
    assert parse(["clear"]) == AltSvc(clear=True, alternatives=(), invalid=())
    assert parse(['h3=":443"', "clear"]) == AltSvc(clear=True, alternatives=(), invalid=())
    assert parse(["Clear"]).clear is False
    assert len(parse(["Clear"]).invalid) == 1


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        ("h3", "no `=`"),
        (";", "no `=`"),
        (';h3=":443"', "no `=`"),
        ("h3=:443", "not in quotes"),
        ('h3="443"', "no port"),
        ('h3=":0"', "1 to 65535"),
        ('h3=":65536"', "1 to 65535"),
        ('h3=":"', "1 to 65535"),
        ('h3=":\u0664\u0664\u0663"', "1 to 65535"),
        ('h3="2001:db8::1:443"', "brackets"),
        ('h3="[2001:db8::g]:443"', "no IPv6 address"),
        ('h3="[2001:db8::1:443"', "no IPv6 address"),
        ('h3="[fe80::1%eth0]:443"', "no IPv6 address"),
        ('h3="a b:443"', "neither a name nor an address"),
        ('=":443"', "no token"),
        ('h3 =":443"', "no token"),
        ('h%3=":443"', "encodes nothing"),
        ('h3=":443', "does not end"),
        (r'h3=":443\"', "does not end"),
        ('h3="', "does not end"),
        ('h3=":443"x', "does not end"),
        ('h3=":443"; ma=1h', "no number"),
        ('h3=":443"; ma=-1', "no number"),
        ('h3=":443"; ma', "no parameter"),
        ('h3=":443"; =1', "no parameter"),
        ('h3=":443"; ma=', "neither a token"),
        ('h3=":443"; v=46 47', "neither a token"),
    ],
)
def test_broken_parts_are_named(value: str, reason: str) -> None:
    """A part that breaks the grammar stands in the result as sent, with the reason, and spoils no other part."""
    result = parse(['h2=":1"', value])
    assert result.alternatives == (Alternative("h2", "", 1),)
    (text,) = result.invalid
    assert text.startswith(f"{value}: ")
    assert reason in text


def test_broken_part_between_others() -> None:
    """The parts around a broken one are kept."""
    result = parse(['h3=":443", h3-29=443, h2=":8443"'])
    assert [a.protocol for a in result.alternatives] == ["h3", "h2"]
    assert len(result.invalid) == 1


@given(st.lists(st.text(alphabet=st.sampled_from('h3=":,;[]%\\ \t0a\x00é'), max_size=60), max_size=4))
def test_any_text(values: list[str]) -> None:
    """Any text gives a result, and every alternative in it is usable."""
    result = parse(values)
    assert all(1 <= a.port <= 65535 and a.protocol and a.max_age >= 0 for a in result.alternatives)


@given(
    st.lists(
        st.builds(
            Alternative,
            st.sampled_from(["h3", "h2", "http/1.1", "h3-29", "a,b;c"]),
            st.sampled_from(["", "alt.example", "2001:db8::1", "192.0.2.1"]),
            st.integers(1, 65535),
            st.integers(0, 2**31),
            st.booleans(),
        )
    )
)
def test_round_trip(alternatives: list[Alternative]) -> None:
    """What was written by the grammar is read back the same."""
    written = []
    for a in alternatives:
        protocol = "".join(c if c.isalnum() or c in "-." else f"%{ord(c):02X}" for c in a.protocol)
        host = f"[{a.host}]" if ":" in a.host else a.host
        written.append(f'{protocol}="{host}:{a.port}"; ma={a.max_age}' + ("; persist=1" if a.persist else ""))
    assert parse([", ".join(written)]).alternatives == tuple(alternatives)
