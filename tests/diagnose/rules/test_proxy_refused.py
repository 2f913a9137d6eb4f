from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import pytest

from tests.diagnose.scenario import CURL, Network, Proxy, Tcp

if TYPE_CHECKING:
    from h3probe.events import ProxyMode

RULE = "proxy-refused"
PROXY = "192.0.2.3"


def to_proxy(network: Network) -> Tcp:
    """A connection to a proxy, not yet made."""
    return network.tcp(server=PROXY, port=3128)


def asks(network: Network, target: str = "example.org:443") -> Tcp:
    """A client that has asked for a tunnel."""
    tcp = to_proxy(network)
    tcp.asks_proxy(0.0, target)
    return tcp


@pytest.mark.parametrize(
    ("status", "meaning", "advice"),
    [
        (403, "does not allow it", "exception"),
        (407, "asks for credentials", "credentials for the proxy"),
        (502, "could not reach it", "the proxy's own host"),
        (418, "declined", "NO_PROXY"),
    ],
)
def test_a_refusal_is_told_with_what_it_means(status: int, meaning: str, advice: str) -> None:
    """The status as the client got it, in words, and what to do about this one."""
    network = Network()
    asks(network).proxy_answers(0.05, status)
    explained = network.explain()
    finding = explained.the(RULE)
    assert finding.severity == "problem"
    assert f"answered {status} to CONNECT example.org:443" in finding.summary
    assert meaning in finding.summary
    assert advice in finding.advice
    assert [row.frame for row in finding.evidence] == [4, 5]
    assert explained.summary.exit_status == 1
    assert explained.sentence.startswith("No connection: the proxy")


def test_the_proxys_report_says_the_same() -> None:
    """Seen at the proxy alone: who refused, and in which words; frames there are none."""
    network = Network()
    proxy, client = network.proxy(), to_proxy(network)
    tunnel = proxy.asked(0.0, client)
    proxy.answered(0.05, tunnel, 407, by="upstream", error="407 Proxy \x1b[31mAuthentication", challenges=("Basic",))
    proxy.ended(0.1, client, sent=0, received=0)
    explained = network.explain()
    finding = explained.the(RULE)
    assert finding.severity == "problem"
    assert f"The proxy behind {PROXY}:3128 answered 407" in finding.summary
    assert "\x1b" not in finding.summary
    assert [row.frame for row in finding.evidence] == [None, None]
    assert explained.tunnels[0].status == 407


def test_407_and_then_a_tunnel_is_how_it_is_meant_to_be() -> None:
    """A first 407 that the client answers with credentials costs nothing, and is information."""
    network = Network()
    tcp = asks(network)
    tcp.proxy_answers(0.05, 407, fields="Content-Length: 0\r\n")
    tcp.asks_again(0.06, "example.org:443")
    tcp.proxy_answers(0.1, 200)
    tcp.gets_ready(0.11)
    explained = network.explain()
    finding = explained.the(RULE)
    assert finding.severity == "info"
    assert "asked again, with CONNECT, and got its tunnel" in finding.summary
    assert explained.summary.exit_status == 0


def test_connect_udp_that_is_declined_is_a_notice() -> None:
    """A client that asks for connect-udp and gets nothing else loses HTTP/3, and perhaps nothing more."""
    network = Network()
    tcp = to_proxy(network)
    tcp.syn(0.0)
    tcp.accepts(0.001)
    tcp.asks_connect_udp(0.002, "example.org", 443)
    tcp.proxy_answers(0.01, 400)
    finding = network.explain().the(RULE)
    assert finding.severity == "notice"
    assert "RFC 9298" in finding.advice


def test_connect_after_connect_udp_makes_it_information() -> None:
    """Curl asks for connect-udp first, on a connection of its own, and goes on with CONNECT."""
    network = Network()
    first = network.tcp(server=PROXY, port=3128, software=CURL)
    first.syn(0.0)
    first.accepts(0.001)
    first.asks_connect_udp(0.002, "example.org", 443)
    first.proxy_answers(0.01, 400)
    second = network.tcp(server=PROXY, port=3128, software=CURL)
    second.asks_proxy(0.02, "example.org:443")
    second.proxy_answers(0.05, 200)
    second.gets_ready(0.06)
    finding = network.explain().the(RULE)
    assert finding.severity == "info"
    assert "asked again, with CONNECT" in finding.summary


def test_no_answer_before_the_end_is_a_refusal() -> None:
    """A proxy that closes without a word; who closed, and when, is told."""
    network = Network()
    asks(network).fin(2.0, "server")
    explained = network.explain()
    finding = explained.the(RULE)
    assert finding.severity == "problem"
    assert "got no answer" in finding.summary
    assert "the proxy closed the connection after 2.00 s" in finding.summary
    assert finding.cost == pytest.approx(2.0, abs=0.01)
    assert "did not answer CONNECT" in explained.sentence


def test_a_client_that_stops_waiting_has_lost_the_wait() -> None:
    """When the client closes first, its wait is the cost."""
    network = Network()
    asks(network).fin(5.0, "client")
    finding = network.explain().the(RULE)
    assert finding.cost == pytest.approx(4.9989)
    assert "the client closed" in finding.summary


def test_no_answer_by_the_proxys_report() -> None:
    """The bytes that the client sent are its request: they prove no tunnel."""
    network = Network()
    proxy, client = network.proxy(), to_proxy(network)
    tunnel = proxy.asked(0.0, client)
    proxy.trouble(2.0, client, tunnel, "slow")
    proxy.ended(30.0, client, sent=120, received=0)
    finding = network.explain().the(RULE)
    assert "got no answer" in finding.summary
    assert finding.cost == 30.0


@pytest.mark.parametrize(
    ("kind", "clause", "advice"),
    [
        ("unreachable", "corp.example:3128 behind 192.0.2.3:3128 cannot be reached: connection refused", "--upstream"),
        ("silent", "closed the connection without an answer to CONNECT example.org:443", "https://"),
        ("garbage", "answered CONNECT example.org:443 with something that is no HTTP", "no HTTP proxy"),
    ],
)
def test_an_upstream_that_fails_is_the_one_that_is_named(
    kind: Literal["unreachable", "silent", "garbage"], clause: str, advice: str
) -> None:
    """The client got a 502 of h3probe's own, and that is not who failed."""
    network = Network()
    proxy, client = network.proxy(), to_proxy(network)
    tunnel = proxy.asked(0.0, client)
    proxy.answered(0.05, tunnel, 502, error="connection refused")
    proxy.trouble(0.05, client, tunnel, kind)
    proxy.ended(0.1, client, sent=0, received=200)
    explained = network.explain()
    finding = explained.the(RULE)
    assert finding.summary.startswith("The proxy corp.example:3128 behind 192.0.2.3:3128 ")
    assert finding.summary.endswith("; the client got 502.")
    assert clause in finding.summary
    assert advice in finding.advice
    assert "could not reach it" not in finding.summary
    assert clause in explained.sentence


def test_an_upstream_that_refuses_is_named() -> None:
    """Whose 403 it is, by its address, in finding and verdict; what came slowly before it does not change that."""
    network = Network()
    proxy, client = network.proxy(), to_proxy(network)
    tunnel = proxy.asked(0.0, client)
    proxy.trouble(5.0, client, tunnel, "slow")
    proxy.answered(6.0, tunnel, 403, by="upstream", seconds=6.0)
    proxy.trouble(6.0, client, tunnel, "refused", 403)
    explained = network.explain()
    who = "the proxy corp.example:3128 behind 192.0.2.3:3128 answered 403 to CONNECT"
    assert who in explained.the(RULE).summary.replace("The", "the")
    assert who in explained.sentence


def test_an_upstream_that_does_not_answer_is_named() -> None:
    """By the connection that was made to it, too, when the client does not wait until it is called slow."""
    network = Network()
    proxy, client = network.proxy(), to_proxy(network)
    proxy.ready("upstream")
    proxy.asked(0.0, client)
    proxy.onward(0.01, client, network.tcp(client=PROXY, server="198.51.100.7", port=8080))
    proxy.ended(3.0, client, sent=100, received=0)
    explained = network.explain()
    assert "no answer from the proxy 198.51.100.7:8080 behind 192.0.2.3:3128" in explained.the(RULE).summary
    assert "that proxy's own host" in explained.the(RULE).advice
    assert "the proxy 198.51.100.7:8080 behind 192.0.2.3:3128 did not answer" in explained.sentence


def test_a_proxy_without_another_one_behind_it_was_connecting() -> None:
    """Nobody needs to be asked about h3probe's own proxy: it is the server that did not answer."""
    network = Network()
    proxy, client = network.proxy(), to_proxy(network)
    proxy.ready("regular")
    proxy.asked(0.0, client)
    proxy.ended(3.0, client, sent=100, received=0)
    finding = network.explain().the(RULE)
    assert "still connecting" in finding.advice
    assert "behind" not in finding.summary


def plain(network: Network, mode: ProxyMode = "upstream") -> tuple[Proxy, Tcp]:
    """A client that sends a request in the clear."""
    proxy, client = network.proxy(), to_proxy(network)
    proxy.ready(mode)
    proxy.plain(0.0, client)
    return proxy, client


def test_a_plain_request_that_the_upstream_refuses() -> None:
    """407 to a request in the clear can only be a proxy's."""
    network = Network()
    proxy, client = plain(network)
    proxy.trouble(0.01, client, kind="refused", status=407)
    proxy.exchange(0.0, client, "HTTP/1.1", status=407, origin="http://example.org:80")
    explained = network.explain()
    finding = explained.the(RULE)
    assert finding.summary.startswith("The proxy corp.example:3128 behind 192.0.2.3:3128 answered 407 to a request for")
    assert "credentials for the proxy" in finding.advice
    assert explained.verdict.rules == [RULE]


def test_a_plain_request_for_which_the_upstream_cannot_be_reached() -> None:
    """The proxy behind is told apart from the server."""
    network = Network()
    proxy, client = plain(network)
    proxy.unreached(0.01, client, "127.0.0.1:3129")
    proxy.exchange(0.0, client, "HTTP/1.1", status=None, origin="http://example.org:80")
    explained = network.explain()
    assert "The proxy 127.0.0.1:3129 behind 192.0.2.3:3128 cannot be reached" in explained.the(RULE).summary
    assert explained.sentence.endswith("it could not connect to 127.0.0.1:3129 (connection refused).")


def test_a_plain_request_whose_server_cannot_be_reached_is_no_refusal() -> None:
    """No other proxy has to do with it; the verdict says it."""
    network = Network()
    proxy, client = plain(network, "regular")
    proxy.unreached(0.01, client, "198.51.100.1:80")
    proxy.exchange(0.0, client, "HTTP/1.1", status=None, origin="http://example.org:80")
    explained = network.explain()
    assert explained.found(RULE) == []
    assert "could not connect to 198.51.100.1:80" in explained.sentence


@pytest.mark.parametrize(("answered_at", "fires"), [(0.9, False), (1.5, True)])
def test_an_answer_that_comes_late_is_a_problem(answered_at: float, *, fires: bool) -> None:
    """More than a second until the tunnel opens is time that the request lost."""
    network = Network()
    tcp = asks(network)
    tcp.proxy_answers(answered_at, 200)
    tcp.gets_ready(answered_at + 0.01)
    found = network.explain().found(RULE)
    assert bool(found) is fires
    if fires:
        assert found[0].severity == "problem"
        assert found[0].cost == pytest.approx(answered_at - 0.0011)


def test_many_late_answers_are_one_finding() -> None:
    """A proxy that is slow is slow for all of them; the cost is the time in which any was waited for."""
    network = Network()
    for wait in (1.5, 2.5, 2.0):
        tcp = asks(network)
        tcp.proxy_answers(wait, 200)
        tcp.gets_ready(wait + 0.01)
    finding = network.explain().the(RULE)
    assert finding.summary.startswith("3 tunnels to example.org:443 were answered late by the proxy")
    assert finding.cost == pytest.approx(2.5, abs=0.01)
    assert len(finding.connections) == 3
    again = to_proxy(network)
    again.asks_proxy(10.0, "example.org:443")
    again.proxy_answers(12.0, 200)
    assert network.explain().the(RULE).cost == pytest.approx(4.5, abs=0.01)


@pytest.mark.parametrize(("at", "cost"), [(0.5, None), (10.0, pytest.approx(10.0, abs=0.01))])
def test_a_refusal_costs_what_it_took(at: float, cost: object) -> None:
    """A proxy that tries for ten seconds before its 502 has cost them; one that refuses at once costs nothing."""
    network = Network()
    asks(network).proxy_answers(at, 502)
    assert network.explain().the(RULE).cost == cost


def test_a_client_that_has_left_was_refused_nothing() -> None:
    """What the proxy would have answered then, nobody was there to get."""
    network = Network()
    proxy, tcp = network.proxy(), network.tcp(server="192.0.2.3", port=3128)
    tunnel = proxy.asked(0.0, tcp)
    proxy.answered(0.1, tunnel, 502, error="client disconnected")
    proxy.ended(0.1, tcp, tunnel)
    assert network.explain().found(RULE) == []


def test_the_proxys_own_clock_counts() -> None:
    """What the proxy says it waited is not stretched by how late its report comes."""
    network = Network()
    proxy, client = network.proxy(), to_proxy(network)
    tunnel = proxy.asked(0.0, client)
    proxy.answered(3.0, tunnel, 200, seconds=0.05)
    proxy.hello(3.01, client, tunnel)
    proxy.ended(4.0, client, tunnel)
    assert network.explain().found(RULE) == []


def test_a_tunnel_that_opens_is_no_refusal() -> None:
    """200 in time."""
    network = Network()
    tcp = asks(network)
    tcp.proxy_answers(0.05, 200)
    tcp.gets_ready(0.06)
    assert network.explain().found(RULE) == []


def test_a_capture_that_ends_is_no_silence() -> None:
    """Without an end of the connection the answer may still come."""
    network = Network()
    asks(network)
    network.bystander(60.0)
    assert network.explain().found(RULE) == []


def test_an_answer_that_the_capture_misses_is_no_silence() -> None:
    """The client goes on with TLS, so there was an answer."""
    network = Network()
    tcp = asks(network)
    tcp.hello(0.1)
    tcp.fin(1.0)
    assert network.explain(seen=lambda packet: packet.by == "client").found(RULE) == []


def test_a_proxy_whose_packets_are_not_captured_is_not_silent() -> None:
    """Of the client's packets alone nothing follows about an answer, also where the client goes away."""
    network = Network()
    asks(network).fin(1.0)
    explained = network.explain(seen=lambda packet: packet.by == "client")
    assert explained.found(RULE) == []
    assert explained.sentence.endswith("its answer is not in the capture.")


def test_a_plain_request_is_no_tunnel() -> None:
    """A 403 to a GET is the server's own business."""
    network = Network()
    tcp = network.tcp(server=PROXY, port=80)
    tcp.syn(0.0)
    tcp.accepts(0.001)
    tcp.segment(0.002, "client", 0x18, b"GET / HTTP/1.1\r\nHost: example.org\r\n\r\n")
    tcp.proxy_answers(0.01, 403)
    assert network.explain().found(RULE) == []


def test_the_same_refusal_again_is_told_once() -> None:
    """A browser asks a dozen times in a row; what it gets hours later is another story's."""
    network = Network()
    for at in (0.0, 0.5, 1.0, 200.0):
        tcp = network.tcp(server=PROXY, port=3128)
        tcp.asks_proxy(at, "example.org:443")
        tcp.proxy_answers(at + 0.05, 500)
        tcp.fin(at + 0.1)
    first, second = network.explain().found(RULE)
    assert first.summary.endswith("answered 500 to CONNECT example.org:443: the proxy failed. That was 3 times.")
    assert (first.severity, len(first.evidence)) == ("problem", 6)
    assert second.summary.endswith("the proxy failed.")


@pytest.mark.parametrize(
    ("waited", "severity", "said"), [(0.1, "notice", "the client left"), (30.0, "problem", "did not")]
)
def test_a_client_that_leaves_at_once_blames_nobody(waited: float, severity: str, said: str) -> None:
    """A proxy that had no time to answer has not refused."""
    network = Network()
    tcp = network.tcp(server="192.0.2.3", port=8888)
    tcp.asks_proxy(0.0, "example.org:443")
    tcp.fin(waited)
    network.bystander(waited + 1.0)
    explained = network.explain()
    assert explained.the("proxy-refused").severity == severity
    assert said in explained.sentence
