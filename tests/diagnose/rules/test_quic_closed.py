from __future__ import annotations

from typing import Literal

import pytest

from tests.diagnose.scenario import CLIENT, JDK, Network, Quic

RULE = "quic-closed"
NO_ALPN, UNKNOWN_CA, REFUSED, CANCELLED = 0x178, 0x130, 0x02, 0x0


def begun(network: Network) -> Quic:
    """A connection whose ClientHello was answered, in a capture that hears the client's side too."""
    network.dns(0.0, "example.org", "198.51.100.1", client=CLIENT)
    quic = network.quic()
    quic.initial(0.0)
    return quic


def test_the_servers_reason_is_told() -> None:
    """A close from the server is reported with code, name, reason and what the client had offered."""
    network = Network()
    begun(network).close(0.02, NO_ALPN, b"no\x1b[31m thanks", by="server")
    finding = network.explain().the(RULE)
    assert finding.severity == "problem"
    assert "The server closed QUIC to 198.51.100.1:443 after 20 ms" in finding.summary
    assert "no_application_protocol (0x178)" in finding.summary
    assert "offered h3" in finding.summary
    assert "\x1b" not in finding.summary + "".join(row.what for row in finding.evidence)
    assert "ALPN h3" in finding.advice


@pytest.mark.parametrize(
    ("code", "by", "words"),
    [
        (UNKNOWN_CA, "client", "trust store"),
        (0x170, "server", "HTTP/3 listener"),
        (0x128, "server", "cipher suites"),
        (REFUSED, "server", "limits"),
        (0x0B, "server", "shared key for tokens"),
        (0x0A, "server", "objects to"),
    ],
)
def test_each_code_has_its_advice(code: int, by: str, words: str) -> None:
    """What to do follows from who objects to what."""
    network = Network()
    quic = begun(network)
    if by == "client":
        quic.answers(0.02)
        quic.close(0.03, code)
    else:
        quic.close(0.02, code, by="server")
    finding = network.explain().the(RULE)
    assert words in finding.advice
    assert f"The {by} closed" in finding.summary


def test_the_servers_word_weighs_more() -> None:
    """Where both sides close, the server's code is the reason and the client's an echo."""
    network = Network()
    quic = begun(network)
    quic.close(0.02, REFUSED, by="server")
    quic.close(0.021, CANCELLED)
    assert "The server closed" in network.explain().the(RULE).summary


def test_giving_up_an_unanswered_attempt_is_none() -> None:
    """A client that ends its own unanswered attempt was not closed by anyone."""
    network = Network()
    quic = network.quic(software=JDK)
    quic.initials(0.0, 1.0)
    quic.close(2.75, 0xC, application=True)
    assert network.explain().found(RULE) == []


def test_giving_up_a_refused_attempt_is_none() -> None:
    """The same where ICMP had refused it."""
    network = Network()
    quic = network.quic(software=JDK)
    quic.initials(0.0, 1.0)
    quic.unreachable(0.001)
    quic.close(2.75, 0xC, application=True)
    assert network.explain().found(RULE) == []


def test_the_ordinary_end_of_a_connection_is_none() -> None:
    """A connection that worked may end in whatever way it likes."""
    network = Network()
    quic = network.quic()
    quic.connects(0.0)
    quic.close(5.0, CANCELLED)
    assert network.explain().findings == []


def test_an_encrypted_close_is_not_guessed() -> None:
    """A client that answers the certificate with a Handshake packet and is silent then: nobody can tell why."""
    network = Network()
    quic = begun(network)
    quic.answers(0.02)
    quic.server_handshake(0.021)
    quic.client_handshake(0.03)
    network.bystander(20.0)
    explained = network.explain()
    assert explained.found(RULE) == []
    assert "closed" not in explained.sentence
    assert "The capture ends before" not in explained.sentence


def test_the_loser_of_a_race_that_is_cancelled_costs_nothing() -> None:
    """A client that drops its QUIC attempt because TCP was first has no problem."""
    network = Network()
    quic = begun(network)
    quic.answers(0.2)
    quic.close(0.21, CANCELLED)
    network.tcp().connects(0.05)
    explained = network.explain()
    assert explained.the(RULE).severity == "notice"
    assert explained.summary.exit_status == 0


def test_a_client_that_cancels_says_that_nothing_is_wrong() -> None:
    """NO_ERROR from the client (a page that was left) is no problem, and nobody is told to look for an objection."""
    network = Network()
    quic = begun(network)
    quic.answers(0.02)
    quic.close(0.03, CANCELLED)
    explained = network.explain()
    assert explained.the(RULE).severity == "notice"
    assert "objects" not in explained.the(RULE).advice
    assert explained.summary.exit_status == 0


def test_a_timer_that_ended_an_answered_attempt_is_named() -> None:
    """A JDK whose server answers too late closes at its own timer: that is the reason, not an objection."""
    network = Network()
    quic = network.quic(software=JDK)
    quic.initials(0.0, 1.0)
    quic.answers(2.0)
    quic.acknowledges(2.01)
    quic.close(2.75, 0xC)
    network.tcp(software=JDK).connects(2.78)
    finding = network.explain().the(RULE)
    assert "2750 ms direct timer" in finding.summary
    assert "objects" not in finding.advice
    assert finding.severity == "problem"


def test_an_applications_code_is_no_alert() -> None:
    """HTTP/3 and TLS alerts share numbers: 0x130 in an application's close is no unknown CA."""
    network = Network()
    quic = begun(network)
    quic.close(0.03, UNKNOWN_CA, application=True, by="server")
    assert "trust store" not in network.explain().the(RULE).advice


def test_a_close_from_elsewhere_is_none() -> None:
    """A close that the connection's keys do not open (forged, or another connection's) is no close."""
    network = Network()
    quic = begun(network)
    stranger = network.quic(client_port=quic.client_port)
    stranger.client_scid = quic.client_scid
    stranger.close(0.01, NO_ALPN, by="server")
    quic.completes(0.02)
    assert network.explain().found(RULE) == []


@pytest.mark.parametrize(
    ("code", "by", "words"),
    [
        (UNKNOWN_CA, "server", "the client's certificate"),
        (0x146, "server", "TLS 1.3"),
        (0x12C, "client", "revoked"),
        (0x12D, "client", "by the clock of the side"),
        (0x16D, "server", "transport parameters"),
        (0x0C, "server", "stands for it"),
        (CANCELLED, "server", "without naming an error"),
    ],
)
def test_what_a_code_says_depends_on_who_sends_it(code: int, by: Literal["client", "server"], words: str) -> None:
    """An issuer is distrusted by the side that says so; a code that hides its reason, or has none, has no object."""
    network = Network()
    quic = begun(network)
    if by == "client":
        quic.answers(0.02)
        quic.acknowledges(0.021)
    quic.close(0.03, code, by=by)
    assert words in network.explain().the(RULE).advice
