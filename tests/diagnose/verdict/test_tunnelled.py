from __future__ import annotations

import pytest

from h3probe.engine import Engine
from h3probe.records import FindingRecord, VerdictRecord
from h3probe.wire.packet import ACK
from tests.diagnose.scenario import Network, Tcp
from tests.diagnose.verdict.setups import reported

PROXY = "192.0.2.3"


def through(network: Network, target: str = "example.org:443") -> Tcp:
    """A connection to a proxy, and CONNECT on it."""
    tcp = network.tcp(server=PROXY, port=8888)
    tcp.asks_proxy(0.0, target)
    return tcp


def test_a_proxy_that_does_not_answer() -> None:
    """A CONNECT without an answer is no connection."""
    network = Network()
    through(network)
    assert network.explain().sentence == (
        f"CONNECT example.org:443 was asked of the proxy {PROXY}:8888; its answer is not in the capture."
    )


@pytest.mark.parametrize("status", [403, 407, 418, 502, 503, 504])
def test_a_proxy_that_declines(status: int) -> None:
    """The proxy's answer is quoted with its number."""
    network = Network()
    through(network).proxy_answers(0.1, status)
    assert f"answered {status} to CONNECT" in network.explain().sentence


def test_the_version_at_the_proxy_is_the_verdicts() -> None:
    """Where exchanges are seen, what the handshake leaves open is known."""
    network = Network()
    tcp = reported(network)
    network.proxy().exchange(0.2, tcp)
    network.proxy().exchange(0.3, tcp)
    explained = network.explain()
    assert explained.sentence.startswith("HTTP/2, through a CONNECT tunnel of the proxy 127.0.0.1:8899")
    assert explained.verdict.versions == {"HTTP/2": 2}
    assert "with HTTP/2:" in explained.the("proxy-downgrade").summary


def test_without_exchanges_the_version_is_not_known() -> None:
    """A tunnel that nobody opens leaves `versions` null, and says what the client offered."""
    network = Network()
    reported(network)
    explained = network.explain()
    assert explained.verdict.versions is None
    assert explained.sentence.startswith("HTTP/2 or HTTP/1.1, through a CONNECT tunnel")


def test_without_packets_nothing_is_said_of_quic() -> None:
    """A proxy alone does not see what goes past it."""
    network = Network()
    reported(network)
    engine = Engine("proxy", "events", vantage="proxy")
    records = [record for event in network.events() for record in engine.feed(event)] + engine.finish()
    sentences = [r.sentence for r in records if isinstance(r, VerdictRecord)]
    summaries = [r.summary for r in records if isinstance(r, FindingRecord)]
    assert len(sentences) == len(summaries) == 1
    assert not any("no QUIC packet left" in text for text in (*sentences, *summaries))


def test_an_alert_in_a_tunnel_is_named() -> None:
    """Whoever is behind the proxy said why."""
    network = Network()
    tcp = through(network)
    tcp.proxy_answers(0.02, 200)
    tcp.hello(0.03)
    tcp.alert(0.05, 112)
    tcp.fin(0.051, "server")
    assert network.explain().sentence.endswith(", with the alert unrecognized_name from the server.")


def test_a_tunnel_in_which_nothing_comes_back_carried_nothing() -> None:
    """A ClientHello without an answer is no HTTP/2."""
    network = Network()
    tcp = through(network)
    tcp.proxy_answers(0.02, 200)
    tcp.hello(0.03)
    network.bystander(30.0)
    sentence = network.explain().sentence
    assert sentence == "No answer to the ClientHello is seen in the CONNECT tunnel of the proxy 192.0.2.3:8888."


@pytest.mark.parametrize(("client", "told"), [("192.0.2.10", True), (PROXY, False)])
def test_http_in_the_clear_of_a_proxy_is_not_its_own(client: str, *, told: bool) -> None:
    """A client's request through a proxy is told; what that proxy asks for in its place is the same one."""
    network = Network()
    through(network)
    tcp = network.tcp(client=client, server=PROXY if told else "198.51.100.1", port=8888 if told else 80)
    tcp.syn(1.0)
    tcp.accepts(1.01)
    tcp.segment(1.02, "client", ACK, b"GET http://example.org/ HTTP/1.1\r\n\r\n")
    assert any("in the clear" in verdict.sentence for verdict in network.explain().verdicts) is told


def test_tunnels_of_several_versions_are_all_named() -> None:
    """What went through one tunnel is not told of another one to the same place."""
    network = Network()
    for number, alpn in enumerate([("http/1.1",), ("h2",)]):
        proxied = network.tcp(server="192.0.2.3", port=8888, alpn=alpn)
        proxied.asks_proxy(float(number), "example.org:443")
        proxied.proxy_answers(number + 0.1, 200)
        proxied.gets_ready(number + 0.2)
    assert network.explain().sentence.startswith("HTTP/1.1 on 1 connection and HTTP/2 on 1 connection, through a CONN")
