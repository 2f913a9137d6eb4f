from __future__ import annotations

from h3probe.events import ProxyDied
from tests.diagnose.scenario import START_NS, Network

RULE = "proxy-died"


def test_a_proxy_that_ended_by_itself_is_a_problem() -> None:
    """Its exit status and the last thing it said are told, and no origin is blamed."""
    network = Network()
    network.tcp().connects(0.0)
    network.report(1.0, ProxyDied(START_NS, 137, ("starting", "out of memory\x1b[2J")))
    explained = network.explain()
    finding = explained.the(RULE)
    assert finding.severity == "problem"
    assert finding.origin is None
    assert "exit status 137: out of memory" in finding.summary
    assert "\x1b" not in finding.summary
    assert explained.summary.exit_status == 1


def test_one_that_said_nothing() -> None:
    """A kill leaves no words, and none are made up."""
    network = Network()
    network.report(1.0, ProxyDied(START_NS, 137))
    assert "it said nothing" in network.explain().the(RULE).summary


def test_no_proxy_cannot_die() -> None:
    """A run without a proxy, or whose proxy ended when told to, has nothing to tell."""
    network = Network()
    network.tcp().connects(0.0)
    assert network.explain().found(RULE) == []
