from __future__ import annotations

import pytest

from tests.diagnose.scenario import FIREFOX, ROUTER, Network, Quic

RULE = "quic-stalled"


def test_an_answer_that_leads_nowhere_is_told() -> None:
    """An answered handshake that both go on with for a second or more, without an end, has stalled."""
    network = Network()
    quic = network.quic()
    quic.initial(0.0)
    quic.answers(0.03)
    for at in (0.04, 1.0, 3.0, 40.0):
        quic.acknowledges(at)
    finding = network.explain().the(RULE)
    assert finding.severity == "problem"
    assert "answered after 30 ms" in finding.summary
    assert "none of the server's Handshake packets" in finding.summary
    assert 2 in {row.frame for row in finding.evidence}


def test_a_missing_server_hello_is_named() -> None:
    """Handshake packets without the Initial before them show which datagram was lost."""
    network = Network()
    quic = network.quic()
    quic.initial(0.0)
    for at in (0.03, 0.5, 1.5):
        quic.server_handshake(at, size=1100)
    quic.initial(1.6)
    assert "without the Initial that holds the ServerHello" in network.explain().the(RULE).summary


def test_silence_after_a_retry_is_named() -> None:
    """A Retry and then nothing is a stall with a sign of its own."""
    network = Network()
    quic = network.quic()
    quic.initial(0.0)
    quic.retry(0.02)
    quic.initials(0.03, 1.0, 3.0)
    assert "after the Retry nothing more came" in network.explain().the(RULE).summary


def test_small_answers_point_at_the_path() -> None:
    """Only small datagrams came back: both sizes are said, and the conclusion is put as a possibility."""
    network = Network()
    quic = network.quic()
    quic.initial(0.0)
    quic.answers(0.03, size=300)
    quic.acknowledges(0.04)
    quic.initials(1.0, 3.0)
    summary = network.explain().the(RULE).summary
    assert "largest datagram from the server is 300 bytes" in summary
    assert "may be lost" in summary


def test_too_big_is_quoted() -> None:
    """ICMP that a datagram was too big for the path is a sign and an exhibit."""
    network = Network()
    quic = network.quic()
    quic.initial(0.0)
    quic.answers(0.03)
    quic.unreachable(0.04, code=(3, 4), sender=ROUTER)
    quic.initials(1.0, 3.0)
    finding = network.explain().the(RULE)
    assert "too big for the path" in finding.summary
    assert 3 in {row.frame for row in finding.evidence}


def test_the_amplification_limit_is_named() -> None:
    """A server that has sent three times what it received may not send more."""
    network = Network()
    quic = network.quic()
    quic.initial(0.0)
    quic.answers(0.03)
    for at in (0.031, 0.032, 1.5):
        quic.server_handshake(at, size=1150)
    assert "three times" in network.explain().the(RULE).summary


def test_a_one_sided_capture_does_not_blame_the_server() -> None:
    """Where only the client's packets are captured, missing answers are the capture's."""
    network = Network()
    quic = network.quic()
    quic.initial(0.0)
    quic.answers(0.03)
    for at in (0.04, 1.0, 3.0):
        quic.acknowledges(at)
    finding = network.explain(seen=lambda packet: packet.by == "client").the(RULE)
    assert "not in this capture" in finding.summary
    assert finding.severity == "notice"


def test_a_slow_handshake_that_ends_is_none() -> None:
    """Three seconds of loss and then success is no stall."""
    network = Network()
    quic = network.quic()
    quic.initial(0.0)
    quic.answers(0.03)
    quic.initials(1.0, 2.0)
    quic.completes(3.0)
    assert network.explain().found(RULE) == []


def test_a_capture_that_ends_in_the_handshake_says_nothing() -> None:
    """Half a second after the answer the handshake may still be under way."""
    network = Network()
    quic = network.quic()
    quic.initial(0.0)
    quic.answers(0.03)
    quic.acknowledges(0.5)
    assert network.explain().findings == []


def test_a_capture_that_starts_in_the_handshake_says_nothing() -> None:
    """A capture that begins after the ClientHello cannot judge the handshake."""
    network = Network()
    quic = network.quic()
    quic.initial(0.0)
    quic.answers(0.03)
    quic.client_handshake(0.04)
    for at in (0.5, 1.0, 2.0):
        quic.server_handshake(at)
    assert network.explain(seen=lambda packet: packet.at > 0.035).found(RULE) == []


def test_a_client_that_is_gone_did_not_stall() -> None:
    """A process that ended in its handshake (Ctrl-C) leaves a server that repeats itself; the host says so."""
    network = Network()
    quic = network.quic()
    quic.initial(0.0)
    quic.answers(0.03)
    for at in (0.1, 0.3, 0.7, 1.5, 3.1):
        quic.server_handshake(at)
        quic.client_is_gone(at + 0.000_1)
    explained = network.explain()
    assert explained.found(RULE) == []
    assert explained.summary.exit_status == 0


def test_a_close_that_can_be_read_is_another_rules() -> None:
    """A handshake that was ended with words did not stall."""
    network = Network()
    quic = network.quic()
    quic.initial(0.0)
    quic.answers(0.03)
    quic.acknowledges(1.5)
    quic.close(2.0, 0x178)
    assert network.explain().rules == ["quic-closed"]


def test_silence_is_another_rules() -> None:
    """Without an answer nothing can stall."""
    network = Network()
    network.quic().initials(0.0, 1.0, 3.0)
    assert network.explain().found(RULE) == []


@pytest.mark.parametrize("raced", [True, False])
def test_tcp_beside_it_makes_it_a_notice(*, raced: bool) -> None:
    """A request that TCP carried in time lost nothing by it."""
    network = Network()
    network.tcp().connects(0.1 if raced else -3.0)
    quic = network.quic()
    quic.initial(0.0)
    quic.answers(0.03)
    quic.acknowledges(1.5)
    assert network.explain().the(RULE).severity == "notice"


def left(network: Network) -> Quic:
    """A client that answers the server's part of the handshake in packets that are encrypted, and is silent after."""
    quic = network.quic(software=FIREFOX)
    quic.initial(0.0)
    quic.answers(0.01)
    quic.server_handshake(0.011)
    quic.client_handshake(0.02)
    return quic


def test_a_client_that_leaves_without_a_word_that_can_be_read() -> None:
    """Two seconds of silence on both sides are the end of it: whoever waits repeats itself."""
    network = Network()
    left(network)
    network.tcp().connects(0.05)
    network.bystander(2.03)
    explained = network.explain()
    finding = explained.the(RULE)
    assert finding.severity == "notice"
    assert "for 2.01 s after that neither of the two sent anything" in finding.summary
    assert "certificate" in finding.advice
    assert [(race.carried, race.carried_known_from) for race in explained.races] == [("tcp", "inferred")]


@pytest.mark.parametrize("more", ["soon", "far", "server", "client", "lost"])
def test_a_client_that_may_go_on(more: str) -> None:
    """It may, where little time has passed for the path's length, or the server goes on as if it were finished."""
    network = Network()
    if more == "far":
        quic = network.quic()
        quic.initial(0.0)
        quic.answers(0.7)
        quic.server_handshake(0.701)
        quic.client_handshake(0.702)
    else:
        quic = left(network)
    if more == "server":
        quic.response(0.05)
    elif more == "client":
        quic.request(0.05)
    network.bystander(1.5 if more == "soon" else 3.0)
    explained = network.explain(seen=lambda packet: more != "lost" or packet.by != "server")
    assert explained.found(RULE) == []


def test_a_retry_says_nothing_of_sizes() -> None:
    """It is small by nature: that is no sign of large datagrams that are lost."""
    network = Network()
    quic = network.quic()
    quic.initial(0.0)
    quic.retry(0.02)
    quic.initials(0.03, 1.03, 3.03)
    summary = network.explain().the(RULE).summary
    assert "after the Retry nothing more came" in summary
    assert "largest datagram" not in summary


def test_a_server_without_the_finished_has_no_http3() -> None:
    """A client that is ready, and a server that goes on with its handshake: the verdict is the finding's."""
    network = Network()
    quic = network.quic()
    quic.initial(0.0)
    quic.answers(0.02)
    for at in (0.021, 1.0, 2.0, 4.0):
        quic.server_handshake(at)
        quic.client_handshake(at + 0.001)
        quic.request(at + 0.002)
    explained = network.explain()
    assert explained.rules == [RULE]
    assert "the QUIC handshake was answered and did not finish" in explained.sentence
    assert "HTTP/3" not in explained.sentence


def test_an_address_that_is_proven_limits_nothing() -> None:
    """A Handshake packet of the client's lifts the limit (RFC 9000, 8.1); of more the server may be glad."""
    network = Network()
    quic = network.quic()
    quic.initial(0.0)
    quic.answers(0.03)
    quic.client_handshake(0.04)
    for at in (0.031, 0.032, 1.5, 3.0):
        quic.server_handshake(at, size=1150)
    assert "three times" not in network.explain().the(RULE).summary


def test_a_finished_that_does_not_arrive_is_a_sign() -> None:
    """The client sends requests, and the server repeats its handshake."""
    network = Network()
    quic = network.quic()
    quic.connects(0.0)
    network.sent.pop()
    for at in (0.5, 1.5, 3.0):
        quic.server_handshake(at)
        quic.client_handshake(at + 0.001)
    assert "the server repeats its handshake: it lacks the client's last part" in network.explain().the(RULE).summary


def test_acknowledgements_alone_are_a_sign() -> None:
    """Of a server that acknowledges and says no more, the ServerHello is missing."""
    network = Network()
    quic = network.quic()
    quic.initial(0.0)
    quic.server_initial(0.02, b"\x02\x00\x00\x00\x00", size=60)
    quic.initials(1.0, 3.0)
    assert "the server acknowledges, and no ServerHello came" in network.explain().the(RULE).summary
