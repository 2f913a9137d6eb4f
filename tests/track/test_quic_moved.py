from __future__ import annotations

import pytest

from h3probe.track.quic_moved import Looks
from tests.diagnose.scenario import Network, Quic


def established(network: Network) -> Quic:
    """A connection that has carried something."""
    quic = network.quic()
    quic.connects(0.0)
    quic.response(0.1)
    return quic


def test_a_client_whose_address_changes_is_on_the_same_connection() -> None:
    """A NAT that gives it another port does not change the server's connection ID, and makes no second connection."""
    network = Network()
    quic = established(network)
    quic.client_port += 7
    for at in range(5, 11):
        quic.request(float(at))
        quic.response(at + 0.02)
    explained = network.explain()
    (record,) = explained.quic
    assert record.outcome == "established"
    assert explained.rules == []
    assert explained.sentence.startswith("HTTP/3 from the first request")


def test_what_moves_is_counted() -> None:
    """The connection is alive, and has carried, as long as packets come from where it moved to."""
    network = Network()
    quic = established(network)
    before = network.explain().stories[0].quic[0]
    quic.client_port += 7
    quic.request(5.0, size=100)
    after = network.explain().stories[0].quic[0]
    assert after.client_bytes == before.client_bytes + 1 + len(quic.server_scid) + 100
    assert after.last.time_ns - before.last.time_ns == pytest.approx(4.9e9)


def test_a_server_that_names_another_address_is_not_dated() -> None:
    """A connection that goes on elsewhere by an ID told in secret was under way when it is seen there, no more."""
    network = Network()
    quic = established(network)
    quic.server = "198.51.100.99"
    for at in range(1, 7):
        quic.request(float(at))
        quic.response(at + 0.02)
    there = next(v for v in network.explain().verdicts if v.origin == "198.51.100.99:443")
    assert there.sentence.startswith("What looks like QUIC, under way already when it was first seen")


@pytest.mark.parametrize(
    ("firsts", "quic"),
    [
        ((0x41, 0x5A, 0x4C, 0x63), True),
        ((0x41, 0x1A, 0x4C, 0x63, 0x52), True),
        ((0x48,) * 8, False),
        ((0x38, 0x40, *(0x48,) * 8), False),
        ((0x41, 0x9A, 0x4C, 0x63, 0x52), False),
    ],
)
def test_quic_from_before_the_capture_is_known_by_its_looks(firsts: tuple[int, ...], *, quic: bool) -> None:
    """First bytes that header protection makes random are QUIC's; those of a VPN stay the same, noise has high bits."""
    looks = Looks([0, 0])
    for number, first in enumerate(firsts):
        looks.take(bytes((first,)) + bytes(40), number % 2)
    assert looks.is_quic is quic


def test_one_direction_is_not_enough() -> None:
    """Nobody's answer is nobody's connection."""
    looks = Looks([0, 0])
    for first in (0x41, 0x5A, 0x4C, 0x63, 0x77):
        looks.take(bytes((first,)) + bytes(40), 0)
    assert not looks.is_quic
