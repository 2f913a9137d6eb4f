from __future__ import annotations

import pytest

from h3probe.diagnose.rules.socket_fan_out import LEAST
from tests.diagnose.scenario import CHROMIUM, CLIENT, FIREFOX, JDK, Network, Software

RULE = "socket-fan-out"


def crowd(network: Network, number: int = LEAST, apart: float = 0.01, *, software: Software = JDK) -> None:
    """Connections that all live for a while."""
    for index in range(number):
        quic = network.quic(software=software)
        quic.connects(index * apart)
        quic.request(10.0 + index * apart)


def test_a_crowd_is_told() -> None:
    """How many at once, from how many ports, and within which time."""
    network = Network()
    crowd(network, 40)
    finding = network.explain().the(RULE)
    assert finding.severity == "info"
    assert "40 QUIC connections" in finding.summary
    assert "40 UDP ports" in finding.summary
    assert "390 ms" in finding.summary
    assert "Whether one program made them all" in finding.summary
    assert "share one client object" in finding.advice
    assert finding.cost is None


def test_a_process_is_one_program() -> None:
    """Where all of them are one process's, nothing is left open."""
    network = Network()
    for index in range(LEAST):
        quic = network.quic(software=JDK)
        quic.connects(index * 0.01)
        quic.request(10.0)
        network.owns(0.5, quic, 7, "java")
    summary = network.explain().the(RULE).summary
    assert "java[7]" in summary
    assert "Whether" not in summary


def test_processes_are_counted_apart() -> None:
    """Programs side by side have one connection each."""
    network = Network()
    for index in range(LEAST):
        quic = network.quic(software=JDK)
        quic.connects(index * 0.01)
        quic.request(10.0)
        network.owns(0.5, quic, 7 + index, "curl")
    assert network.explain().found(RULE) == []


def test_some_that_fail_make_it_a_notice() -> None:
    """HTTP/3 was tried and not had."""
    network = Network()
    crowd(network, LEAST)
    late = network.quic(software=JDK)
    late.initials(0.5, 1.5, 3.5)
    late.close(10.5, 0xC)
    finding = network.explain().the(RULE)
    assert finding.severity == "notice"
    assert "1 of them failed" in finding.summary


@pytest.mark.parametrize("software", [CHROMIUM, FIREFOX])
def test_a_browsers_tabs_are_none(software: Software) -> None:
    """A few more connections than one: private windows, profiles, two address families."""
    network = Network()
    crowd(network, LEAST - 1, software=software)
    assert network.explain().found(RULE) == []


def test_one_after_the_other_are_none() -> None:
    """A program that opens and closes connections in turn has one at a time."""
    network = Network()
    for index in range(3 * LEAST):
        network.quic(software=JDK).connects(index * 1.0)
    assert network.explain().found(RULE) == []


def test_many_origins_are_none() -> None:
    """A page of many hosts needs a connection to each."""
    network = Network()
    for index in range(2 * LEAST):
        quic = network.quic(software=CHROMIUM, sni=f"host{index}.example.org")
        quic.connects(index * 0.01)
        quic.request(10.0)
    assert network.explain().found(RULE) == []


def test_many_clients_are_none() -> None:
    """A capture at the server shows many clients, and each has its one connection."""
    network = Network()
    for index in range(2 * LEAST):
        quic = network.quic(software=JDK, client=f"192.0.2.{index + 20}")
        quic.connects(index * 0.01)
        quic.request(10.0)
    assert network.explain().found(RULE) == []


def test_software_of_several_kinds_is_several_clients() -> None:
    """Behind one address may be many hosts; what looks unlike is not one program's."""
    network = Network()
    for software in (JDK, CHROMIUM, FIREFOX):
        crowd(network, LEAST - 4, software=software)
    assert network.explain().found(RULE) == []


def test_one_that_moves_is_one() -> None:
    """A connection that goes on from other ports is still one."""
    network = Network()
    quic = network.quic(software=CHROMIUM)
    quic.connects(0.0)
    for index in range(2 * LEAST):
        quic.client_port = 51_000 + index
        quic.request(1.0 + index * 0.1)
    assert network.explain().found(RULE) == []


def test_hidden_names_are_not_one_origin() -> None:
    """With Encrypted Client Hello nobody can tell to which origins they are."""
    network = Network()
    for index in range(LEAST):
        quic = network.quic(software=CHROMIUM, sni="cloudflare-ech.com", ech=True)
        quic.connects(index * 0.01)
        quic.request(10.0)
    assert network.explain().found(RULE) == []


def test_dns_over_quic_is_none() -> None:
    """It is nobody's HTTP."""
    network = Network()
    for index in range(LEAST):
        quic = network.quic(alpn=("doq",))
        quic.connects(index * 0.01)
        quic.request(10.0)
    assert network.explain().found(RULE) == []


def test_a_capture_that_began_late_counts_only_what_began_in_it() -> None:
    """Connections whose start is missing may be parts of one."""
    network = Network()
    crowd(network)
    assert network.explain(seen=lambda packet: packet.at > 5.0).found(RULE) == []


def test_a_very_long_story_is_counted_as_a_whole() -> None:
    """More at once than are looked at together otherwise: the count is still the whole one."""
    network = Network()
    crowd(network, 600, 0.001)
    finding = network.explain().the(RULE)
    assert "600 QUIC connections" in finding.summary


def test_another_time_is_another_finding() -> None:
    """What was told of one time stands when it happens again after a rest."""
    network = Network()
    crowd(network)
    network.delay(100.0)
    crowd(network)
    first, second = network.explain().found(RULE)
    assert set(first.connections).isdisjoint(second.connections)
    assert CLIENT in first.summary


def test_the_most_at_once_are_counted() -> None:
    """Not those that were there before or came after the moment at which there were the most."""
    network = Network()
    for began, ended in [(0.0, 2.0)] * 5 + [(1.0, 9.0)] * 10 + [(5.0, 9.0)] * 3 + [(10.0, 11.0)] * 4:
        quic = network.quic(software=JDK)
        quic.connects(began)
        quic.request(ended)
    assert "15 QUIC connections" in network.explain().the(RULE).summary
