from __future__ import annotations

import pytest

from tests.diagnose.scenario import CHROMIUM, CURL, JDK, STRANGER, Network, Quic

RULE = "repeated-timeout"
REASON = b"No response from peer for 30 seconds"


def waits(quic: Quic, at: float, *, closes: bool = True) -> None:
    """A JDK's attempt that runs into its 30 s timer."""
    quic.initials(*(at + after for after in (0.0, 1.0, 3.0, 7.0, 15.0)))
    if closes:
        quic.close(at + 30.0, 0xC, REASON)


def test_two_timeouts_of_one_request_are_told() -> None:
    """The 60 s of HTTP_3_URI_ONLY are explained: two attempts, the new DCID, the port, the reason, both settings."""
    network = Network()
    quic = network.quic(software=JDK)
    waits(quic, 0.0)
    quic.again()
    waits(quic, 29.99)
    finding = network.explain().the(RULE)
    assert finding.severity == "problem"
    assert finding.cost == pytest.approx(59.99)
    assert finding.connections == ["quic-1", "quic-2"]
    for words in ("30.0 s", "new DCID", "the same UDP port", "No response from peer for 30 seconds"):
        assert words in finding.summary
    for setting in ("-Djdk.httpclient.disableRetryConnect=true", "-Djdk.httpclient.quic.maxInitialTimeout"):
        assert setting in finding.advice


def test_a_second_attempt_that_the_capture_cuts_short_is_told_as_far_as_seen() -> None:
    """Where the capture ends in the second attempt, its length is only what was seen."""
    network = Network()
    quic = network.quic(software=JDK)
    waits(quic, 0.0)
    quic.again()
    quic.initials(30.01, 31.01, 33.01, 37.01, 45.01)
    finding = network.explain().the(RULE)
    assert "was seen for 15.0 s" in finding.summary
    assert finding.cost == pytest.approx(45.01)


def test_an_unknown_client_gets_no_setting() -> None:
    """The same from a client that nobody knows is told without anyone's properties."""
    network = Network()
    quic = network.quic(software=STRANGER)
    waits(quic, 0.0)
    quic.again()
    waits(quic, 30.01)
    assert "jdk" not in network.explain().the(RULE).advice


def test_a_quick_second_try_is_none() -> None:
    """A client that tries again after half a second did not wait out a timeout."""
    network = Network()
    quic = network.quic()
    quic.initials(0.0)
    quic.close(0.5, 0)
    quic.again()
    quic.initials(0.51, 1.51)
    assert network.explain().found(RULE) == []


def test_the_next_request_is_another_one() -> None:
    """An attempt that begins seconds after the first one's end belongs to a later request."""
    network = Network()
    quic = network.quic(software=JDK)
    waits(quic, 0.0)
    quic.again()
    waits(quic, 40.0)
    assert network.explain().found(RULE) == []


def test_two_requests_at_a_time_are_none() -> None:
    """Two attempts that overlap are two requests, or two connections of one."""
    network = Network()
    waits(network.quic(software=JDK), 0.0)
    waits(network.quic(software=JDK), 3.0)
    assert network.explain().found(RULE) == []


def test_a_client_that_never_tries_twice_has_two_requests() -> None:
    """Chromium that is forced to use QUIC fails a request after 4 s, and the page's next request begins at once."""
    network = Network()
    for at in (0.0, 4.01):
        quic = network.quic(software=CHROMIUM)
        quic.initials(at, at + 0.3, at + 0.9, at + 2.1)
        quic.close(at + 4.0, 0, b"25:No recent network activity after 4001995us. Timeout:4s")
    assert network.explain().found(RULE) == []


def test_another_address_of_the_same_name_is_none() -> None:
    """A client that goes on to the next address does what it should."""
    network = Network()
    waits(network.quic(software=JDK), 0.0)
    waits(network.quic(software=JDK, server="198.51.100.2"), 30.01)
    assert network.explain().found(RULE) == []


def test_tcp_in_between_is_none() -> None:
    """A request that TCP took over did not wait for the second attempt."""
    network = Network()
    quic = network.quic(software=JDK)
    waits(quic, 0.0)
    network.tcp(software=JDK).connects(30.0)
    quic.again()
    waits(quic, 30.01)
    assert network.explain().found(RULE) == []


def test_an_open_tcp_connection_is_none() -> None:
    """With TCP open, as with a connectTimeout of two seconds after HTTP/2, each attempt is a request of its own."""
    network = Network()
    network.tcp(software=JDK).connects(-5.0)
    quic = network.quic(software=JDK)
    for at in (0.0, 2.01, 4.02):
        quic.initials(at, at + 1.0)
        quic.close(at + 2.0, 0xC)
        quic.again()
        quic.number += 1
    assert network.explain().found(RULE) == []


def test_an_applications_own_timeout_is_none() -> None:
    """A JDK with a connectTimeout of two seconds and no TCP: every attempt is a request that failed by itself."""
    network = Network()
    quic = network.quic(software=JDK)
    for at in (0.0, 2.01, 4.02):
        quic.initials(at, at + 1.0)
        quic.close(at + 2.0, 0xC)
        quic.number += 1
        quic.again()
    assert network.explain().found(RULE) == []


def test_a_shorter_timer_is_known_by_its_reason() -> None:
    """With maxInitialTimeout=3 the JDK says on the wire that it was its timer."""
    network = Network()
    quic = network.quic(software=JDK)
    quic.initials(0.0, 1.0)
    quic.close(3.0, 0xC, b"No response from peer for 3 seconds")
    quic.again()
    quic.initials(3.01, 4.01)
    quic.close(6.01, 0xC, b"No response from peer for 3 seconds")
    finding = network.explain().the(RULE)
    assert "for 3 seconds" in finding.summary
    assert finding.cost == pytest.approx(6.01)


def test_one_program_after_the_other_is_none() -> None:
    """A loop in a shell starts a new client, on a new port, as soon as the last one has failed."""
    network = Network()
    for at in (0.0, 5.1, 10.2):
        quic = network.quic(software=CURL)
        quic.initials(at, at + 1.0, at + 3.0)
        quic.close(at + 5.0, 0)
    assert network.explain().found(RULE) == []


def test_a_new_port_at_once_after_a_stated_timeout_is_the_same_try() -> None:
    """A client that says that it timed out and begins anew within milliseconds has not been started anew."""
    for gap, fires in ((0.01, True), (0.2, False)):
        network = Network()
        waits(network.quic(), 0.0)
        waits(network.quic(), 30.0 + gap)
        assert bool(network.explain().found(RULE)) is fires


def test_one_process_may_change_its_port() -> None:
    """Where the process is known, a new socket does not hide that it is the same one's second try."""
    network = Network()
    one, two = network.quic(), network.quic()
    waits(one, 0.0)
    waits(two, 30.01)
    network.owns(0.5, one, 100, "app")
    network.owns(30.5, two, 100, "app")
    assert network.explain().the(RULE)


def test_a_first_attempt_that_was_answered_is_none() -> None:
    """A stalled or closed attempt did not run into the timer for an answer."""
    network = Network()
    quic = network.quic(software=JDK)
    quic.initial(0.0)
    quic.answers(0.1)
    quic.acknowledges(2.0)
    quic.close(30.0, 0xC)
    quic.again()
    waits(quic, 30.01)
    assert network.explain().found(RULE) == []


def test_a_second_attempt_that_succeeds_is_none() -> None:
    """One timeout is not two."""
    network = Network()
    quic = network.quic(software=JDK)
    waits(quic, 0.0)
    quic.again()
    quic.connects(30.01)
    assert network.explain().found(RULE) == []


def test_two_programs_are_none() -> None:
    """A script that starts one client after the other has one timeout in each."""
    network = Network()
    one, two = network.quic(software=JDK), network.quic(software=JDK)
    waits(one, 0.0)
    waits(two, 30.2)
    network.owns(0.5, one, 100, "java")
    network.owns(30.5, two, 101, "java")
    assert network.explain().found(RULE) == []


def test_without_a_close_only_a_known_timer_joins_two_attempts() -> None:
    """Of two attempts 20 s apart, neither closed, nobody can say that the first had timed out."""
    for second, fires in ((20.0, False), (30.0, True)):
        network = Network()
        quic = network.quic(software=JDK)
        waits(quic, 0.0, closes=False)
        quic.again()
        waits(quic, second, closes=False)
        assert bool(network.explain().found(RULE)) is fires
