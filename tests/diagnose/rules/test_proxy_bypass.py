from __future__ import annotations

import pytest

from h3probe.engine import Engine
from h3probe.records import FindingRecord, VerdictRecord
from tests.diagnose.scenario import Network, Tcp

RULE = "proxy-bypass"
PROXY = "192.0.2.3"


def tunnelled(network: Network, host: str = "example.org") -> Tcp:
    """A client that reaches a name through a CONNECT tunnel."""
    tcp = network.tcp(server=PROXY, port=3128, sni=host)
    tcp.asks_proxy(0.0, f"{host}:443")
    tcp.proxy_answers(0.05, 200)
    tcp.gets_ready(0.06)
    tcp.exchanges(0.1)
    return tcp


def test_quic_to_the_same_name_went_past_the_proxy() -> None:
    """CONNECT to a name, and an Initial to it from the same host: a notice with both."""
    network = Network()
    tunnelled(network)
    network.quic().connects(1.0)
    explained = network.explain()
    finding = explained.the(RULE)
    assert finding.severity == "notice"
    assert "left directly, from this program or another at the same address, past it, to 198.51.100.1:443" in (
        finding.summary
    )
    assert "left directly, from this program or another at the same address, past the proxy" in (
        explained.verdicts[0].sentence
    )
    assert finding.connections == ["tcp-1", "quic-1"]
    assert any("CONNECT example.org:443" in row.what for row in finding.evidence)
    assert any("Initial" in row.what for row in finding.evidence)
    assert explained.found("proxy-downgrade") == []


def test_the_proxys_report_and_a_packet_are_enough() -> None:
    """The tunnel seen at the proxy, QUIC on the wire."""
    network = Network()
    network.proxy().carries(network.tcp(server=PROXY, port=3128), 0.0)
    network.quic().initials(0.5, 1.5)
    assert network.explain().the(RULE).connections == ["tcp-1", "quic-1"]


def test_quic_of_the_same_process_counts() -> None:
    """Where processes are known, the tunnel's process is the one that sent QUIC."""
    network = Network()
    tcp, quic = tunnelled(network), network.quic()
    quic.connects(1.0)
    network.owns(0.5, tcp, 7, "java")
    network.owns(1.5, quic, 7, "java")
    explained = network.explain()
    assert "left directly, past it, to 198.51.100.1:443" in explained.the(RULE).summary
    assert any("left directly, past the proxy" in verdict.sentence for verdict in explained.verdicts)


def test_another_process_goes_its_own_way() -> None:
    """A browser without a proxy beside an application with one."""
    network = Network()
    tcp, quic = tunnelled(network), network.quic()
    quic.connects(1.0)
    network.owns(0.5, tcp, 7, "java")
    network.owns(1.5, quic, 8, "firefox")
    assert network.explain().found(RULE) == []


def test_quic_to_another_name_is_not_about_this_one() -> None:
    """What the host sends elsewhere is no bypass of this tunnel."""
    network = Network()
    tunnelled(network)
    network.quic(sni="other.example", server="198.51.100.9").connects(1.0)
    assert network.explain().found(RULE) == []


def test_quic_of_another_host_is_another_clients() -> None:
    """Two machines, one behind the proxy."""
    network = Network()
    tunnelled(network)
    network.quic(client="192.0.2.77").connects(1.0)
    assert network.explain().found(RULE) == []


def test_without_an_open_tunnel_nothing_goes_through_the_proxy() -> None:
    """A client that was refused and went directly does not use the proxy."""
    network = Network()
    tcp = network.tcp(server=PROXY, port=3128)
    tcp.asks_proxy(0.0, "example.org:443")
    tcp.proxy_answers(0.05, 403)
    network.quic().connects(1.0)
    assert network.explain().found(RULE) == []


def test_quic_without_a_name_proves_nothing() -> None:
    """An Initial that names nobody need not be to this origin."""
    network = Network()
    tunnelled(network)
    network.quic(sni=None).connects(1.0)
    assert network.explain().found(RULE) == []


@pytest.mark.parametrize("wants_command", [True, False])
def test_another_process_of_the_command_counts(*, wants_command: bool) -> None:
    """What a command's helper sends past the proxy is the command's, and whose it was is told."""
    network = Network()
    tcp, quic = tunnelled(network), network.quic()
    quic.connects(1.0)
    network.owns(0.5, tcp, 7, "java")
    network.owns(1.5, quic, 8, "helper")
    engine = Engine("test", "pcap", wants_command=wants_command)
    records = [record for event in network.events() for record in engine.feed(event)] + engine.finish()
    found = [r.summary for r in records if isinstance(r, FindingRecord) and r.rule == RULE]
    assert [" left directly from helper[8], past it, to 198.51.100.1:443." in text for text in found] == (
        [True] if wants_command else []
    )


def test_quic_of_nobody_who_is_known_is_no_evidence() -> None:
    """A stranger's QUIC to the same name, whose owner was gone too soon, is not the watched command's."""
    network = Network()
    tcp, quic = tunnelled(network), network.quic()
    quic.connects(1.0)
    network.owns(0.5, tcp, 7, "java")
    engine = Engine("test", "live", wants_command=True)
    records = [record for event in network.events() for record in engine.feed(event)] + engine.finish()
    assert [r for r in records if isinstance(r, FindingRecord) and r.rule == RULE] == []
    (sentence,) = [r.sentence for r in records if isinstance(r, VerdictRecord) and "java" in r.client]
    assert "the owner of 1 QUIC connection on this host is not known" in sentence
    assert "past the proxy" not in sentence
