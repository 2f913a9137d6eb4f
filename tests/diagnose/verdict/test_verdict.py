from __future__ import annotations

import pytest

from h3probe.wire.packet import ACK
from tests.diagnose.scenario import CLIENT, SERVER, Network
from tests.diagnose.verdict.setups import reported


def test_hostile_names_are_harmless() -> None:
    """A name with control characters reaches no terminal as they are."""
    network = Network()
    network.quic(sni="a\x1b[2Jb.example").connects(0.0)
    (verdict,) = network.explain().verdicts
    assert verdict.origin is not None
    assert verdict.origin.isprintable()


def test_dns_alone_has_no_verdict() -> None:
    """A name that was looked up and not gone to."""
    network = Network()
    network.dns(0.0, "example.org", SERVER)
    network.https_record(0.001, "example.org", "h3", "h2")
    explained = network.explain()
    assert explained.verdicts == []
    assert [record.type for record in explained.records] == ["capture", "dns", "summary"]


@pytest.mark.parametrize("port", [22, 25, 853, 5432])
def test_other_protocols_have_no_verdict(port: int) -> None:
    """A mail or database server is nobody's HTTP."""
    network = Network()
    network.tcp(port=port, alpn=()).connects(0.0)
    assert network.explain().verdicts == []


NOTICE = "TLS was intercepted to see this"


@pytest.mark.parametrize("intercepted", [True, False])
def test_a_verdict_that_rests_on_interception_says_so(*, intercepted: bool) -> None:
    """Interception changes what browsers do; without it there is nothing to say."""
    network = Network()
    tcp = reported(network)
    network.proxy().exchange(0.2, tcp, intercepted=intercepted)
    assert (NOTICE in network.explain().sentence) is intercepted


def test_interception_of_another_client_is_not_this_verdicts() -> None:
    """Each verdict rests on its own exchanges."""
    network = Network()
    tcp = reported(network)
    other = network.tcp(client="192.0.2.77", server="127.0.0.1", port=8899)
    network.proxy().carries(other, 0.1)
    network.proxy().exchange(0.2, tcp, intercepted=True)
    sentences = {verdict.client: verdict.sentence for verdict in network.explain().verdicts}
    assert NOTICE in sentences[CLIENT]
    assert NOTICE not in sentences["192.0.2.77"]


@pytest.mark.parametrize(
    ("begins", "version"), [(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n", "HTTP/1.1"), (b"PRI * HTTP/2.0\r\n\r\n", "HTTP/2")]
)
def test_http_in_the_clear_has_a_verdict(begins: bytes, version: str) -> None:
    """What http:// used stands there for all to read, and that it leads to no HTTP/3."""
    network = Network()
    tcp = network.tcp(port=80)
    tcp.syn(0.0)
    tcp.accepts(0.02)
    tcp.segment(0.03, "client", ACK, begins)
    tcp.segment(0.05, "server", ACK, b"HTTP/1.1 200 OK\r\n\r\n")
    assert network.explain().sentence == f"{version}. That is http://, in the clear; HTTP/3 needs https://."


def test_other_protocols_in_the_clear_have_none() -> None:
    """SSH at the port of HTTPS is nobody's HTTP."""
    network = Network()
    tcp = network.tcp()
    tcp.syn(0.0)
    tcp.accepts(0.02)
    tcp.segment(0.03, "client", ACK, b"SSH-2.0-client\r\n")
    assert network.explain().verdicts == []


@pytest.mark.parametrize(("port", "told"), [(443, True), (6881, False)])
def test_silence_at_a_port_of_something_else_is_no_verdict(port: int, *, told: bool) -> None:
    """Peers of a file sharing network that are not there say nothing of HTTP."""
    network = Network()
    tcp = network.tcp(port=port)
    tcp.syn(0.0)
    tcp.syn_again(1.0)
    tcp.syn_again(3.0)
    assert bool(network.explain().verdicts) is told
