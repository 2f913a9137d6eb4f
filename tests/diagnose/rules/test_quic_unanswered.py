from __future__ import annotations

import pytest

from h3probe.events import Frame
from tests.diagnose.scenario import CLIENT6, CURL, JDK, SERVER6, STATION, Network, Packet, explain

RULE = "quic-unanswered"


def test_silence_is_reported_with_what_was_sent() -> None:
    """Initials that nothing answers are counted, timed and named by their frames."""
    network = Network()
    network.dns(0.0, "example.org", "198.51.100.1")
    network.quic().initials(0.0, 1.0, 3.0, 7.0)
    finding = network.explain().the(RULE)
    assert finding.severity == "problem"
    assert finding.summary.startswith("4 Initials over 7.00 s to 198.51.100.1:443")
    assert [row.frame for row in finding.evidence] == [2, 3, 4, 5]
    assert finding.connections == ["quic-1"]
    assert finding.cost is None


@pytest.mark.parametrize(
    ("waited", "reason", "timer", "setting"),
    [
        (2.75, b"", "2750 ms", "maxDirectConnectionTimeout"),
        (30.0, b"No response from peer for 30 seconds", "30 s", "maxInitialTimeout"),
    ],
)
def test_the_timer_that_ended_it_is_named(waited: float, reason: bytes, timer: str, setting: str) -> None:
    """A known client that gives up when one of its timers runs out has that timer named, with its setting."""
    network = Network()
    quic = network.quic(software=JDK)
    quic.initials(0.0, 1.0)
    quic.close(waited, 0xC, reason)
    assert f"JDK 26 HttpClient: its {timer} " in network.explain().the(RULE).summary
    assert setting in network.explain().the(RULE).summary


def test_a_close_that_gives_another_reason_is_no_timers() -> None:
    """An application that gives up after 30 s says something else, or nothing."""
    network = Network()
    quic = network.quic(software=JDK)
    quic.initials(0.0, 1.0)
    quic.close(30.0, 0xC, b"request cancelled")
    assert "timer" not in network.explain().the(RULE).summary


def test_a_wait_that_is_no_timer_is_not_named() -> None:
    """A known client that gives up at another time (a connectTimeout of 2 s) gets no timer ascribed."""
    network = Network()
    quic = network.quic(software=JDK)
    quic.initials(0.0, 1.0)
    quic.close(2.0, 0xC)
    summary = network.explain().the(RULE).summary
    assert "gave up after 2.00 s" in summary
    assert "timer" not in summary


def test_attempts_that_cost_the_same_are_one_finding() -> None:
    """Two attempts of one story that failed alike are told once, with both connections."""
    network = Network()
    network.quic(software=CURL).initials(0.0, 1.0)
    network.quic(software=CURL, server=SERVER6, client=CLIENT6).initials(0.2, 1.2)
    network.stations = {"192.0.2.10": STATION, CLIENT6: STATION}
    finding = network.explain().the(RULE)
    assert finding.connections == ["quic-1", "quic-2"]
    assert finding.summary.startswith("2 attempts, 2 Initials over 1.00 s each, to ")


def test_of_many_attempts_what_they_have_in_common_is_told_once() -> None:
    """How many there were, what each sent, and a timer once, though each attempt waited some milliseconds otherwise."""
    network = Network()
    for number in range(4):
        quic = network.quic(software=JDK)
        quic.initials(*(40.0 * number + at for at in (0.0, 1.0, 3.0, 7.0)))
        quic.close(40.0 * number + 29.9 + 0.05 * number, 0xC, b"No response from peer for 30 seconds")
    summary = network.explain().the(RULE).summary
    assert summary.startswith("4 attempts, 4 Initials over 30.1 s each, to 198.51.100.1:443: no datagram")
    assert "gave up after 30.1 s (JDK 26 HttpClient: its 30 s timer" in summary
    assert summary.count("maxInitialTimeout") == 1


def test_attempts_that_differ_are_told_by_their_bounds() -> None:
    """The fewest and the most that one of them sent, and the shortest and the longest wait."""
    network = Network()
    network.quic(software=CURL).initials(0.0, 2.0)
    network.quic(software=CURL).initials(1.0, 2.0, 4.0, 8.0)
    assert network.explain().the(RULE).summary.startswith("2 attempts, 2 to 4 Initials over 2.00 s to 7.00 s each, to ")


def test_a_fallback_after_a_noticeable_wait_is_a_problem() -> None:
    """A request that reached TCP only after more than a second had a problem."""
    network = Network()
    quic = network.quic(software=JDK)
    quic.initials(0.0, 1.0)
    quic.close(2.75, 0xC)
    network.tcp(software=JDK).connects(2.78)
    assert network.explain().the(RULE).severity == "problem"


def test_a_raced_tcp_makes_it_a_notice() -> None:
    """Where TCP raced, nobody waited for the silent QUIC."""
    network = Network()
    network.quic().initials(0.0, 1.0, 3.0)
    network.tcp().connects(0.05)
    assert network.explain().the(RULE).severity == "notice"


def test_an_open_tcp_connection_makes_it_a_notice() -> None:
    """Where a TCP connection was open when the attempt began, requests had a way."""
    network = Network()
    tcp = network.tcp()
    tcp.connects(0.0)
    network.quic().initials(5.0, 6.0, 8.0)
    tcp.exchanges(6.5)
    assert network.explain().the(RULE).severity == "notice"


def test_one_that_answers_over_the_other_family_makes_it_harmless() -> None:
    """An attempt over IPv6 that stays silent beside one over IPv4 that is ready at once is information."""
    network = Network(stations={"192.0.2.10": STATION, CLIENT6: STATION})
    network.quic(client=CLIENT6, server=SERVER6).initials(0.0, 1.0)
    network.quic().connects(0.25)
    assert network.explain().the(RULE).severity == "info"


def test_a_one_sided_capture_weakens_it() -> None:
    """Where no packet to the client is captured at all, the silence may be the capture's, and it says so."""
    network = Network()
    network.quic().initials(0.0, 1.0, 3.0)
    network.tcp().syn(0.1)
    finding = network.explain().the(RULE)
    assert finding.severity == "notice"
    assert "one direction" in finding.summary


def test_an_answer_that_only_the_client_saw_is_an_answer() -> None:
    """In a capture of one direction, Initials that acknowledge something were answered."""
    network = Network()
    quic = network.quic()
    quic.initial(0.0)
    quic.answers(0.02)
    quic.acknowledges(0.03)
    quic.initials(1.0, 2.0)
    explained = network.explain(seen=lambda packet: packet.by == "client")
    assert explained.found(RULE) == []


@pytest.mark.parametrize("by", ["server", "router"])
def test_any_answer_keeps_it_quiet(by: str) -> None:
    """A datagram from the server, or an ICMP error, is an answer."""
    network = Network()
    quic = network.quic()
    quic.initials(0.0, 1.0)
    if by == "server":
        quic.answers(1.5)
    else:
        quic.unreachable(0.001)
    assert network.explain().found(RULE) == []


def test_a_retry_is_an_answer() -> None:
    """A server that asks for the address to be proven, and then is silent, has answered."""
    network = Network()
    quic = network.quic()
    quic.initial(0.0)
    quic.retry(0.02)
    quic.initials(0.03, 1.0, 3.0)
    assert network.explain().found(RULE) == []


def test_a_capture_that_ends_too_early_says_nothing() -> None:
    """One Initial just before the end of the capture, or one and then silence, proves nothing."""
    network = Network()
    network.quic().initial(0.0)
    assert network.explain().findings == []
    network.bystander(30.0)
    assert network.explain().found(RULE) == []


def test_parts_of_one_hello_are_no_repetition() -> None:
    """A ClientHello in two datagrams, sent together, is one try and not two."""
    network = Network()
    network.quic().initial_in_two(0.0)
    network.bystander(5.0)
    assert network.explain().found(RULE) == []


def test_a_capture_that_starts_late_says_nothing() -> None:
    """Of a connection whose handshake came before the capture no silence can be claimed."""
    network = Network()
    quic = network.quic()
    quic.connects(0.0)
    for at in (5.0, 6.0, 8.0):
        quic.request(at)

    def late(packet: Packet) -> bool:
        return packet.at > 1.0

    assert network.explain(seen=late).found(RULE) == []


def test_an_initial_that_holds_only_a_close_is_no_attempt() -> None:
    """A client whose only Initial is its CONNECTION_CLOSE never asked for anything."""
    network = Network()
    network.quic(software=JDK).close(0.0, 0xC)
    network.bystander(5.0)
    explained = network.explain()
    assert explained.found(RULE) == []
    assert explained.quic[0].initials_sent == 0


def test_dns_over_quic_is_nobodys_http3() -> None:
    """A resolver that does not answer DNS over QUIC is no matter of HTTP versions."""
    network = Network()
    network.quic(port=853, alpn=("doq",), sni="dns.example").initials(0.0, 1.0, 3.0, 7.0)
    network.tcp(port=853, alpn=("dot",), sni="dns.example").connects(7.5)
    explained = network.explain()
    assert explained.findings == []
    assert explained.verdicts == []


def test_a_second_attempt_at_the_same_address_is_no_twin() -> None:
    """A retry that succeeds three seconds later does not make those three seconds harmless."""
    network = Network()
    quic = network.quic()
    quic.initials(0.0, 1.0)
    quic.close(3.0, 0)
    quic.again()
    quic.connects(3.01)
    assert network.explain().the(RULE).severity != "info"


@pytest.mark.parametrize(
    ("code", "said", "words"),
    [
        ((3, 4), "fragmentation needed", "1200 bytes"),
        ((11, 0), "time to live exceeded", "go in circles"),
        ((4, 0), "source quench", "dropped without a word"),
    ],
)
def test_an_icmp_error_that_refuses_nothing_is_told(code: tuple[int, int], said: str, words: str) -> None:
    """It came back, and says why nothing else did."""
    network = Network()
    quic = network.quic()
    quic.initial(0.0)
    quic.unreachable(0.01, code=code, sender="192.0.2.1")
    quic.initials(1.0, 3.0)
    finding = network.explain().the(RULE)
    assert "no datagram came back, and ICMP says: " + said in finding.summary
    assert finding.summary.endswith("from 192.0.2.1.")
    assert words in finding.advice
    assert 2 in {row.frame for row in finding.evidence}


def test_initials_that_a_snaplen_cut_are_counted() -> None:
    """What they hold cannot be read, and that nothing answers them is seen all the same."""
    network = Network()
    network.dns(0.0, "example.org", "198.51.100.1")
    network.quic().initials(0.0, 1.0, 3.0)
    frames = [event for event in network.events() if isinstance(event, Frame)]
    explained = explain(Frame(f.number, f.time_ns, f.link_type, f.data[:96], f.length) for f in frames)
    assert explained.quic[0].outcome == "unanswered"
    assert explained.the(RULE).summary.startswith("3 Initials over 3.00 s")


def test_tcp_that_failed_as_well_leaves_nothing_to_wait_for() -> None:
    """A client that has gone on to TCP, and was refused there, has lost its request."""
    network = Network()
    network.quic().initials(0.0, 1.0, 3.0)
    tcp = network.tcp()
    tcp.syn(4.0)
    tcp.refuse(4.02)
    assert network.explain().the(RULE).severity == "problem"
