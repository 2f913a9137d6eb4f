from __future__ import annotations

import pytest

from tests.diagnose.scenario import JDK, STRANGER, Network, Software

RULE = "alt-svc-unusable"


def responded(*lines: str, software: Software = STRANGER) -> Network:
    """A response with these lines, over HTTP/2 to a reverse proxy."""
    network = Network()
    tcp = network.tcp(server="127.0.0.1", port=8443, software=software)
    proxy = network.proxy()
    proxy.hello(0.0, tcp)
    proxy.alt_svc(0.1, tcp, *lines)
    return network


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("h3=:443", "not valid"),
        ('h3=":0"', "not valid"),
        ('h3 = ":443"', "not valid"),
        ('h3=":443"; ma=0', "stale at once"),
        ('h3-29=":443"', "drafts of HTTP/3"),
        ('h3-29=":443", h2=":443"', "drafts of HTTP/3"),
        ("clear", "takes all alternatives back"),
    ],
)
def test_what_cannot_be_used_is_told_with_the_reason(line: str, why: str) -> None:
    """Each way in which a line fails, and the line."""
    finding = responded(line).explain().the(RULE)
    assert finding.severity == "notice"
    assert why in finding.summary
    assert line in finding.summary
    assert [(row.frame, row.at) for row in finding.evidence] == [(None, 0.1)]


def test_a_second_line_is_lost_on_the_jdk() -> None:
    """JDK 26 reads the first header line only."""
    finding = responded('h2=":443"', 'h3=":443"', software=JDK).explain().the(RULE)
    assert "first line only" in finding.summary


@pytest.mark.parametrize("software", [STRANGER, JDK])
@pytest.mark.parametrize(
    "lines",
    [
        ('h3=":443"; ma=86400',),
        ('h3="alt.example:8443"; persist=1; ma=60',),
        ('h3-29=":443", h3=":443"',),
        ('h3=":443"; ma=0, h3=":8443"',),
        ('h3=":443"', 'h2=":443"'),
        ('h2=":443"',),
        ("h2=:443",),
        ('quic=":443"; v="46,43"',),
    ],
    ids=str,
)
def test_what_can_be_used_or_means_something_else_is_none(lines: tuple[str, ...], software: Software) -> None:
    """A usable h3 among whatever else, and lines in which HTTP/3 is not meant at all."""
    assert responded(*lines, software=software).explain().found(RULE) == []


def test_two_lines_are_fine_for_others() -> None:
    """RFC 9110, 5.3: several lines are one list."""
    assert responded('h2=":443"', 'h3=":443"').explain().found(RULE) == []


@pytest.mark.parametrize("broken", ["x=online", "h3-29=:443; ma=0", 'y="; ma=0'])
def test_what_a_broken_part_says_does_not_spoil_the_good_one(broken: str) -> None:
    """The reasons are told by what was parsed, not by words that the server chooses."""
    assert responded(f'h3=":443", {broken}').explain().found(RULE) == []


def test_the_same_lines_are_told_once() -> None:
    """Every response has them."""
    network = responded("h3=:443")
    tcp = network.tcp(server="127.0.0.1", port=8443)
    network.proxy().hello(0.5, tcp)
    network.proxy().alt_svc(0.6, tcp, "h3=:443")
    assert network.explain().the(RULE)


def test_control_characters_are_not_repeated() -> None:
    """What a server sends may be meant for the terminal."""
    assert responded("h3=\x1b[2J").explain().the(RULE).summary.isprintable()


def led_to(port: int, *lines: str, sni: str = "example.org", answers: bool = False, at: float = 1.0) -> Network:
    """A response over TCP with these lines, and a QUIC attempt at a port."""
    network = Network()
    network.tcp().connects(0.0)
    network.told_alt_svc(0.1, *lines)
    quic = network.quic(port=port, sni=sni)
    if answers:
        quic.connects(at)
    else:
        quic.initials(at, at + 1.0, at + 3.0)
        quic.close(at + 5.0, 0)
    network.tcp().connects(at + 5.01)
    return network


@pytest.mark.parametrize("line", ['h3=":8443"; ma=60', 'h3="alt.example:8443"; ma=60'])
def test_a_place_that_does_not_answer_is_told(line: str) -> None:
    """The wrong port, or another host's, once the client has found out."""
    said = led_to(8443, line).explain()
    finding = said.the(RULE)
    assert "8443, which does not answer QUIC (1 attempt)" in finding.summary
    assert said.found("no-fallback") == []


@pytest.mark.parametrize(
    "network",
    [
        led_to(8443, 'h3=":8443"; ma=60', answers=True),
        led_to(9443, 'h3=":8443"; ma=60'),
        led_to(8443, 'h3=":8443"; ma=60, h3=":9443"'),
        led_to(8443, 'h3=":8443"; ma=60', sni="other.example"),
        led_to(8443, 'h3=":8443"; ma=60', at=0.05),
        led_to(443, 'h3=":443"; ma=60'),
    ],
    ids=["answers", "elsewhere", "another place is left", "another name", "before the offer", "the origin's own port"],
)
def test_a_place_of_which_nothing_is_known_is_none(network: Network) -> None:
    """Only attempts for this name, at every place that the lines name, after they were seen, prove it."""
    assert network.explain().found(RULE) == []
