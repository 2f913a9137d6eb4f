from __future__ import annotations

from tests.diagnose.scenario import CLIENT, CLIENT6, SERVER6, STATION, Network


def both_families(network: Network, at: float = 0.3, sni: str = "example.org") -> None:
    """QUIC in vain over IPv6, and TCP over IPv4; other hosts show that the capture holds both transports."""
    network.https_record(0.0, "example.org", "h3", "h2")
    network.quic(client=CLIENT6, server=SERVER6).initials(0.01, 1.01, 3.01)
    network.tcp(sni=sni).connects(at)
    network.tcp(client="203.0.113.7", sni="other.example").connects(0.5)


def test_neither_address_denies_what_the_other_one_did() -> None:
    """Without a link layer they may be one host's: no QUIC, or no TCP, is not said of it."""
    network = Network()
    both_families(network)
    explained = network.explain()
    assert set(explained.rules) == {"quic-unanswered"}
    sentences = {v.client.split()[0]: v.sentence for v in explained.verdicts}
    assert f"QUIC for the same name left {CLIENT6}, which may be the same host's" in sentences[CLIENT]
    assert f"TCP for the same name left {CLIENT}, which may be the same host's" in sentences[CLIENT6]
    assert explained.the("quic-unanswered").severity == "notice"


def test_one_station_is_one_story() -> None:
    """Where the link layer tells, nothing needs to be left open."""
    network = Network(stations={CLIENT: STATION, CLIENT6: STATION})
    both_families(network)
    assert not any(story.across for story in network.explain().stories)


def test_another_time_or_name_is_another_matter() -> None:
    """What the other family asked for much later, or of somebody else, takes nothing back."""
    for later in ({"at": 60.0}, {"sni": "elsewhere.example"}):
        network = Network()
        both_families(network, **later)
        assert not any(story.across for story in network.explain().stories)


def test_several_hosts_of_the_other_family_are_a_crowd() -> None:
    """Which of them might be the same host cannot be told, as in a server's capture."""
    network = Network()
    both_families(network)
    network.quic(client="2001:db8:c::7", server=SERVER6).connects(0.1)
    assert not any(s.across for s in network.explain().stories if s.client.startswith(CLIENT))


def test_quic_across_is_named_where_nothing_got_through() -> None:
    """An address whose QUIC was in vain, beside one whose QUIC was not."""
    network = Network()
    network.quic(client=CLIENT6, server=SERVER6).initials(0.0, 1.0, 3.0)
    network.quic().connects(0.3)
    network.tcp(client="203.0.113.7", sni="other.example").connects(0.5)
    sentences = {v.client.split()[0]: v.sentence for v in network.explain().verdicts}
    assert f"and QUIC for the same name left {CLIENT}, which may be the same host's" in sentences[CLIENT6]
    assert "no-fallback" not in network.explain().rules
