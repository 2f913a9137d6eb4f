"""What is said of silence."""

from __future__ import annotations

import pytest

from h3probe.engine import Engine
from h3probe.filters import Filters
from h3probe.records import VerdictRecord
from tests.diagnose.scenario import Network
from tests.engine.test_engine import busy


def sentences(engine: Engine, network: Network | None = None) -> list[str]:
    """The verdicts of an engine that took a network's events."""
    records = [record for event in (network.events() if network else []) for record in engine.feed(event)]
    return [record.sentence for record in records + engine.finish() if isinstance(record, VerdictRecord)]


def test_an_origin_to_which_nothing_was_sent_is_told() -> None:
    """Each origin that was asked for has a verdict, be it that nothing was sent to it."""
    filters = Filters(origins=frozenset({"absent.example", "example.org"}))
    sentences = {verdict.origin: verdict.sentence for verdict in busy().explain(filters=filters).verdicts}
    assert "Nothing was sent to this origin" in sentences["absent.example"]
    assert "Nothing" not in sentences["example.org:443"]


@pytest.mark.parametrize(
    ("is_java", "hint"),
    [(True, " With JDK 26 this is"), (None, " If it is a JDK 26 client, this is"), (False, None)],
)
def test_a_command_behind_the_proxy_that_sends_nothing(is_java: bool | None, hint: str | None) -> None:  # noqa: FBT001
    """That it is what HTTP_3_URI_ONLY looks like is said of Java, and where it may be Java, and of nothing else."""
    (sentence,) = sentences(Engine("any", "live", behind_proxy="it", is_java=is_java))
    assert sentence.startswith("Nothing was sent: no CONNECT to the proxy, no QUIC packet, no TCP connection.")
    assert ("HTTP_3_URI_ONLY" in sentence) is (hint is not None)
    assert hint is None or hint in sentence


@pytest.mark.parametrize("behind_proxy", ["java", None])
def test_what_is_not_seen_is_not_denied(behind_proxy: str | None) -> None:
    """Without sniffing nobody knows what went past the proxy, or to an origin that was asked for."""
    filters = Filters(origins=frozenset({"example.org"}))
    (sentence,) = sentences(Engine("proxy", "live", filters, vantage="proxy", behind_proxy=behind_proxy))
    assert sentence.startswith("Nothing came to the proxy")
    assert "not seen without sniffing" in sentence
    assert "Nothing was sent" not in sentence


def test_what_is_nobodys_is_not_the_commands() -> None:
    """A stranger's QUIC beside a command that sent nothing is told as what it is, and the silence with its limits."""
    network = Network()
    network.quic().connects(0.0)
    engine = Engine("any", "live", behind_proxy="java", is_java=True, wants_command=True)
    silence = sentences(engine, network)[-1]
    assert silence.startswith("No CONNECT to the proxy, and no QUIC packet and no TCP connection that is known to be")
    assert "the owner of 1 other connection on this host is not known" in silence


def test_a_request_in_the_clear_is_not_nothing() -> None:
    """It has a verdict of its own, about its own origin."""
    network = Network()
    proxy, tcp = network.proxy(), network.tcp(server="127.0.0.1", port=8899)
    proxy.plain(0.0, tcp)
    proxy.exchange(0.0, tcp, "HTTP/1.1", origin="http://example.org:80")
    (sentence,) = sentences(Engine("any", "live", behind_proxy="java", is_java=True), network)
    assert sentence.startswith("HTTP/1.1 for the one request, seen at the proxy.")


def test_an_exchange_of_no_known_connection_is_not_nothing() -> None:
    """Silence is no verdict where something was seen."""
    network = Network()
    network.proxy().exchange(0.0, network.tcp(server="127.0.0.1", port=8899))
    assert sentences(Engine("any", "live", behind_proxy="java", is_java=True), network) == []


@pytest.mark.parametrize("origin", ["example.org", "example.org:443"])
@pytest.mark.parametrize("hello", [True, False])
def test_what_a_filter_hides_was_sent_all_the_same(origin: str, *, hello: bool) -> None:
    """Asked about port 443 alone, a tunnel to the origin by way of the proxy's port is not called nothing."""
    network = Network()
    proxy, tcp = network.proxy(), network.tcp(server="127.0.0.1", port=8899)
    tunnel = proxy.asked(0.0, tcp)
    proxy.answered(0.1, tunnel)
    if hello:
        proxy.hello(0.2, tcp, tunnel)
    filters = Filters(ports=frozenset({443}), origins=frozenset({origin}))
    assert sentences(Engine("any", "live", filters, behind_proxy="java", is_java=True), network) == []


def test_an_origin_that_was_not_asked_for_behind_the_proxy() -> None:
    """Something was sent, and nothing to the origin: that is what is said, and no more."""
    network = Network()
    network.proxy().carries(network.tcp(server="127.0.0.1", port=8899, sni="other.example"), 0.0, "other.example")
    filters = Filters(origins=frozenset({"example.org"}))
    (sentence,) = sentences(Engine("any", "live", filters, behind_proxy="java", is_java=True), network)
    assert sentence.startswith("Nothing was sent to this origin")


def test_a_mistyped_origin_is_told_what_there_is() -> None:
    """Who looks for an origin that nothing was sent to sees which ones there are, a few of many."""
    network = Network()
    for number in range(6):
        network.quic(sni=f"host{number}.example", client_port=50_000 + number).connects(0.1 * number)
    filters = Filters(origins=frozenset({"hots1.example"}))
    (sentence,) = sentences(Engine("any", "live", filters), network)
    assert sentence.startswith("Nothing was sent to this origin: no QUIC packet")
    assert sentence.endswith(
        "Seen here: host0.example:443, host1.example:443, host2.example:443, host3.example:443, 2 more."
    )


@pytest.mark.parametrize(
    ("origin", "provable"), [("absent.example", False), ("absent.example:443", False), ("absent.example:4433", True)]
)
def test_what_names_no_server_may_be_to_any(origin: str, *, provable: bool) -> None:
    """A QUIC connection without a name is not denied to be an origin's, except by its port."""
    network = Network()
    network.quic(sni=None).connects(0.0)
    (sentence,) = sentences(Engine("any", "live", Filters(origins=frozenset({origin}))), network)
    assert ("no QUIC packet" in sentence) is provable
    assert ("1 connection gives no server's name, and may be to it" in sentence) is not provable
    assert sentence.endswith("Seen here: 198.51.100.1:443.")
