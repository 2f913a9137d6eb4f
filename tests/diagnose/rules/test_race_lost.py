from __future__ import annotations

from tests.diagnose.scenario import CLIENT, CURL, JDK, Network, Quic, Tcp

RULE = "race-lost"


def test_a_race_that_tcp_carried_is_told() -> None:
    """QUIC that never got anywhere beside TCP that carried an exchange lost the race."""
    network = Network()
    quic = network.quic(software=CURL)
    quic.initials(0.0, 1.0)
    network.tcp(software=CURL).connects(0.1)
    explained = network.explain()
    finding = explained.the(RULE)
    assert finding.severity == "notice"
    assert "HTTP/2 or HTTP/1.1" in finding.summary
    assert "not answered" in finding.summary
    assert "ready after 141 ms" in finding.summary
    assert {row.frame for row in finding.evidence} == {1, 2, 7}
    assert explained.races[0].carried == "tcp"
    assert explained.races[0].carried_known_from == "inferred"


def test_a_client_that_leaves_before_quic_failed_lost_it_too() -> None:
    """curl is done over TCP after 50 ms and closes: QUIC cannot have carried anything."""
    network = Network()
    network.quic(software=CURL).initial(0.0)
    tcp = network.tcp(software=CURL)
    tcp.connects(0.1)
    tcp.fin(0.2)
    assert network.explain().the(RULE).summary.endswith("QUIC had not been answered.")


def test_both_ready_has_no_loser() -> None:
    """Ready is not carried: with both ready, the race is reported and nobody is said to have lost."""
    for tcp_at, first in ((0.005, "tcp"), (0.09, "quic")):
        network = Network()
        network.quic(software=JDK).connects(0.0, rtt=0.1)
        network.tcp(software=JDK).connects(tcp_at)
        explained = network.explain()
        assert explained.found(RULE) == []
        (race,) = explained.races
        assert (race.carried, race.carried_known_from) == (None, None)
        assert race.first_ready == first


def test_quic_that_may_still_answer_has_not_lost() -> None:
    """A capture that ends while QUIC waits for its first answer cannot tell."""
    network = Network()
    network.quic().initial(0.0)
    network.tcp().connects(0.1)
    explained = network.explain()
    assert explained.found(RULE) == []
    assert explained.races[0].carried is None


def test_tcp_that_carried_nothing_has_not_won() -> None:
    """A TCP connection that got ready and stayed silent (a preconnect) carried no exchange."""
    network = Network()
    network.quic().initials(0.0, 1.0, 3.0)
    network.tcp().opens(0.1)
    assert network.explain().found(RULE) == []


def test_a_request_without_a_response_is_no_exchange() -> None:
    """What TCP sent and nobody answered was not carried."""
    network = Network()
    network.quic().initials(0.0, 1.0, 3.0)
    tcp = network.tcp()
    tcp.opens(0.1)
    tcp.request(0.2)
    assert network.explain().found(RULE) == []


def test_a_fallback_is_no_race() -> None:
    """A SYN after the head start races nobody."""
    network = Network()
    network.quic().initials(0.0, 1.0)
    network.tcp().connects(1.5)
    explained = network.explain()
    assert explained.races == []
    assert explained.found(RULE) == []


def test_a_client_that_learns_http3_from_the_response_is_no_race() -> None:
    """QUIC that begins after TCP was ready is a discovery, however soon it comes."""
    network = Network()
    network.tcp().connects(0.0)
    network.quic().connects(0.2)
    explained = network.explain()
    assert explained.races == []
    assert explained.findings == []


def test_another_name_at_the_same_address_is_no_race() -> None:
    """Two names behind one address of a CDN, asked for at the same moment."""
    network = Network()
    network.quic(sni="one.example").initials(0.0, 1.0)
    network.tcp(sni="two.example").connects(0.05)
    explained = network.explain()
    assert explained.races == []


def test_parallel_connections_of_a_browser_are_one_race() -> None:
    """Several TCP connections beside one QUIC attempt are one race, told once."""
    network = Network()
    network.quic().initials(0.0, 1.0)
    for at in (0.05, 0.06, 0.07):
        network.tcp().connects(at)
    explained = network.explain()
    assert len(explained.races) == 1
    assert explained.the(RULE)


def test_quic_that_worked_beside_a_dead_address_has_not_lost() -> None:
    """One of two QUIC attempts of a race was ready: the dead one does not decide."""
    network = Network()
    network.quic(server="198.51.100.2").initials(0.0, 1.0)
    network.quic().connects(0.05)
    network.tcp().connects(0.1)
    explained = network.explain()
    assert explained.found(RULE) == []
    assert explained.races[0].carried is None


def test_a_race_that_quic_won_has_no_finding() -> None:
    """TCP was refused and QUIC carried something: QUIC won."""
    network = Network()
    network.quic().connects(0.0)
    tcp = network.tcp(sni=None)
    tcp.syn(0.001)
    tcp.refuse(0.002)
    explained = network.explain()
    assert explained.found(RULE) == []
    assert explained.races[0].carried == "quic"


def test_another_hosts_tcp_is_no_race() -> None:
    """Two machines that ask for the same origin at the same moment do not race each other."""
    network = Network()
    network.quic(client=CLIENT).initials(0.0, 1.0)
    network.tcp(client="192.0.2.77").connects(0.05)
    assert network.explain().races == []


def both_ready(network: Network) -> tuple[Quic, Tcp]:
    """A race that the client's log, say, has TCP carry, with QUIC ready too."""
    quic, tcp = network.quic(software=JDK), network.tcp(software=JDK)
    quic.connects(0.0)
    tcp.connects(0.01)
    return quic, tcp


def test_what_quic_carried_later_is_the_logs_word() -> None:
    """A log that tells of later requests over HTTP/3 has them counted."""
    network = Network()
    quic, tcp = both_ready(network)
    network.told(0.1, tcp, "HTTP/2")
    for at in (0.2, 0.3):
        quic.request(at)
        quic.response(at + 0.02)
        network.told(at + 0.03, quic, "HTTP/3", scid=quic.client_scid)
    summary = network.explain().the(RULE).summary
    assert summary.endswith("TCP, and carried 2 later requests, by the client's own log.")


def test_quic_that_carried_none_is_not_said_to_have() -> None:
    """Settings and acknowledgements are 1-RTT traffic too: the log tells that no request was among it."""
    network = Network()
    _, tcp = both_ready(network)
    network.told(0.1, tcp, "HTTP/2")
    assert network.explain().the(RULE).summary.endswith("TCP, and carried no request, by the client's own log.")


def test_an_answer_that_leads_to_no_connection_may_have_been_on_it() -> None:
    """What the log tells of and nobody can place leaves open what QUIC carried."""
    network = Network()
    _, tcp = both_ready(network)
    network.told(0.1, tcp, "HTTP/2")
    network.told(0.2, None, "HTTP/3", local_port=9)
    assert "carried no request" not in network.explain().the(RULE).summary


def test_what_no_log_tells_is_bytes() -> None:
    """Decrypted TCP says nothing of QUIC, of which everyone sees bytes, and no requests."""
    network = Network()
    quic, tcp = network.quic(software=JDK), network.tcp(software=JDK)
    tcp.connects(0.01)
    network.told(0.1, tcp, "HTTP/2", known_from="decrypted")
    quic.initial(0.0)
    quic.completes(0.2)
    summary = network.explain().the(RULE).summary
    assert "request" not in summary
    assert summary.endswith("of the server's followed on it, encrypted.")
