from __future__ import annotations

import pytest

from tests.diagnose.scenario import CLIENT, CURL, JDK, ROUTER, Network

RULE = "quic-refused"
PROHIBITED = (3, 13)


def test_a_closed_port_is_told_from_a_firewall() -> None:
    """Port unreachable from the server itself means that nothing takes it; the advice is about the server."""
    network = Network()
    quic = network.quic(software=CURL)
    quic.initial(0.0)
    quic.unreachable(0.02)
    finding = network.explain().the(RULE)
    assert "nothing takes UDP 443 there" in finding.summary
    assert "20 ms" in finding.summary
    assert finding.severity == "problem"
    assert "HTTP/3 listener" in finding.advice
    assert [(row.frame, row.what) for row in finding.evidence][-1] == (2, "ICMP 3/3 from 198.51.100.1")


@pytest.mark.parametrize(
    ("code", "sender", "words"),
    [
        (PROHIBITED, ROUTER, "a firewall rejects it"),
        (PROHIBITED, None, "a firewall rejects it"),
        ((3, 3), ROUTER, "on the way and not by the server"),
    ],
)
def test_a_firewall_is_named_by_its_address(code: tuple[int, int], sender: str | None, words: str) -> None:
    """An administrative refusal, or a port unreachable that is not the server's, points at whoever sent it."""
    network = Network()
    quic = network.quic()
    quic.initial(0.0)
    quic.unreachable(0.01, code=code, sender=sender)
    finding = network.explain().the(RULE)
    assert words in finding.summary
    assert (sender or "that host itself") in finding.summary
    assert "firewall" in finding.advice
    assert "nothing takes" not in finding.summary


def test_an_unreachable_network_is_a_matter_of_routes() -> None:
    """Network unreachable is neither a closed port nor a firewall."""
    network = Network()
    quic = network.quic()
    quic.initial(0.0)
    quic.unreachable(0.01, code=(3, 0), sender=ROUTER)
    finding = network.explain().the(RULE)
    assert "network unreachable" in finding.summary
    assert "routes" in finding.advice


def test_a_client_that_does_not_notice_is_named() -> None:
    """The JDK goes on after the error until its own timer: both are said."""
    network = Network()
    quic = network.quic(software=JDK)
    quic.initial(0.0)
    quic.unreachable(0.000_1)
    quic.initial(1.0)
    quic.unreachable(1.000_1)
    quic.close(2.75, 0xC)
    network.tcp(software=JDK).connects(2.78)
    finding = network.explain().the(RULE)
    assert "does not notice" in finding.summary
    assert "2750 ms direct timer" in finding.summary
    assert finding.severity == "problem"


def test_a_client_that_fails_fast_is_not_said_to_ignore_it() -> None:
    """curl sends one Initial, sees the error, and is not accused of anything."""
    network = Network()
    quic = network.quic(software=CURL)
    quic.initial(0.0)
    quic.unreachable(0.000_1)
    network.tcp(software=CURL).connects(0.001)
    finding = network.explain().the(RULE)
    assert "does not notice" not in finding.summary
    assert finding.severity == "notice"


def test_one_initial_is_no_going_on() -> None:
    """A JDK of which one Initial was seen has not been seen to ignore anything."""
    network = Network()
    quic = network.quic(software=JDK)
    quic.initial(0.0)
    quic.unreachable(0.000_1)
    assert "does not notice" not in network.explain().the(RULE).summary


def test_a_refused_loopback_beside_an_answered_one_is_information() -> None:
    """`localhost` is ::1 and 127.0.0.1: that nothing listens on the first is no problem."""
    network = Network()
    six = network.quic(client="::1", server="::1", port=4433, sni="localhost")
    six.initial(0.0)
    six.unreachable(0.000_02)
    network.quic(client="127.0.0.1", server="127.0.0.1", port=4433, sni="localhost").connects(0.001)
    explained = network.explain()
    assert explained.the(RULE).severity == "info"
    assert explained.summary.exit_status == 0
    assert len(explained.verdicts) == 1


def test_an_answer_outweighs_a_stray_error() -> None:
    """A router's passing error beside a connection that then works is no refusal."""
    network = Network()
    quic = network.quic()
    quic.initial(0.0)
    quic.unreachable(0.01, code=(3, 1), sender=ROUTER)
    quic.initial(1.0)
    quic.completes(1.02)
    assert network.explain().found(RULE) == []


def test_a_process_that_ended_is_no_refused_quic() -> None:
    """Port unreachable from the client's host, about what the server sent, is the end of a process."""
    network = Network()
    quic = network.quic(software=JDK)
    quic.connects(0.0)
    quic.response(1.0)
    quic.client_is_gone(1.000_1)
    quic.response(2.0)
    quic.client_is_gone(2.000_1)
    explained = network.explain()
    assert explained.findings == []
    assert explained.quic[0].outcome == "established"
    assert [record.type for record in explained.records].count("icmp") == 2


def test_an_error_about_another_port_is_another_flows() -> None:
    """Errors about a resolver's port, or about TCP, refuse no QUIC."""
    network = Network()
    network.quic().connects(0.0)
    tcp = network.tcp(port=8443)
    tcp.syn(0.5)
    tcp.unreachable(0.51, code=PROHIBITED, sender=ROUTER)
    assert network.explain().found(RULE) == []


def test_fragmentation_needed_is_no_refusal() -> None:
    """ICMP 3/4 is about the path MTU, whatever its type number says."""
    network = Network()
    quic = network.quic()
    quic.initials(0.0)
    quic.unreachable(0.01, code=(3, 4), sender=ROUTER)
    quic.initials(1.0, 3.0)
    explained = network.explain()
    assert explained.found(RULE) == []


def test_time_exceeded_is_no_refusal() -> None:
    """A traceroute beside the client, or a routing loop, is no refusal by anyone."""
    network = Network()
    quic = network.quic()
    quic.initials(0.0)
    quic.unreachable(0.01, code=(11, 0), sender=ROUTER)
    assert network.explain().found(RULE) == []


def test_errors_of_two_kinds_are_two_findings() -> None:
    """A closed port on one address and a firewall before another need different advice."""
    network = Network()
    one, two = network.quic(), network.quic(server="198.51.100.2")
    one.initial(0.0)
    one.unreachable(0.01)
    two.initial(0.1)
    two.unreachable(0.11, code=PROHIBITED, sender=ROUTER)
    assert len(network.explain().found(RULE)) == 2


@pytest.mark.parametrize("code", [None, PROHIBITED])
def test_the_clients_own_firewall_is_named(code: tuple[int, int] | None) -> None:
    """An error that the client's own address sends is its own host's: nothing on the way did it."""
    network = Network()
    quic = network.quic()
    quic.initial(0.0)
    quic.unreachable(0.000_01, code=code, sender=CLIENT)
    summary = network.explain().the(RULE).summary
    assert "the client's own host" in summary
    assert "on the way" not in summary


def test_refusals_of_one_kind_are_told_once() -> None:
    """Two attempts that the same host refused in the same way are one finding, and counted."""
    network = Network()
    for at in (0.0, 10.0):
        quic = network.quic()
        quic.initial(at)
        quic.unreachable(at + 0.01)
    finding = network.explain().the(RULE)
    assert "refused, 2 times" in finding.summary
    assert finding.connections == ["quic-1", "quic-2"]
