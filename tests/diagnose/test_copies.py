from __future__ import annotations

from dataclasses import replace
from ipaddress import ip_address

from tests.diagnose.scenario import CLIENT, SERVER, Network, Tcp

INSIDE, OUTSIDE = ip_address(CLIENT).packed, ip_address("203.0.113.9").packed


def translated(network: Network, delay: float = 0.001, old: bytes = INSIDE, new: bytes = OUTSIDE) -> None:
    """All that was sent is seen again behind a NAT."""
    network.sent += [replace(p, at=p.at + delay, data=p.data.replace(old, new, 1)) for p in network.sent]


def test_both_sides_of_a_nat_are_one_story() -> None:
    """What a client does is told once, by its own address, with all its connections on the record."""
    network = Network()
    network.quic().initials(0.0, 1.0, 3.0)
    network.tcp().connects(3.5)
    alone = network.explain()
    translated(network)
    explained = network.explain()
    assert explained.sentence == alone.sentence
    assert explained.verdict.client.startswith(CLIENT)
    assert explained.rules == alone.rules
    assert (len(explained.quic), len(explained.tcp)) == (2, 2)


def test_what_a_nat_drops_was_sent_all_the_same() -> None:
    """The side behind it, which lacks QUIC, is not another client that sent none."""
    network = Network()
    network.tcp().connects(3.5)
    translated(network)
    network.quic().initials(0.0, 1.0, 3.0)
    explained = network.explain()
    assert "QUIC was not answered" in explained.sentence


def test_an_answer_on_the_other_side_is_told_of() -> None:
    """What a NAT lets out and not in again was answered all the same."""
    network = Network()
    quic = network.quic()
    quic.initials(0.0, 1.0, 3.0)
    translated(network)
    unsent = len(network.sent)
    quic.answers(0.02)
    answer = network.sent.pop()
    network.send(replace(answer, data=answer.data.replace(INSIDE, OUTSIDE, 1)))
    assert len(network.sent) == unsent + 1
    network.tcp().connects(4.0)
    explained = network.explain()
    assert "it was answered: what came back was lost between the two" in explained.the("quic-unanswered").summary


def test_both_sides_of_a_load_balancer_are_one_story() -> None:
    """A connection from the same port to another server, with the same ClientHello, is the balancer's doing."""
    network = Network()
    network.quic().connects(0.0)
    translated(network, old=ip_address(SERVER).packed, new=ip_address("10.0.0.9").packed)
    explained = network.explain()
    assert explained.stories[0].quic[0].server.address == SERVER
    assert len(explained.stories[0].quic) == 1


def test_a_proxy_that_splits_tcp_is_no_client() -> None:
    """It repeats the ClientHello over a connection of its own."""
    network = Network()
    client = network.tcp()
    client.connects(0.0)
    network.tcp(client="203.0.113.9", hello_of=client).connects(0.3)
    assert network.explain().verdict.client.startswith(CLIENT)


def test_a_client_that_tries_again_later_is_no_copy() -> None:
    """From another address, a second later and more, it may be the client itself that has moved."""
    network = Network()
    client = network.tcp()
    client.connects(0.0)
    again: Tcp = network.tcp(client="203.0.113.9", hello_of=client)
    again.connects(1.5)
    assert len(network.explain().verdicts) == 2


def test_the_same_random_between_strangers_is_no_copy() -> None:
    """Two hosts each that share none, as made-up traffic has them, are two stories."""
    network = Network()
    client = network.tcp()
    client.connects(0.0)
    network.tcp(client="203.0.113.9", server="198.51.100.77", hello_of=client).connects(0.1)
    assert len(network.explain().verdicts) == 2
