from __future__ import annotations

import pytest

from h3probe.records import DnsRecord, IcmpRecord, TunnelRecord
from tests.diagnose.scenario import CHROMIUM, CURL, JDK, ROUTER, SERVER, Network


def test_a_quic_record_has_what_its_packets_tell() -> None:
    """Connection IDs in hex, offers, history, frame and times."""
    network = Network()
    network.bystander(0.0)
    network.quic(software=CURL).connects(0.5)
    (record,) = network.explain().quic
    assert (record.client, record.server) == ("192.0.2.10:50001", "198.51.100.1:443")
    assert record.version == "v1"
    assert record.dcid == "d0" + "00" * 18 + "01"
    assert record.client_scid == "00" * 19 + "02"
    assert record.server_scid == "5e00000000000001"
    assert (record.sni, record.alpn) == ("example.org", ["h3"])
    assert record.ja4 is not None
    assert record.ja4.startswith("q13d")
    assert record.history == "ISishHOo"
    assert (record.outcome, record.initials_sent, record.first_packet) == ("established", 1, 2)
    assert record.at == pytest.approx(0.5)
    assert record.ready_at == pytest.approx(0.521)
    assert record.ended_at is None
    assert record.close is None
    assert record.client_guess == "curl or another ngtcp2 client"


def test_an_empty_connection_id_is_not_an_unknown_one() -> None:
    """Chromium's Source Connection ID has no bytes; a server that was not heard has none that is known."""
    network = Network()
    network.quic(software=CHROMIUM).initial(0.0)
    (record,) = network.explain().quic
    assert record.client_scid == ""
    assert record.server_scid is None


def test_a_failed_attempt_ended_with_its_last_packet() -> None:
    """Without a close, `ended_at` is when it was last seen."""
    network = Network()
    network.quic().initials(0.0, 1.0, 3.0)
    network.bystander(10.0)
    (record,) = network.explain().quic
    assert (record.outcome, record.ended_at) == ("unanswered", 3.0)


def test_a_close_is_told_with_its_side() -> None:
    """Code, name, reason and sender of the first close that could be read."""
    network = Network()
    quic = network.quic()
    quic.initial(0.0)
    quic.close(0.1, 0x178, b"no \x07way", by="server")
    (record,) = network.explain().quic
    assert record.close is not None
    assert (record.close.code, record.close.by) == (0x178, "server")
    assert record.close.name is not None
    assert "no_application_protocol" in record.close.name
    assert "\x07" not in record.close.reason
    assert record.ended_at == pytest.approx(0.1)


def test_a_tcp_record_has_its_moments() -> None:
    """SYN, connect, ready, end, and who ended it."""
    network = Network()
    tcp = network.tcp(software=JDK)
    tcp.connects(0.0)
    tcp.fin(2.0, "server")
    (record,) = network.explain().tcp
    assert record.at == 0.0
    assert record.connect_at == pytest.approx(0.02005)
    assert record.ready_at == pytest.approx(0.0411)
    assert (record.ended_at, record.closed_by, record.outcome) == (2.0, "server", "established")
    assert (record.sni, record.alpn, record.alpn_chosen) == ("example.org", ["h2", "http/1.1"], None)


def test_what_is_not_known_is_null() -> None:
    """A connection of which the SYN alone was seen has nothing else."""
    network = Network()
    network.tcp().syn(0.0)
    (record,) = network.explain().tcp
    unknown = (record.sni, record.alpn, record.ja4, record.outcome, record.connect_at, record.ready_at)
    assert unknown == (None, None, None, None, None, None)


def test_an_open_tunnel_counts_what_it_carried() -> None:
    """Bytes after the proxy's answer in both directions; the hello inside is the tunnel's."""
    network = Network()
    tcp = network.tcp(server="192.0.2.3", port=8888)
    tcp.asks_proxy(0.0, "example.org:443")
    tcp.proxy_answers(0.1, 200)
    tcp.segment(0.2, "client", 0x18, b"x" * 100)
    tcp.segment(0.3, "server", 0x18, b"y" * 50)
    tcp.fin(1.0)
    (record,) = [r for r in network.explain().records if isinstance(r, TunnelRecord)]
    assert (record.target, record.method, record.status, record.bytes) == ("example.org:443", "CONNECT", 200, 150)
    assert (record.proxy, record.connection, record.closed_by) == ("192.0.2.3:8888", "tcp-1", "client")


def test_a_refused_tunnel_carried_nothing() -> None:
    """The error page of a proxy is no tunnelled byte."""
    network = Network()
    tcp = network.tcp(server="192.0.2.3", port=8888)
    tcp.asks_proxy(0.0, "[2001:db8::5]:443")
    tcp.proxy_answers(0.1, 403)
    tcp.segment(0.2, "server", 0x18, b"<html>" * 50)
    (record,) = [r for r in network.explain().records if isinstance(r, TunnelRecord)]
    assert (record.target, record.status, record.bytes) == ("[2001:db8::5]:443", 403, 0)
    assert (record.sni, record.alpn) == (None, None)


def test_an_icmp_record_names_its_sender_and_connection() -> None:
    """Who sent it, in words what it means, and what it is about."""
    network = Network()
    quic = network.quic()
    quic.initial(0.0)
    quic.unreachable(0.1, code=(3, 13), sender=ROUTER)
    (record,) = [r for r in network.explain().records if isinstance(r, IcmpRecord)]
    assert (record.icmp_type, record.icmp_code, record.sender) == (3, 13, ROUTER)
    assert (record.connection, record.frame, record.at) == ("quic-1", 2, pytest.approx(0.1))
    assert "prohibited" in record.meaning


def test_a_dns_record_has_the_binding() -> None:
    """An HTTPS answer's protocols, the default one included (RFC 9460, 7.1.1)."""
    network = Network()
    network.https_record(0.0, "example.org", "h3", "h2")
    (record,) = [r for r in network.explain().records if isinstance(r, DnsRecord)]
    assert (record.name, record.alpn, record.priority, record.target) == (
        "example.org",
        ["h3", "h2", "http/1.1"],
        1,
        None,
    )


def test_a_finding_stands_at_its_first_evidence() -> None:
    """`at` is when the finding's first packet was; references lead to records."""
    network = Network()
    network.bystander(0.0)
    network.quic().initials(2.0, 3.0, 5.0)
    finding = network.explain().the("quic-unanswered")
    assert finding.at == pytest.approx(2.0)
    assert finding.evidence[0].at == pytest.approx(2.0)
    assert finding.origin == "example.org:443"


def test_a_nameless_story_is_keyed_by_its_server() -> None:
    """A race has no origin where nobody names one; a finding has the server's address."""
    network = Network()
    network.quic(sni=None).initials(0.0, 1.0)
    network.tcp(sni=None).connects(0.1)
    explained = network.explain()
    assert explained.races[0].origin is None
    assert {finding.origin for finding in explained.findings} == {f"{SERVER}:443"}
