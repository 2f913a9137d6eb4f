from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from h3probe.diagnose.rules import CATALOGUE
from h3probe.errors import UserError
from h3probe.lab.scenario import demo_scenarios, load_scenarios, parse_scenario

GOOD = """
title = "A title"
about = "About it."
[server]
kind = "h3-slow"
delay_ms = 20
[network]
udp = "dropped"
dropped_after = 1
[client]
policy = "race"
requests = 2
[expect]
versions = ["HTTP/2", "any"]
quic = []
findings = ["race-lost"]
[java]
where = "client"
mode = "ANY"
[java.expect]
versions = ["HTTP/3", "error"]
"""


def test_package_has_the_promised_scenarios() -> None:
    """The demonstration covers what its help promises, in that order."""
    names = [scenario.name for scenario in load_scenarios()]
    assert [scenario.name for scenario in demo_scenarios()] == names[:9]
    assert names[:6] == [
        "http2-without-opt-in",
        "client-level-race",
        "alt-svc",
        "http3-uri-only",
        "udp-blocked",
        "udp-refused",
    ]
    assert {"stale-alt-svc", "connect-tunnel"} < set(names)


@pytest.mark.parametrize("scenario", load_scenarios(), ids=lambda scenario: scenario.name)
def test_rules_exist(scenario: object) -> None:
    """Every rule that a scenario names is in the catalogue."""
    expect = scenario.expect  # type: ignore[attr-defined]
    java = scenario.java.expect  # type: ignore[attr-defined]
    named = {*expect.findings, *expect.log_findings, *expect.absent, *java.findings, *java.absent}
    assert named <= set(CATALOGUE)


def test_everything_is_read() -> None:
    """Each key arrives where it belongs."""
    scenario = parse_scenario("x", GOOD)
    assert (scenario.name, scenario.title, scenario.about) == ("x", "A title", "About it.")
    assert scenario.server.delay == 0.02
    assert (scenario.network.udp, scenario.network.dropped_after) == ("dropped", 1)
    assert (scenario.policy, scenario.requests, scenario.proxy) == ("race", 2, False)
    assert (scenario.expect.versions, scenario.expect.quic, scenario.expect.tcp) == (("HTTP/2", "any"), (), None)
    assert (scenario.java.where, scenario.java.mode) == ("client", "ANY")


def test_java_expects_the_same_where_it_says_nothing() -> None:
    """What `java.expect` leaves out is taken from `expect`."""
    java = parse_scenario("x", GOOD).java.expect
    assert java.versions == ("HTTP/3", "error")
    assert java.findings == ("race-lost",)


@pytest.mark.parametrize(
    ("old", "new", "complaint"),
    [
        ('title = "A title"', "", "title must be a text"),
        ('title = "A title"', "title = [", "scenario x: "),
        ('kind = "h3-slow"', 'kind = "h4"', "no server 'h4'"),
        ('kind = "h3-slow"', "", "server.kind must be a text"),
        ("delay_ms = 20", "delay_ms = -1", "server.delay_ms must be a whole number"),
        ("delay_ms = 20", "delay_ms = true", "server.delay_ms must be a whole number"),
        ("delay_ms = 20", "dely_ms = 20", "server.dely_ms has no meaning"),
        ('udp = "dropped"', 'udp = "lost"', "network.udp must be one of open, dropped, answers-dropped"),
        ("dropped_after = 1", "dropped_after = 2", "network.dropped_after must be a whole number from 0 to 1"),
        ('policy = "race"', 'policy = "run"', "client.policy must be one of"),
        ("requests = 2", "requests = 3", "expect.versions must be a list of 3"),
        ("requests = 2", "requests = 1000", "client.requests must be a whole number from 1 to 200"),
        ('"any"]', '"HTTP/4"]', "expect.versions must be a list of 2"),
        ("quic = []", "quic = [1]", "expect.quic must be a list of texts"),
        ("[expect]", "[expected]", "expected has no meaning"),
        ('where = "client"', 'where = "server"', "java.where must be one of"),
        ("[network]\n", "network = 1\n", "scenario x: "),
        ('mode = "ANY"', 'mode = "ANY"\nrelease = 24', "java.release must be a whole number from 25 to 26"),
        ("quic = []", "seconds = [[2, 1]]", "expect.seconds must be a list of pairs of numbers"),
        ("quic = []", "seconds = [[0, 1], [0, 1], [0, 1]]", "expect.seconds must be a list of 2 pairs"),
        ("quic = []", "udp_sockets = [[1, 1], [1, 1]]", "expect.udp_sockets must be a list of one pair"),
        ("dropped_after = 1", "mtu = 100", "network.mtu must be a whole number from 576"),
    ],
)
def test_mistakes_are_named(old: str, new: str, complaint: str) -> None:
    """A mistake gives one line that names the key."""
    assert old in GOOD
    with pytest.raises(UserError) as raised:
        parse_scenario("x", GOOD.replace(old, new))
    assert complaint in str(raised.value)


@given(st.text(max_size=200))
def test_any_text_parses_or_is_refused(text: str) -> None:
    """No text raises anything but UserError."""
    try:
        parse_scenario("x", text)
    except UserError:
        return


def test_what_is_nested_too_deep_is_refused() -> None:
    """A file that no parser gets to the end of is refused as any other that is wrong."""
    with pytest.raises(UserError, match="within each other"):
        parse_scenario("x", f"a = {'[' * 5000}")
