from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from h3probe.events import Endpoint
from h3probe.vantage import synthesis
from h3probe.vantage.bulk import BACKLOG, BYTES, MOST, PACKETS, WINDOW_NS, Bulk, flows_of
from h3probe.vantage.ordinary import Apart
from h3probe.vantage.packets import Packet

CLIENT, SERVER = Endpoint(bytes([10, 0, 0, 1]), 40000), Endpoint(bytes([10, 0, 0, 2]), 443)
CLIENT6, SERVER6 = Endpoint(bytes(15) + b"\x01", 40000), Endpoint(bytes(15) + b"\x02", 443)
PAYLOAD = bytes(20)
TO, FRO = synthesis.udp(CLIENT, SERVER, PAYLOAD), synthesis.udp(SERVER, CLIENT, PAYLOAD)
TO6 = synthesis.udp(CLIENT6, SERVER6, PAYLOAD)
LONG = synthesis.udp(SERVER, CLIENT, b"\xe0handshake")
SYN = synthesis.tcp(CLIENT, SERVER, synthesis.Segment(synthesis.SYN, 1, 0))
FIN = synthesis.tcp(CLIENT, SERVER, synthesis.Segment(synthesis.FIN | synthesis.ACK, 1, 1))
S = 1_000_000_000


def flood(bulk: Bulk, *packets: bytes, count: int, at_ns: int = 0, gap_ns: int = 1000) -> list[int]:
    """Packets by turns; the numbers of those that were not to be kept."""
    kept = [bulk.keep(packets[number % len(packets)], 0, at_ns + number * gap_ns) for number in range(count)]
    return [number for number, keep in enumerate(kept, 1) if not keep]


@pytest.mark.parametrize("packets", [(TO, FRO), (TO6,)])
def test_a_burst_makes_a_flow_bulk(packets: tuple[bytes, ...]) -> None:
    """Both directions count together, over both families, and up to then everything is kept."""
    bulk = Bulk()
    assert flood(bulk, *packets, count=PACKETS - 1) == []
    assert not bulk.changed
    assert flood(bulk, *packets, count=1) == []
    assert bulk.changed
    assert bulk.apart.flows == {(443, 40000)}


def test_aggregates_count_by_their_size() -> None:
    """Some megabytes in a few packets are bulk as well."""
    bulk = Bulk()
    flood(bulk, synthesis.udp(CLIENT, SERVER, bytes(60_000)), count=BYTES // 60_000 + 1)
    assert bulk.apart.flows == {(443, 40000)}


def test_the_same_packets_over_a_longer_time_do_not() -> None:
    """What comes slowly is read whole, however long it goes on."""
    bulk = Bulk()
    assert flood(bulk, TO, FRO, count=20 * PACKETS, gap_ns=WINDOW_NS // 100) == []
    assert not bulk.changed
    assert bulk.apart.flows == frozenset()


def test_many_small_flows_do_not() -> None:
    """A thousand handshakes at once are a thousand flows, and none of them is left out."""
    bulk = Bulk()
    for port in range(10_000, 20_000):
        assert flood(bulk, synthesis.udp(Endpoint(CLIENT.host, port), SERVER, PAYLOAD), count=20, gap_ns=0) == []
    assert bulk.apart.flows == frozenset()


@pytest.mark.parametrize("told", [False, True])
def test_what_came_before_the_filter_knew(told: bool) -> None:  # noqa: FBT001 - a parameter of the test
    """Of a queue of packets those that only count are left apart as the filter would, and no other."""
    bulk = Bulk()
    flood(bulk, TO, count=PACKETS)
    if told:
        bulk.told(S)
    assert len(flood(bulk, TO, FRO, count=100)) == 100
    for each in (LONG, SYN, FIN):
        assert flood(bulk, each, count=100) == []


def test_what_passes_the_filter_is_kept() -> None:
    """What comes later has been judged by the filter."""
    bulk = Bulk()
    flood(bulk, TO, count=PACKETS)
    bulk.told(S)
    assert not bulk.changed
    assert flood(bulk, TO, count=100, at_ns=S + 1) == []


def test_it_calms_down() -> None:
    """A flow of which little is counted in a second is read whole again; one that goes on is not."""
    bulk = Bulk()
    flood(bulk, TO, count=PACKETS)
    bulk.told(1)
    for now_ns in (S // 2, 2 * S):
        bulk.calm_down(now_ns)
    bulk.counted({(443, 40000): (5_000, 500_000), (1, 2): (3, 300)}, 5_006, 5_006)
    bulk.calm_down(4 * S)
    assert bulk.apart.flows
    assert not bulk.changed
    bulk.calm_down(6 * S)
    assert not bulk.apart
    assert bulk.changed


def test_only_so_many_at_once() -> None:
    """The filter stays short: more flows than that are not told apart."""
    bulk = Bulk()
    for port in range(50_000, 50_000 + 2 * MOST):
        flood(bulk, synthesis.udp(Endpoint(CLIENT.host, port), SERVER, PAYLOAD), count=PACKETS)
    assert len(bulk.apart.flows) == MOST


def test_more_than_can_be_read() -> None:
    """When packets pile up, what only counts is left apart of all flows, until as few come as can be read again."""
    bulk = Bulk()
    bulk.waiting(BACKLOG - 1, S)
    assert not bulk.changed
    bulk.waiting(BACKLOG, S)
    assert bulk.apart.everything
    assert bulk.changed
    assert len(flood(bulk, TO, TO6, LONG, count=9, at_ns=S)) == 6
    bulk.told(2 * S)
    bulk.calm_down(2 * S)
    bulk.counted({}, 30_000, 30_000)
    bulk.calm_down(3 * S)
    assert bulk.apart.everything
    bulk.counted({}, 1_000, 1_000)
    bulk.calm_down(4 * S)
    assert not bulk.apart
    assert bulk.changed


def test_who_is_behind_calms_down_nobody() -> None:
    """As long as more waits than is read, or some was lost, few packets that were read prove nothing."""
    bulk = Bulk()
    flood(bulk, TO, count=PACKETS)
    for second in range(2, 9):
        bulk.counted({(443, 40000): (1, 100)}, 1, 5_000)
        bulk.calm_down(second * S)
        assert bulk.apart.flows
    bulk.calm_down(9 * S)
    assert not bulk.apart


def test_all_flows_are_left_apart_as_long_as_others_are_many() -> None:
    """How many packets come of flows that are not transfers is concluded from those that were read."""
    bulk = Bulk()
    flood(bulk, TO, count=PACKETS)
    bulk.waiting(BACKLOG, 0)
    bulk.calm_down(2 * S)
    bulk.counted({(443, 40000): (900, 90_000)}, 1_000, 300_000)
    bulk.calm_down(4 * S)
    assert bulk.apart == Apart(frozenset({(443, 40000)}), everything=True)
    bulk.counted({(443, 40000): (990, 90_000)}, 1_000, 300_000)
    bulk.calm_down(6 * S)
    assert bulk.apart == Apart(frozenset({(443, 40000)}))


def test_few_packets_of_many_bytes_are_bulk() -> None:
    """Aggregates go on to be a transfer though there are not many."""
    bulk = Bulk()
    flood(bulk, TO, count=PACKETS)
    bulk.calm_down(2 * S)
    bulk.counted({(443, 40000): (300, 300 * 64_000)}, 300, 300)
    bulk.calm_down(4 * S)
    assert bulk.apart.flows


def test_the_flows_of_packets() -> None:
    """Both directions of a flow are one, and what has no ports belongs to none."""
    packet = Packet(0, 101, TO6, 9000, "tun0", 0, outgoing=False)
    others = [packet._replace(data=FRO), packet._replace(network=None), packet._replace(data=TO[:30])]
    assert flows_of([packet, *others]) == {(443, 40000): (2, 18_000)}


@given(
    st.one_of(st.binary(max_size=80), st.sampled_from([TO, TO6, SYN, LONG])),
    st.integers(0, 80),
    st.integers(0, 40),
    st.integers(-(2**63), 2**63),
)
def test_anything_may_come(packet: bytes, size: int, before: int, time_ns: int) -> None:
    """Whatever the bytes and the clock are, it counts or leaves them."""
    bulk, network = Bulk(), before
    packet = bytes(before) + packet[:size]
    assert bulk.keep(packet, network, time_ns)
    bulk.calm_down(time_ns)
    assert not bulk.changed
    bulk.waiting(BACKLOG, time_ns)
    bulk.keep(packet, network, time_ns)
