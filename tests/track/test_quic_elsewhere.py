from __future__ import annotations

import pytest

from tests.diagnose.scenario import CHROMIUM, CURL, SERVER, Network, Software


@pytest.mark.parametrize("software", [CURL, CHROMIUM])
@pytest.mark.parametrize(("server", "port"), [("198.51.100.9", 443), (SERVER, 4433)])
def test_an_answer_from_where_nobody_asked_is_said_to_be_one(software: Software, server: str, port: int) -> None:
    """It is no connection of its own, and its client not said to have heard nothing."""
    network = Network()
    quic = network.quic(software=software)
    quic.initial(0.0)
    quic.server, quic.port = server, port
    quic.answers(0.02)
    quic.server, quic.port, quic.answered = SERVER, 443, False
    quic.initials(1.0, 3.0)
    network.tcp(software=software).connects(4.0)
    explained = network.explain()
    (record,) = explained.quic
    assert record.outcome == "unanswered"
    assert f"QUIC was answered from {server}:{port} alone, which was not asked" in explained.sentence
    finding = explained.the("quic-unanswered")
    assert f"what came back is from {server}:{port}" in finding.summary
    assert any("an answer from" in evidence.what for evidence in finding.evidence)


def test_an_answer_that_the_client_goes_on_from_is_one() -> None:
    """Where the capture shows other addresses than the client sees, what it does next tells."""
    network = Network()
    quic = network.quic()
    quic.initial(0.0)
    quic.server = "198.51.100.9"
    quic.answers(0.02)
    quic.server_handshake(0.020_1)
    quic.server = SERVER
    quic.client_handshake(0.021)
    quic.request(0.022)
    explained = network.explain()
    (record,) = explained.quic
    assert record.outcome == "established"
    assert "not asked" not in explained.sentence


def test_a_short_connection_id_proves_nothing() -> None:
    """Another connection's packets, to the same socket and an ID that is empty, answer nobody."""
    network = Network()
    one, other = network.quic(software=CHROMIUM), network.quic(software=CHROMIUM, server="198.51.100.9")
    one.initials(0.0, 1.0)
    other.client_port = one.client_port
    other.server_handshake(0.5)
    first, second = network.explain().quic
    assert (first.outcome, second.outcome) == ("unanswered", "mid-stream")


@pytest.mark.parametrize("kind", ["retry", "version negotiation"])
def test_a_retry_from_elsewhere_is_an_answer_too(kind: str) -> None:
    """So is a Version Negotiation; both prove by what they echo that the Initial arrived there."""
    network = Network()
    quic = network.quic()
    quic.initials(0.0, 1.0, 3.0)
    quic.server = "198.51.100.9"
    if kind == "retry":
        quic.retry(0.02)
    else:
        quic.version_negotiation(0.02, 0xFF00_001D)
    assert "what came back is from 198.51.100.9:443" in network.explain().the("quic-unanswered").summary
