from __future__ import annotations

import pytest

from tests.diagnose.scenario import JDK, Network
from tests.diagnose.verdict.setups import at_the_proxy, told_race


@pytest.mark.parametrize(
    ("versions", "sentence"),
    [
        (["HTTP/2"], "HTTP/2 for the one request, seen at the proxy."),
        (["HTTP/3", "HTTP/3", "HTTP/3"], "HTTP/3 for all 3 requests, seen at the proxy."),
        (["HTTP/2", "HTTP/3", "HTTP/3"], "HTTP/2 for the first request, then HTTP/3 for 2, seen at the proxy."),
        (["HTTP/2", "HTTP/3", "HTTP/2"], "HTTP/2 for the first request, then HTTP/3 for 1 and HTTP/2 for 1"),
    ],
)
def test_a_reverse_proxy_sees_every_exchange(versions: list[str], sentence: str) -> None:
    """The first request's version, and what came after it; counted in `versions`."""
    network = Network()
    proxy = network.proxy()
    tcp, quic = network.tcp(server="127.0.0.1", port=8443), network.quic(server="127.0.0.1", port=8443)
    proxy.hello(0.0, tcp)
    proxy.hello(0.01, quic)
    for number, version in enumerate(versions):
        proxy.exchange(0.1 + number, quic if version == "HTTP/3" else tcp, version)
    explained = network.explain()
    assert explained.sentence.startswith(sentence)
    assert explained.verdict.versions == {version: versions.count(version) for version in sorted(set(versions))}


def test_a_request_without_a_response_used_no_version() -> None:
    """It counts for nothing in `versions`, and the sentence does not hide it."""
    network = Network()
    proxy = network.proxy()
    tcp, quic = network.tcp(server="127.0.0.1", port=8443), network.quic(server="127.0.0.1", port=8443)
    proxy.hello(0.0, tcp)
    proxy.hello(0.01, quic)
    proxy.exchange(0.1, quic, "HTTP/3", status=None)
    proxy.exchange(0.3, tcp)
    explained = network.explain()
    assert explained.verdict.versions == {"HTTP/2": 1}
    text = "HTTP/2 for the one request that was answered, seen at the proxy; 1 request got no response."
    assert explained.sentence.startswith(text)


def test_no_response_at_all_is_no_version() -> None:
    """Exchanges that all failed say nothing of versions."""
    network = Network()
    tcp = network.tcp(server="127.0.0.1", port=8443)
    network.proxy().hello(0.0, tcp)
    network.proxy().exchange(0.1, tcp, status=None)
    assert network.explain().verdict.versions is None


def test_a_version_from_a_file_is_made_harmless() -> None:
    """A file of events may come from anyone."""
    network = Network()
    tcp = network.tcp(server="127.0.0.1", port=8443)
    network.proxy().hello(0.0, tcp)
    network.proxy().exchange(0.1, tcp, "HTTP/\x1b[31m")
    explained = network.explain()
    assert explained.sentence.isprintable()
    assert all(version.isprintable() for version in explained.verdict.versions or ())


@pytest.mark.parametrize(
    ("count", "sentence"),
    [
        (1, "HTTP/2 for the one request over TCP, seen at the proxy."),
        (2, "HTTP/2 for both requests over TCP, seen at the proxy."),
    ],
)
def test_quic_past_a_transparent_proxy(count: int, sentence: str) -> None:
    """What QUIC carried is in nobody's count, and the sentence says so; no tunnel was asked for."""
    network = Network()
    proxy, tcp, quic = network.proxy(), network.tcp(), network.quic()
    proxy.ready("transparent")
    tcp.connects(0.0)
    proxy.hello(0.02, tcp)
    for number in range(count):
        proxy.exchange(0.1 + number / 10, tcp, intercepted=True)
    quic.connects(0.5)
    explained = network.explain()
    past = " QUIC went past the proxy: what it carried is not counted."
    assert explained.sentence.startswith(sentence + past + " TLS over TCP was intercepted to see this, QUIC was not;")
    assert explained.verdict.versions is None
    assert [exchange.known_from for exchange in explained.exchanges] == ["proxy"] * count
    assert {exchange.connection for exchange in explained.exchanges} == {"tcp-1"}
    assert explained.tunnels == []
    assert "proxy-downgrade" not in explained.rules


def test_a_certificate_that_is_refused_at_a_reverse_proxy() -> None:
    """The reason is known there."""
    network = Network()
    proxy, quic = network.proxy(), network.quic(server="127.0.0.1", port=8443)
    proxy.hello(0.0, quic)
    proxy.rejected(0.1, quic)
    assert at_the_proxy(network) == "No request: the client does not take the proxy's certificate."


@pytest.mark.parametrize("again", [True, False])
def test_a_certificate_that_is_refused_after_the_handshake(*, again: bool) -> None:
    """Packets show TLS that got ready, and the client left: only what it then got past the interception counts."""
    network = Network()
    proxy, tcp = network.proxy(), network.tcp(server="127.0.0.1", port=8443)
    tcp.connects(0.0)
    tcp.fin(0.1)
    proxy.hello(0.03, tcp)
    proxy.rejected(0.2, tcp, None)
    if again:
        network.tcp(server="127.0.0.1", port=8443).connects(1.0)
    sentence = network.explain().sentence
    assert sentence.startswith("HTTP/2 or HTTP/1.1: no QUIC" if again else "No request: the client does not take")


def test_a_reverse_proxy_that_gets_no_response() -> None:
    """Requests that came to nothing are told with the reason of the first."""
    network = Network()
    proxy, tcp = network.proxy(), network.tcp(server="127.0.0.1", port=8443)
    proxy.hello(0.0, tcp)
    proxy.exchange(0.1, tcp, status=None, error="Client disconnected.")
    proxy.exchange(0.2, tcp, status=None)
    assert at_the_proxy(network) == "No response to any of 2 requests, seen at the proxy: Client disconnected."


def test_requests_in_the_clear_need_https_for_http3() -> None:
    """Their version is known, and why it is not HTTP/3."""
    network = Network()
    proxy, tcp = network.proxy(), network.tcp(server="127.0.0.1", port=8899)
    proxy.plain(0.0, tcp)
    proxy.exchange(0.0, tcp, "HTTP/1.1", origin="http://example.org:80")
    assert at_the_proxy(network).endswith("proxy. That is http://, in the clear; HTTP/3 needs https://.")


def test_an_error_to_a_request_in_the_clear_may_be_a_proxys() -> None:
    """Who answered 403 nobody can tell, and that it was 403 is not kept back."""
    network = Network()
    proxy, tcp = network.proxy(), network.tcp(server="127.0.0.1", port=8899)
    for at in (0.0, 1.0):
        proxy.exchange(at, tcp, "HTTP/1.1", status=403, origin="http://example.org:80")
    proxy.plain(0.0, tcp)
    assert " The answer was 403, the server's or that of a proxy before it. " in at_the_proxy(network)


def test_the_clients_own_log() -> None:
    """The versions are counted, and that the race's winner was not used is said."""
    network = Network()
    quic, tcp = told_race(network)
    network.told(0.5, tcp)
    network.told(1.0, quic, "HTTP/3")
    network.told(1.0, quic, "HTTP/3")
    verdict = network.explain().verdict
    assert verdict.versions == {"HTTP/2": 1, "HTTP/3": 2}
    assert verdict.sentence.startswith("HTTP/2 for the first request, then HTTP/3 for 2, by the client's own log. ")
    assert verdict.sentence.endswith("did not carry the first request: the client lost that race, not the network.")


def test_what_failed_by_the_clients_own_log() -> None:
    """Requests without a response are counted apart, in the client's own words."""
    network = Network()
    _, tcp = told_race(network)
    network.told(0.5, tcp)
    for error in ("java.io.IOException: \x1b", "a second", "a second"):
        network.told(0.6, None, None, error=error)
    verdict = network.explain().verdict
    assert verdict.versions == {"HTTP/2": 1}
    assert "3 requests got no response (java.io.IOException: \\x1b; a second)" in verdict.sentence


def test_nothing_but_failures() -> None:
    """What the wire shows comes first, then what the client says of it."""
    network = Network()
    quic = network.quic(software=JDK)
    quic.initials(0.0, 1.0, 3.0)
    network.told(4.0, quic, None, error="No response from peer")
    verdict = network.explain().verdict
    assert verdict.versions is None
    assert verdict.sentence.startswith("No connection")
    assert verdict.sentence.endswith("No response to 1 request, by the client's own log (No response from peer).")


def test_a_connection_that_no_secret_opens_is_not_passed_over() -> None:
    """A key log that lacks one connection's secrets says nothing of its requests."""
    network = Network()
    tcp, quic = network.tcp(), network.quic()
    tcp.connects(0.0)
    quic.connects(0.3)
    network.told(0.4, quic, "HTTP/3", known_from="decrypted", scid=quic.client_scid)
    assert network.explain().sentence == (
        "HTTP/3 for the one request that could be read, as the decrypted traffic shows. 1 connection over TCP may "
        "have carried more, which no secret known opens."
    )


def test_a_connection_that_carried_nothing_is_none_of_them() -> None:
    """One that was made and given up before anything was asked on it holds no request."""
    network = Network()
    tcp, quic = network.tcp(), network.quic()
    tcp.opens(0.0)
    tcp.fin(0.2)
    quic.connects(0.3)
    network.told(0.4, quic, "HTTP/3", known_from="decrypted", scid=quic.client_scid)
    assert network.explain().sentence == "HTTP/3 for the one request, as the decrypted traffic shows."
