from __future__ import annotations

import pytest

from h3probe.engine import Engine
from h3probe.events import ToldAsked, ToldExchange
from h3probe.records import ExchangeRecord, VerdictRecord
from tests.diagnose.scenario import JDK, START_NS, Network

ERROR = "java.net.http.UnsupportedProtocolVersionException: can't use HTTP/3 with proxied or unsecured connection"
ORIGIN = "https://example.org:443"
ASKED = ToldAsked(START_NS, ORIGIN)
REFUSED = ToldExchange(START_NS, "client-log", ORIGIN, "GET", f"{ORIGIN}/", error=ERROR)


def verdicts(engine: Engine, *events: ToldAsked | ToldExchange, network: Network | None = None) -> list[VerdictRecord]:
    """What an engine says in the end of what it was told."""
    records = [record for event in (*(network.events() if network else ()), *events) for record in engine.feed(event)]
    records += engine.finish()
    assert not any(isinstance(record, ExchangeRecord) for record in records) or REFUSED in events
    return [record for record in records if isinstance(record, VerdictRecord)]


def silent() -> Engine:
    """Watches a command with a network of its own."""
    return Engine("any", "live", alone="java[1]")


def test_the_clients_own_words() -> None:
    """An exception that the client prints is the verdict on its origin, with what to do about it."""
    (verdict,) = verdicts(silent(), REFUSED)
    assert (verdict.origin, verdict.client) == ("example.org:443", "java[1]")
    assert ERROR in verdict.sentence
    assert "-Dhttp.nonProxyHosts" in verdict.sentence


@pytest.mark.parametrize("engine", [silent(), Engine("any", "live", behind_proxy="java", wants_command=True)])
def test_a_log_that_says_no_more_than_that_it_was_to_be_http3(engine: Engine) -> None:
    """Beside a silent wire that is what HTTP_3_URI_ONLY with a proxy looks like, and the origin is known."""
    (verdict,) = verdicts(engine, ASKED, ASKED)
    assert verdict.origin == "example.org:443"
    assert "2 requests were to be HTTP/3" in verdict.sentence
    assert "this is what HTTP_3_URI_ONLY with a proxy looks like" in verdict.sentence


def test_a_request_that_went_over_tcp_was_tried() -> None:
    """A log without its responses is no witness against packets."""
    network = Network()
    network.tcp(software=JDK).connects(0.0)
    (verdict,) = verdicts(silent(), ASKED, network=network)
    assert "Nothing was sent" not in verdict.sentence


def test_a_capture_may_miss_what_was_sent() -> None:
    """In a file nobody knows what the client did beside it."""
    assert verdicts(Engine("x", "pcap"), ASKED) == []


def test_an_origin_that_something_was_sent_to_has_its_own_verdict() -> None:
    """One request of several that its client refuses is counted there."""
    network = Network()
    tcp = network.tcp(software=JDK)
    tcp.connects(0.0)
    network.told(0.1, tcp, "HTTP/2")
    (verdict,) = verdicts(Engine("x", "pcap"), REFUSED, network=network)
    assert verdict.sentence.startswith("HTTP/2 for the one request that was answered")
    assert "UnsupportedProtocolVersionException" in verdict.sentence
