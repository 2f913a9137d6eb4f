from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import pytest

from tests.diagnose.scenario import Network, Tcp

if TYPE_CHECKING:
    from collections.abc import Callable

RULE = "tls-failed"
NO_ALPN, UNKNOWN_CA = 120, 48


def shaken(network: Network, at: float = 0.0, alpn: tuple[str, ...] = ("h2",)) -> Tcp:
    """A connection up to the server's part of TLS."""
    tcp = network.tcp(alpn=alpn)
    tcp.syn(at)
    tcp.accepts(at + 0.01)
    tcp.hello(at + 0.02)
    tcp.server_flight(at + 0.03)
    return tcp


def encrypted_alert(tcp: Tcp, at: float) -> None:
    """The client's, as TLS 1.3 has it: 2 bytes, a content type and a tag."""
    tcp.request(at, size=19)


def closed_at_once(tcp: Tcp, at: float) -> None:
    """The client finishes the handshake, looks at the certificate, and leaves."""
    tcp.finished(at)
    tcp.rst(at + 0.001, by="client")


ENDS: list[tuple[Callable[[Tcp, float], None], str]] = [
    (encrypted_alert, "the client ended it with an alert that is encrypted, after the server's part of TLS"),
    (lambda tcp, at: tcp.fin(at), "the client closed it (FIN), after the server's part of TLS"),
    (lambda tcp, at: tcp.rst(at, by="client"), "the client closed it (RST), after the server's part of TLS"),
    (closed_at_once, "the client closed it (RST), as soon as TLS was ready and before anything was asked"),
]


@pytest.mark.parametrize(("end", "words"), ENDS)
def test_a_client_that_does_not_take_the_certificate(end: Callable[[Tcp, float], None], words: str) -> None:
    """Each way in which a client was seen to leave is told with what can be seen of it, and as far as it is sure."""
    network = Network()
    end(shaken(network), 0.05)
    finding = network.explain().the(RULE)
    assert finding.severity == ("problem" if end is encrypted_alert else "notice")
    assert finding.summary.endswith(f": {words}.")
    assert finding.summary.startswith("TLS over TCP to 198.51.100.1:443 came to nothing, after 5")
    assert "certificate" in finding.advice


@pytest.mark.parametrize(("end", "_words"), ENDS)
def test_it_may_have_been_the_loser_of_a_race(end: Callable[[Tcp, float], None], _words: str) -> None:
    """Where QUIC worked, TCP is dropped in whatever state it is in, and nothing failed."""
    network = Network()
    network.quic().connects(0.0)
    end(shaken(network, 0.01), 0.06)
    assert network.explain().found(RULE) == []


@pytest.mark.parametrize(("end", "_words"), ENDS)
def test_packets_that_are_missing_prove_nothing(end: Callable[[Tcp, float], None], _words: str) -> None:
    """A capture without the server's packets shows no failure."""
    network = Network()
    end(shaken(network), 0.05)
    assert network.explain(seen=lambda packet: packet.by == "client").found(RULE) == []


def test_an_alert_in_the_clear_is_named() -> None:
    """The server's own word for it, and what the client had offered, once for all attempts."""
    network = Network()
    for at in (0.0, 0.5):
        tcp = network.tcp(alpn=("h3",))
        tcp.syn(at)
        tcp.accepts(at + 0.01)
        tcp.hello(at + 0.02)
        tcp.alert(at + 0.03, NO_ALPN)
        tcp.fin(at + 0.04)
    finding = network.explain().the(RULE)
    assert (finding.severity, len(finding.evidence)) == ("problem", 4)
    assert "2 times, after 30 ms: the server sent the alert no_application_protocol" in finding.summary
    assert finding.summary.endswith("The client offered h3.")
    assert "QUIC alone" in finding.advice


def test_an_alert_counts_though_the_next_try_worked() -> None:
    """The server refused one hello, and took another."""
    network = Network()
    tcp = network.tcp()
    tcp.syn(0.0)
    tcp.accepts(0.01)
    tcp.hello(0.02)
    tcp.alert(0.03, UNKNOWN_CA, by="client")
    network.tcp().connects(1.0)
    finding = network.explain().the(RULE)
    assert finding.severity == "notice"
    assert "the client sent the alert unknown_ca" in finding.summary
    assert "trust" in finding.advice


@pytest.mark.parametrize(
    ("by", "at", "severity", "advice"),
    [
        ("client", 5.0, "problem", "had not answered TLS"),
        ("client", 0.1, "notice", "had not answered TLS"),
        ("server", 0.1, "problem", "firewall"),
    ],
)
def test_a_hello_without_an_answer(by: Literal["client", "server"], at: float, severity: str, advice: str) -> None:
    """Who gave up, and after how long, says whether the server was silent, would not, or was not given the time."""
    network = Network()
    tcp = network.tcp()
    tcp.syn(0.0)
    tcp.accepts(0.01)
    tcp.hello(0.02)
    tcp.fin(at, by=by)
    finding = network.explain().the(RULE)
    assert finding.severity == severity
    assert finding.summary.endswith("before the server answered the ClientHello.")
    assert advice in finding.advice


def test_an_answer_that_came_too_late() -> None:
    """What the server says to a client that is gone was not what that left for."""
    network = Network()
    tcp = network.tcp()
    tcp.syn(0.0)
    tcp.accepts(0.01)
    tcp.hello(0.02)
    tcp.fin(0.05)
    tcp.server_flight(0.06)
    finding = network.explain().the(RULE)
    assert finding.severity == "notice"
    assert finding.summary.endswith("before the server answered the ClientHello.")


def test_a_connection_that_is_kept_in_store() -> None:
    """A browser opens some for what may come, and closes them when nothing did."""
    network = Network()
    tcp = network.tcp()
    tcp.opens(0.0)
    tcp.fin(10.0)
    explained = network.explain()
    assert explained.rules == []
    assert explained.sentence.startswith("No request is seen")


def test_what_came_later_worked() -> None:
    """A connection that was opened for nothing beside one that was used is none that failed."""
    network = Network()
    network.tcp().connects(0.0)
    spare = network.tcp()
    spare.opens(0.1)
    spare.fin(0.5)
    assert network.explain().found(RULE) == []


def test_a_tunnel_is_no_other_matter() -> None:
    """TLS in a proxy's tunnel fails the same way, unless it worked in another one."""
    network = Network()
    tcp = network.tcp(server="192.0.2.99", port=3128)
    tcp.asks_proxy(0.0, "example.org:443")
    tcp.proxy_answers(0.01, 200)
    tcp.hello(0.02)
    tcp.server_flight(0.03)
    encrypted_alert(tcp, 0.04)
    tcp.fin(0.05)
    assert "192.0.2.99:3128" in network.explain().the(RULE).summary
    other = network.tcp(server="192.0.2.99", port=3128)
    other.asks_proxy(1.0, "example.org:443")
    other.proxy_answers(1.01, 200)
    other.gets_ready(1.02)
    other.exchanges(1.1)
    assert network.explain().found(RULE) == []
