from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from h3probe.events import Endpoint
from h3probe.vantage import synthesis
from h3probe.vantage.bulk import MOST, PACKETS, WINDOW_NS, Bulk

CLIENT, SERVER = Endpoint(bytes([10, 0, 0, 1]), 40000), Endpoint(bytes([10, 0, 0, 2]), 443)
CLIENT6, SERVER6 = Endpoint(bytes(15) + b"\x01", 40000), Endpoint(bytes(15) + b"\x02", 443)
PAYLOAD = bytes(20)
TO, FRO = synthesis.udp(CLIENT, SERVER, PAYLOAD), synthesis.udp(SERVER, CLIENT, PAYLOAD)
TO6 = synthesis.udp(CLIENT6, SERVER6, PAYLOAD)
S = 1_000_000_000


def flood(bulk: Bulk, *packets: bytes, count: int, at_ns: int = 0, gap_ns: int = 1000) -> list[bool]:
    """Packets by turns, and whether each changed what is thinned out."""
    return [bulk.saw(packets[number % len(packets)], 0, at_ns + number * gap_ns) for number in range(count)]


@pytest.mark.parametrize("packets", [(TO, FRO), (TO6,)])
def test_a_burst_makes_a_flow_bulk(packets: tuple[bytes, ...]) -> None:
    """Both directions count together, over both families, and the change is told once."""
    bulk = Bulk()
    changes = flood(bulk, *packets, count=PACKETS + 10)
    assert [number for number, changed in enumerate(changes, 1) if changed] == [PACKETS]
    assert bulk.flows == {(443, 40000)}


def test_the_same_packets_over_a_longer_time_do_not() -> None:
    """What comes slowly is read whole, however long it goes on."""
    bulk = Bulk()
    assert not any(flood(bulk, TO, FRO, count=20 * PACKETS, gap_ns=WINDOW_NS // 100))
    assert bulk.flows == frozenset()


def test_many_small_flows_do_not() -> None:
    """A thousand handshakes at once are a thousand flows, and none of them is left out."""
    bulk = Bulk()
    for port in range(10_000, 20_000):
        assert not any(flood(bulk, synthesis.udp(Endpoint(CLIENT.host, port), SERVER, PAYLOAD), count=20, gap_ns=0))
    assert bulk.flows == frozenset()


def test_it_calms_down() -> None:
    """A flow of which little is kept in a second is read whole again; one that goes on is not."""
    bulk = Bulk()
    flood(bulk, TO, count=PACKETS)
    assert not bulk.calmed(S // 2)
    assert not bulk.calmed(2 * S)
    flood(bulk, TO, count=5, at_ns=2 * S)
    assert not bulk.calmed(4 * S)
    assert bulk.flows
    assert bulk.calmed(6 * S)
    assert bulk.flows == frozenset()


def test_only_so_many_at_once() -> None:
    """The filter stays short: more flows than that are read whole."""
    bulk = Bulk()
    for port in range(50_000, 50_000 + 2 * MOST):
        flood(bulk, synthesis.udp(Endpoint(CLIENT.host, port), SERVER, PAYLOAD), count=PACKETS)
    assert len(bulk.flows) == MOST


@given(st.binary(max_size=80), st.integers(0, 40), st.integers(-(2**63), 2**63))
def test_anything_may_come(packet: bytes, network: int, time_ns: int) -> None:
    """Whatever the bytes and the clock are, it counts or leaves them."""
    bulk = Bulk()
    assert bulk.saw(packet, network, time_ns) is False
    assert bulk.calmed(time_ns) is False
