from __future__ import annotations

import pytest

from h3probe.events import Frame
from tests.diagnose.scenario import Network, explain


def test_another_protocol_over_quic_is_not_called_http3() -> None:
    """What was offered is named where it is not h3."""
    network = Network()
    network.quic(alpn=("smb",)).connects(0.0)
    assert "HTTP/3" not in network.explain().sentence
    assert "smb" in network.explain().sentence


@pytest.mark.parametrize("how", ["refused", "before"])
def test_tcp_that_was_seen_is_not_denied(how: str) -> None:
    """HTTP/3 beside a TCP connection that was refused, or had begun before the capture: TCP was seen."""
    network = Network()
    tcp = network.tcp()
    if how == "refused":
        tcp.syn(5.0)
        tcp.refuse(5.01)
    else:
        tcp.connects(-10.0)
        tcp.exchanges(5.0)
    network.quic().connects(0.0)
    sentence = network.explain(seen=lambda packet: packet.at >= 0).sentence
    assert sentence.startswith("HTTP/3")
    assert "no TCP was" not in sentence
    assert "from the first request" not in sentence or how == "refused"


def test_names_that_only_tcp_tells_keep_quic_from_being_the_first() -> None:
    """QUIC that names no origin, beside TCP to the same address for two, is not said to be alone."""
    network = Network()
    network.tcp(sni="one.example").connects(0.0)
    network.tcp(sni="two.example").connects(0.1)
    network.quic(sni=None).connects(0.2)
    (told,) = [verdict.sentence for verdict in network.explain().verdicts if verdict.sentence.startswith("HTTP/3")]
    assert "from the first request" not in told
    assert told.endswith("TCP to the same address is for names, which no QUIC packet tells here.")


def test_what_a_snaplen_cut_of_tcp_is_not_judged() -> None:
    """TCP whose hellos were cut may have got ready: nothing is said of its failure, and QUIC is not the first."""
    network = Network()
    network.tcp().connects(0.0)
    network.quic().connects(0.1)
    frames = [event for event in network.events() if isinstance(event, Frame)]
    told = explain(Frame(f.number, f.time_ns, f.link_type, f.data[:100], f.length) for f in frames).sentence
    assert "from the first request" not in told
    assert "did not get ready" not in told


@pytest.mark.parametrize(("answered", "words"), [(True, "was not ready"), (False, "had got no answer")])
def test_quic_that_was_still_pending_is_told_as_that(words: str, *, answered: bool) -> None:
    """What TCP overtook had not failed: it was not answered yet, or not ready yet."""
    network = Network()
    quic, tcp = network.quic(), network.tcp()
    quic.initial(0.0)
    if answered:
        quic.answers(0.1)
    tcp.connects(0.01)
    tcp.fin(0.2)
    assert words in network.explain().sentence


def test_a_version_that_nobody_speaks_is_a_question() -> None:
    """A client that asks so for the server's versions does not expect to be understood."""
    network = Network()
    quic = network.quic(version=0x1A2A3A4A)
    quic.initial(0.0)
    quic.version_negotiation(0.02, 1)
    network.tcp().connects(1.0)
    assert network.explain().sentence.endswith("with QUIC the client asked for the server's versions, no more.")


@pytest.mark.parametrize("recovers", [True, False])
def test_a_server_that_goes_away_is_told(*, recovers: bool) -> None:
    """Its host's ICMP error ends what QUIC could carry, unless the server is heard of again."""
    network = Network()
    quic = network.quic()
    quic.connects(0.0)
    quic.request(5.021)
    quic.unreachable(5.021)
    if recovers:
        quic.request(5.3)
        quic.response(5.32)
    told = network.explain().sentence.endswith(" QUIC was refused 5.00 s after it was ready (ICMP port unreachable).")
    assert told is not recovers


def test_a_servers_other_port_that_does_not_answer_is_a_notice() -> None:
    """The origin's own port carries on meanwhile: nothing is known to have failed."""
    network = Network()
    tcp = network.tcp()
    tcp.connects(0.0)
    network.quic(port=8443).initials(1.0, 2.0, 4.0, 8.0)
    tcp.exchanges(9.0)
    explained = network.explain()
    assert explained.the("quic-unanswered").severity == "notice"
    sentence = next(v.sentence for v in explained.verdicts if v.origin == "example.org:8443")
    assert sentence.endswith("and TCP for the same name went to port 443.")
