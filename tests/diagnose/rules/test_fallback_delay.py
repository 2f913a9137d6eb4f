from __future__ import annotations

import pytest

from tests.diagnose.scenario import CHROMIUM, CURL, JDK, Network, Quic

RULE = "fallback-delay"


def gives_up(quic: Quic, at: float = 0.0, after: float = 2.75, reason: bytes = b"") -> None:
    """Two Initials, and the close that ends an unanswered attempt."""
    quic.initials(at, at + 1.0)
    quic.close(at + after, 0xC, reason)


def test_the_wait_before_the_syn_is_the_cost() -> None:
    """The cost is the SYN's time minus the first Initial's, and both are in the evidence."""
    network = Network()
    gives_up(network.quic(software=JDK))
    network.tcp(software=JDK).connects(2.78)
    finding = network.explain().the(RULE)
    assert finding.cost == pytest.approx(2.78)
    assert finding.severity == "problem"
    assert finding.connections == ["quic-1", "tcp-1"]
    assert {row.frame for row in finding.evidence} == {1, 2, 3, 4}


@pytest.mark.parametrize(
    ("after", "reason", "timer", "setting"),
    [
        (2.75, b"", "2750 ms direct timer", "-Djdk.httpclient.http3.maxDirectConnectionTimeout"),
        (
            30.0,
            b"No response from peer for 30 seconds",
            "30 s timer",
            "-Djdk.httpclient.quic.maxInitialTimeout",
        ),
    ],
)
def test_the_clients_timer_is_named(after: float, reason: bytes, timer: str, setting: str) -> None:
    """The wait of a known client is explained by its timer, and the advice names the setting."""
    network = Network()
    gives_up(network.quic(software=JDK), after=after, reason=reason)
    network.tcp(software=JDK).connects(after + 0.03)
    finding = network.explain().the(RULE)
    assert timer in finding.summary
    assert setting in finding.advice


def test_an_unknown_clients_timer_is_not_invented() -> None:
    """The same wait of a client that nobody knows has no name."""
    network = Network()
    gives_up(network.quic())
    network.tcp().connects(2.78)
    finding = network.explain().the(RULE)
    assert "timer" not in finding.summary
    assert "jdk" not in finding.advice


def test_a_syn_before_the_clients_close_is_a_fallback_all_the_same() -> None:
    """The JDK's SYN may leave some milliseconds before the close of the attempt that it replaces."""
    network = Network()
    gives_up(network.quic(software=JDK), after=30.01)
    network.tcp(software=JDK).connects(30.0)
    assert network.explain().the(RULE).cost == pytest.approx(30.0)


def test_a_short_wait_is_a_notice() -> None:
    """A fallback after a wait that few notice is told, and no problem."""
    network = Network()
    quic = network.quic(software=CURL)
    quic.initials(0.0)
    quic.unreachable(0.31)
    network.tcp(software=CURL).connects(0.35)
    assert network.explain().the(RULE).severity == "notice"


def test_a_syn_within_the_head_start_is_no_fallback() -> None:
    """A client that races starts TCP that soon whether QUIC failed or not."""
    network = Network()
    quic = network.quic()
    quic.initials(0.0)
    quic.close(0.4, 0)
    network.tcp().connects(0.5)
    assert network.explain().found(RULE) == []


def test_a_race_is_no_fallback() -> None:
    """A SYN within the head start is the other side of a race."""
    network = Network()
    network.quic(software=CURL).initials(0.0, 1.0)
    network.tcp(software=CURL).connects(0.2)
    explained = network.explain()
    assert explained.found(RULE) == []
    assert len(explained.races) == 1


def test_a_later_syn_is_no_race_even_when_the_close_is_later_still() -> None:
    """A SYN after the head start is a fallback, though QUIC was still being tried."""
    network = Network()
    network.quic().initials(0.0, 1.0, 3.0)
    network.tcp().connects(2.0)
    explained = network.explain()
    assert explained.races == []
    assert explained.the(RULE).cost == pytest.approx(2.0)


def test_an_attempt_that_died_long_before_explains_no_syn() -> None:
    """A SYN of minutes later is another request's."""
    network = Network()
    gives_up(network.quic())
    network.tcp().connects(200.0)
    assert network.explain().found(RULE) == []


def test_an_attempt_that_fell_silent_long_before_explains_no_syn() -> None:
    """The same where no close was seen: the client's own doubling timer had long run out."""
    network = Network()
    network.quic().initials(0.0, 1.0)
    network.tcp().connects(40.0)
    assert network.explain().found(RULE) == []


def test_a_connection_beside_a_working_one_is_no_fallback() -> None:
    """A SYN after QUIC was ready (a preconnect, another tab) waited for nothing."""
    network = Network()
    network.quic().connects(0.0)
    network.tcp().connects(5.0)
    assert network.explain().found(RULE) == []


def test_quic_under_way_before_the_capture_explains_nothing() -> None:
    """The start of a QUIC connection that the capture missed is no first Initial."""
    network = Network()
    quic = network.quic()
    quic.connects(0.0)
    quic.response(10.0)
    network.tcp().connects(12.0)
    assert network.explain(seen=lambda packet: packet.at > 1.0).found(RULE) == []


def test_another_name_on_a_shared_address_is_another_origin() -> None:
    """A CDN's address serves many names: one's failed QUIC is not another one's fallback."""
    network = Network()
    gives_up(network.quic(sni="one.example"))
    network.tcp(sni="two.example").connects(2.78)
    explained = network.explain()
    assert explained.found(RULE) == []
    assert len(explained.verdicts) == 2


def test_another_programs_syn_is_no_fallback() -> None:
    """On one host, another process's connection to the same origin has nothing to do with the attempt."""
    network = Network()
    quic, tcp = network.quic(), network.tcp()
    gives_up(quic)
    tcp.connects(2.78)
    network.owns(0.001, quic, 100, "browser")
    network.owns(2.781, tcp, 200, "updater")
    explained = network.explain()
    assert explained.found(RULE) == []
    assert len(explained.verdicts) == 2


def test_other_software_is_another_client() -> None:
    """Without processes, fingerprints of two clients keep them apart."""
    network = Network()
    gives_up(network.quic(software=CURL))
    network.tcp(software=JDK).connects(2.78)
    assert network.explain().found(RULE) == []


def test_another_host_is_another_client() -> None:
    """A neighbour's SYN to the same server is no fallback of ours."""
    network = Network()
    gives_up(network.quic())
    network.tcp(client="192.0.2.11").connects(2.78)
    assert network.explain().found(RULE) == []


def test_a_second_quic_attempt_takes_the_blame() -> None:
    """With two attempts before the SYN, the wait that led to it is the second one's."""
    network = Network()
    quic = network.quic()
    gives_up(quic)
    quic.again()
    gives_up(quic, at=10.0)
    network.tcp().connects(12.8)
    finding = network.explain().the(RULE)
    assert finding.connections == ["quic-2", "tcp-1"]
    assert finding.cost == pytest.approx(2.8)


def test_a_late_quic_is_not_said_to_have_failed() -> None:
    """A server that answers after the fallback began did not deny the client a connection."""
    network = Network()
    quic = network.quic()
    quic.initials(0.0, 1.0)
    quic.completes(3.0)
    network.tcp().connects(2.0)
    finding = network.explain().the(RULE)
    assert finding.cost == pytest.approx(2.0)
    assert "did not lead to a connection" not in finding.summary


def test_each_fallback_is_one_finding() -> None:
    """Attempts at two addresses before one SYN cost that request the longest wait, once."""
    network = Network()
    gives_up(network.quic(server="198.51.100.1"))
    gives_up(network.quic(server="198.51.100.2"), at=0.3)
    network.tcp().connects(3.1)
    assert network.explain().the(RULE).cost == pytest.approx(3.1)


def test_an_attempt_of_which_only_the_close_was_sent_is_not_called_initial() -> None:
    """Where the only Initial holds the close, the time until the SYN is not what was waited."""
    network = Network()
    network.quic(software=JDK).close(0.0, 0xC)
    network.tcp(software=JDK).connects(0.03)
    assert network.explain().found(RULE) == []


def test_a_version_that_nobody_can_read_explains_nothing() -> None:
    """A gQUIC connection may well have worked: a SYN beside it is no fallback, and QUIC did not fail."""
    network = Network()
    quic = network.quic()
    quic.datagram(0.0, "client", b"\xc3Q050\x08" + bytes(8) + b"\x00" + bytes(1200))
    quic.datagram(0.02, "server", b"\xc3Q050\x00\x08" + bytes(8) + bytes(1000))
    network.tcp().connects(1.5)
    explained = network.explain()
    assert explained.findings == []
    assert "not HTTP/3" not in explained.sentence
    assert "Q050" in explained.sentence


def test_another_socket_beside_tcp_in_use_is_no_fallback() -> None:
    """A browser whose requests go on over TCP, with QUIC tried in the background, opens one more connection."""
    network = Network()
    tcp = network.tcp(software=CHROMIUM)
    tcp.connects(-1.0)
    network.quic(software=CHROMIUM).initials(0.0, 0.3, 0.9, 2.1)
    for number in range(20):
        tcp.exchanges(number / 5)
    network.tcp().connects(2.0)
    assert network.explain().found(RULE) == []


def test_two_timeouts_are_counted_once() -> None:
    """A request that waits out two timeouts, and goes on over TCP then, has its seconds at the rule for that."""
    network = Network()
    quic = network.quic(software=JDK)
    for at in (0.0, 29.99):
        gives_up(quic, at, 30.0, b"No response from peer for 30 seconds")
        quic.again()
    network.tcp(software=JDK).connects(60.01)
    explained = network.explain()
    assert explained.the("repeated-timeout").cost == pytest.approx(59.99)
    finding = explained.the(RULE)
    assert (finding.severity, finding.cost) == ("problem", None)


@pytest.mark.parametrize("completes", [True, False])
def test_an_answer_after_the_fallback_is_a_late_one(*, completes: bool) -> None:
    """The server did answer: finding and verdict say when, and not that it did not."""
    network = Network()
    quic = network.quic()
    quic.initials(0.0, 1.0)
    network.tcp().connects(3.0)
    quic.initial(3.1)
    quic.answers(3.5)
    if completes:
        quic.completes(3.51)
    explained = network.explain()
    finding = explained.the("fallback-delay")
    assert "the first Initial, which was answered only after 3.50 s" in finding.summary
    assert "too late" in finding.advice
    assert "QUIC was answered only after 3.50 s" in explained.sentence
