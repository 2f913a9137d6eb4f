from __future__ import annotations

from typing import Any

import pytest

from tests.diagnose.scenario import CURL, JDK, Network, Quic, Tcp

RULE = "stuck-on-quic"
ERROR = "java.net.http.HttpConnectTimeoutException: quic connect timeout"
LOCAL: dict[str, Any] = {"origin": "https://localhost:443", "url": "https://localhost/"}


def attempt(quic: Quic, at: float, lasts: float = 2.0) -> None:
    """An attempt that something else than the client's own timers ends."""
    quic.initials(at, at + 1.0)
    quic.close(at + lasts, 0xC)


def outage(network: Network, starts: tuple[float, ...] = (0.3, 2.31, 4.32)) -> tuple[Tcp, Quic]:
    """A request over TCP, and one after the other that only tries QUIC."""
    tcp = network.tcp(sni="localhost", software=JDK)
    tcp.connects(0.0)
    quic = network.quic(sni="localhost", software=JDK, psk=True)
    for number, at in enumerate(starts):
        if number:
            quic.again()
        attempt(quic, at)
    return tcp, quic


def test_an_outage_is_told() -> None:
    """Three in a row, TCP at hand: a problem, its cost all the waits together, and the setting that helps."""
    network = Network()
    outage(network)
    said = network.explain()
    finding = said.the(RULE)
    assert finding.severity == "problem"
    assert finding.cost == pytest.approx(6.0)
    assert "3 QUIC attempts in a row" in finding.summary
    assert "connectTimeout" in finding.summary
    assert "-Djdk.httpclient.quic.maxInitialTimeout" in finding.advice
    assert finding.connections == ["quic-1", "quic-2", "quic-3"]
    assert said.summary.exit_status == 1
    assert "3 attempts over QUIC in a row, 6.00 s in all, led to nothing while TCP was left unused." in said.sentence
    assert said.found("repeated-timeout") == []


def test_the_cost_is_stated_once() -> None:
    """No other finding has the same seconds."""
    network = Network()
    outage(network)
    assert [f.rule for f in network.explain().findings if f.cost is not None] == [RULE]


def test_two_are_enough_with_the_clients_word() -> None:
    """Each attempt ended a request, by the client's log: nobody needs a third one."""
    for told in (True, False):
        network = Network()
        _, quic = outage(network, ())
        for began, ended in ((0.3, 2.3), (2.31, 4.31)):
            attempt(quic, began)
            if told:
                network.told(ended, quic, None, began=began, scid=quic.client_scid, error=ERROR, **LOCAL)
            quic.again()
        found = network.explain().found(RULE)
        assert len(found) == told
        for finding in found:
            assert "2 requests in a row failed" in finding.summary
            assert ERROR in finding.summary


def test_a_second_try_of_one_request_is_none() -> None:
    """Two attempts may be one request's own."""
    network = Network()
    outage(network, (0.3, 2.31))
    assert network.explain().found(RULE) == []


def test_tcp_between_is_a_way_out() -> None:
    """A SYN, or an answer on the connection that is open, shows that requests get through."""
    network = Network()
    outage(network)
    network.tcp(sni="localhost", software=JDK).connects(3.0)
    assert network.explain().found(RULE) == []
    network = Network()
    tcp, _ = outage(network)
    tcp.exchanges(3.0)
    assert network.explain().found(RULE) == []


def test_a_fallback_at_the_end_takes_the_last_one_out() -> None:
    """What TCP takes over has not failed."""
    network = Network()
    outage(network)
    network.tcp(sni="localhost", software=JDK).connects(6.4)
    assert network.explain().found(RULE) == []
    network = Network()
    outage(network, (0.3, 2.31, 4.32, 6.33))
    network.tcp(sni="localhost", software=JDK).connects(8.4)
    assert network.explain().the(RULE).cost == pytest.approx(6.0)


def test_a_client_that_is_started_again_is_none() -> None:
    """Programs one after the other, each with a socket of its own, are not one client that is stuck."""
    network = Network()
    network.tcp(sni="localhost", software=JDK).connects(0.0)
    for at in (0.3, 2.4, 4.5, 6.6):
        attempt(network.quic(sni="localhost", software=JDK, psk=True), at)
    assert network.explain().found(RULE) == []


def test_one_process_with_several_sockets_is_one_client() -> None:
    """Where the process is known the port does not matter; where they are two, they are two."""
    for pids, found in (((7, 7, 7), 1), ((7, 8, 9), 0)):
        network = Network()
        tcp = network.tcp(sni="localhost", software=JDK)
        tcp.connects(0.0)
        network.owns(0.01, tcp, 7, "java")
        for pid, at in zip(pids, (0.3, 2.4, 4.5), strict=True):
            quic = network.quic(sni="localhost", software=JDK, psk=True)
            attempt(quic, at)
            network.owns(at + 0.01, quic, pid, "java")
        assert len(network.explain().found(RULE)) == found


def test_clients_at_work_at_once_are_none() -> None:
    """Attempts side by side are several clients' or several requests', not one after the other."""
    network = Network()
    network.tcp(sni="localhost", software=JDK).connects(0.0)
    for at in (0.3, 0.5, 0.7):
        attempt(network.quic(sni="localhost", software=JDK, psk=True), at)
    assert network.explain().found(RULE) == []


def test_without_a_record_it_is_another_matter() -> None:
    """A client that was told to use HTTP/3 only tries nothing else, and is not stuck."""
    for sni, software in ((None, JDK), ("example.org", JDK), ("localhost", CURL)):
        network = Network()
        network.tcp(sni=sni or "localhost", software=software).connects(0.0)
        quic = network.quic(sni=sni, software=software)
        for at in (0.3, 2.31, 4.32):
            attempt(quic, at)
            quic.again()
        assert network.explain().found(RULE) == []


def test_tcp_that_never_worked_is_not_at_hand() -> None:
    """A server that is down is down."""
    network = Network()
    tcp = network.tcp(sni="localhost", software=JDK)
    tcp.syn(0.0)
    tcp.refuse(0.01)
    quic = network.quic(sni="localhost", software=JDK, psk=True)
    for at in (0.3, 2.31, 4.32):
        attempt(quic, at)
        quic.again()
    assert network.explain().found(RULE) == []


def test_lost_closes_prove_nothing() -> None:
    """An attempt whose end was not seen may have been given up for TCP, in packets that were lost."""
    network = Network()
    network.tcp(sni="localhost", software=JDK).connects(0.0)
    quic = network.quic(sni="localhost", software=JDK, psk=True)
    for at in (0.3, 2.31, 4.32):
        quic.initials(at, at + 1.0)
        quic.again()
    assert network.explain().found(RULE) == []


def test_the_clients_word_that_they_were_answered_counts_more() -> None:
    """Requests that the log gives an answer did not fail, whatever the wire looks like."""
    network = Network()
    _, quic = outage(network)
    network.told(6.5, quic, "HTTP/3", began=4.4, scid=quic.client_scid, **LOCAL)
    assert network.explain().found(RULE) == []


def test_another_server_is_another_run() -> None:
    """Three attempts at three places are no run at one."""
    network = Network()
    network.tcp(sni="localhost", software=JDK).connects(0.0)
    for number, at in enumerate((0.3, 2.31, 4.32)):
        server = f"198.51.100.{number + 1}"
        attempt(network.quic(sni="localhost", software=JDK, psk=True, server=server, client_port=50_500), at)
    assert network.explain().found(RULE) == []


def test_a_rest_ends_a_run() -> None:
    """What was told of a run stands when, a minute later, another one begins."""
    network = Network()
    outage(network, (0.3, 2.31, 4.32, 70.0, 72.1, 74.2))
    assert [finding.connections for finding in network.explain().found(RULE)] == [
        ["quic-1", "quic-2", "quic-3"],
        ["quic-4", "quic-5", "quic-6"],
    ]
