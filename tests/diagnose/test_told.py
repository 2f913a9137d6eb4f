from __future__ import annotations

from typing import Any, Literal

from tests.diagnose.scenario import JDK, Network
from tests.diagnose.verdict.setups import told_race


def test_requests_told_twice_count_once() -> None:
    """Where several tell, one counts: the proxy if it saw them all, else the log, which knows what went past it."""
    network = Network()
    quic, tcp = told_race(network)
    sources: list[Literal["client-log", "decrypted"]] = ["client-log", "decrypted"]
    for known_from in sources:
        network.told(0.5, tcp, known_from=known_from)
        network.told(1.0, quic, "HTTP/3", known_from=known_from)
    explained = network.explain()
    assert len(explained.exchanges) == 4
    assert explained.verdict.versions == {"HTTP/2": 1, "HTTP/3": 1}
    network.proxy().exchange(0.5, tcp, intercepted=True)
    verdict = network.explain().verdict
    assert verdict.versions == {"HTTP/2": 1, "HTTP/3": 1}
    assert "by the client's own log" in verdict.sentence
    assert "TLS was intercepted" in verdict.sentence
    network.proxy().exchange(0.6, quic, "HTTP/3", intercepted=True)
    assert "seen at the proxy" in network.explain().sentence


def test_a_log_names_what_the_wire_does_not() -> None:
    """The JDK sends no name for localhost over QUIC: its log has it, and the story its origin."""
    network = Network()
    quic = network.quic(software=JDK, sni=None, server="127.0.0.1", port=4433)
    quic.connects(0.0)
    quic.request(1.0)
    assert network.explain().verdict.origin == "127.0.0.1:4433"
    network.told(0.5, quic, "HTTP/3", origin="https://localhost:4433", url="https://localhost:4433/")
    assert network.explain().verdict.origin == "localhost:4433"


def test_another_origin_on_the_same_connection_is_not_counted() -> None:
    """A client may use one connection for several origins: each verdict is about its own."""
    network = Network()
    tcp = network.tcp()
    tcp.connects(0.0)
    tcp.exchanges(1.0)
    ends: dict[str, Any] = {"client": tcp.client_end, "server": tcp.server_end}
    network.told(0.5, tcp, **ends)
    network.told(0.6, tcp, origin="https://static.example:443", **ends)
    explained = network.explain()
    assert [e.connection for e in explained.exchanges] == ["tcp-1", "tcp-1"]
    assert explained.verdict.versions == {"HTTP/2": 1}


def test_two_clients_at_once_are_not_mixed() -> None:
    """A failure that names no connection belongs to nobody where two clients ask for the same origin."""
    network = Network()
    for number, client in enumerate(("192.0.2.10", "192.0.2.20")):
        tcp = network.tcp(client=client)
        tcp.connects(number / 10)
        tcp.exchanges(1.0)
        network.told(0.5, tcp)
    network.told(0.6, None, None)
    network.told_alt_svc(0.6, 'h3=":443"')
    explained = network.explain()
    assert [verdict.versions for verdict in explained.verdicts] == [{"HTTP/2": 1}, {"HTTP/2": 1}]
    assert not any("no response" in verdict.sentence for verdict in explained.verdicts)
    assert not any(story.alt_svc for story in explained.stories)


def test_a_log_that_tells_of_more_than_was_seen() -> None:
    """Where an answer of the log leads to no connection, those that do are not said to be all."""
    network = Network()
    quic, tcp = told_race(network)
    network.told(0.5, tcp)
    network.told(0.9, None, "HTTP/2")
    network.told(1.0, quic, "HTTP/3")
    assert "HTTP/2 for the first request" not in network.explain().sentence
    assert network.explain().sentence.startswith(
        "HTTP/2 for 1 request and HTTP/3 for 1 request, by the client's own log; it tells of further ones"
    )
