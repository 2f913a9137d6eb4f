from __future__ import annotations

from h3probe.wire.quic.versions import V1, V2
from tests.diagnose.scenario import CLIENT, Network

RULE = "quic-version-mismatch"
DRAFT_29, RESERVED = 0xFF00001D, 0x1A2A3A4A


def test_no_common_version_is_told_with_both_lists() -> None:
    """Version Negotiation that ends an attempt names what both sides speak."""
    network = Network()
    network.dns(0.0, "example.org", "198.51.100.1", client=CLIENT)
    quic = network.quic()
    quic.initial(0.0)
    quic.version_negotiation(0.02, DRAFT_29, RESERVED)
    finding = network.explain().the(RULE)
    assert finding.severity == "problem"
    assert "does not speak v1: it offers draft-29, the client v1" in finding.summary
    assert "0x1a2a3a4a" not in finding.summary
    assert [row.frame for row in finding.evidence] == [2, 3]


def test_a_client_that_goes_on_with_another_version_lost_a_round_trip() -> None:
    """Where a second attempt in a common version succeeds, it is information."""
    network = Network()
    quic = network.quic(version=V2, available=(V1,))
    quic.initial(0.0)
    quic.version_negotiation(0.02, V1)
    quic.again(V1)
    quic.connects(0.021)
    explained = network.explain()
    assert explained.the(RULE).severity == "info"
    assert "went on with v1" in explained.the(RULE).summary
    assert explained.summary.exit_status == 0
    assert "none of the client's QUIC versions" not in explained.sentence


def test_asking_with_a_reserved_version_is_no_mismatch() -> None:
    """A client may greet with a version that nobody speaks, to learn the server's (RFC 9000, 6.3)."""
    network = Network()
    quic = network.quic(version=RESERVED)
    quic.initial(0.0)
    quic.version_negotiation(0.02, V1, V2)
    quic.again(V1)
    quic.connects(0.021)
    explained = network.explain()
    assert explained.the(RULE).severity == "info"
    assert "asked" in explained.the(RULE).summary
    assert "none of the client's QUIC versions" not in explained.sentence
    assert explained.sentence.startswith("HTTP/3")


def test_a_list_with_the_clients_own_version_is_ignored() -> None:
    """Such a packet is forged or stray (RFC 9000, 6.2): the client goes on, and so does the diagnosis."""
    network = Network()
    quic = network.quic()
    quic.initial(0.0)
    quic.version_negotiation(0.01, V1, DRAFT_29)
    quic.completes(0.02)
    assert network.explain().findings == []


def test_a_packet_that_echoes_other_ids_is_ignored() -> None:
    """An attacker off the path does not know the connection IDs."""
    network = Network()
    quic, other = network.quic(), network.quic()
    other.client_port = quic.client_port
    quic.initial(0.0)
    other.version_negotiation(0.01, DRAFT_29)
    quic.completes(0.02)
    assert network.explain().findings == []


def test_after_another_answer_it_is_ignored() -> None:
    """Once the server has answered in the version, no packet can undo that."""
    network = Network()
    quic = network.quic()
    quic.initial(0.0)
    quic.answers(0.01)
    quic.version_negotiation(0.015, DRAFT_29)
    quic.completes(0.02)
    assert network.explain().findings == []


def test_version_2_from_the_start_is_none() -> None:
    """A connection in QUIC version 2 is a connection."""
    network = Network()
    network.quic(version=V2).connects(0.0)
    explained = network.explain()
    assert explained.findings == []
    assert explained.quic[0].version == "v2"


def test_an_unknown_version_that_is_not_answered_is_not_judged() -> None:
    """Of a version that nobody can read nothing is said."""
    network = Network()
    network.quic(version=0x12345678).initials(0.0, 1.0, 3.0, 7.0)
    assert network.explain().findings == []


def test_two_versions_in_common_need_no_update() -> None:
    """What the client went on with is spoken by both: nothing has to be updated, and it is one attempt."""
    network = Network()
    quic = network.quic(version=V2)
    quic.initial(0.0)
    quic.version_negotiation(0.02, V1)
    quic.again(V1)
    quic.connects(0.03)
    explained = network.explain()
    finding = explained.the(RULE)
    assert "the client v2" not in finding.summary
    assert finding.advice.startswith("Nothing need be done")
    assert explained.sentence == "HTTP/3, ready after 51 ms, Version Negotiation to v1 included; no TCP was seen."


def test_tcp_after_it_is_no_race() -> None:
    """A client that learned that there is no common version had nothing left to race with."""
    network = Network()
    quic = network.quic()
    quic.initial(0.0)
    quic.version_negotiation(0.02, V2)
    network.tcp().connects(0.05)
    explained = network.explain()
    assert explained.races == []
    assert explained.sentence == "HTTP/2 or HTTP/1.1, not HTTP/3: the server does not speak QUIC v1."
