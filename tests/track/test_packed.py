"""Packed connections."""

from __future__ import annotations

from typing import TYPE_CHECKING

from h3probe.track.packed import PackedConnections
from tests.diagnose.scenario import JDK, Network

if TYPE_CHECKING:
    from h3probe.track.tracker import Connection


def connections() -> list[Connection]:
    """Some of each transport, of two clients, answered and not, one of them through a proxy."""
    network = Network()
    for number, client in enumerate(["192.0.2.10", "192.0.2.11"] * 2):
        network.quic(client=client, software=JDK).connects(float(number))
        network.quic(client=client).initials(number + 0.1, number + 1.1)
        network.tcp(client=client).connects(number + 0.2)
    proxied = network.tcp(client="192.0.2.10", server="192.0.2.3", port=8888)
    proxied.asks_proxy(5.0, "other.example:443")
    proxied.proxy_answers(5.1, 200)
    proxied.gets_ready(5.2)
    return list(network.explain().engine._kept)


def test_what_was_packed_is_unpacked() -> None:
    """Connections come back equal, each client's in the order in which they were put in, and once."""
    before = connections()
    packed = PackedConnections()
    packed.put(before[:5])
    packed.put(before[5:])
    assert len(packed) == len(before) == 13
    hosts = [client.host for client in packed.clients]
    assert [host.hex(".") for host in hosts] == ["c0.00.02.0a", "c0.00.02.0b"]
    for host in hosts:
        assert packed.take([host], 99) == [c for c in before if c.client.host == host]
    assert (len(packed), packed.left_out, packed.take(hosts, 99)) == (0, 0, [])


def test_what_was_sent_through_tunnels_is_known() -> None:
    """The random of a ClientHello inside a tunnel is remembered, and no other one."""
    packed = PackedConnections()
    packed.put(connections())
    (random,) = packed.tunnelled
    (proxied,) = [c for c in connections() if c.server.port == 8888]
    assert proxied.hello is not None
    assert proxied.hello.random == random


def test_the_room_is_bounded() -> None:
    """What does not fit is counted; room that is given back is there again."""
    many = connections()
    none = PackedConnections(room=1)
    none.put(many)  # The first client's may go beyond it.
    none.put(many)
    assert (len(none), none.left_out) == (7, 19)
    none.take([client.host for client in none.clients], 99)
    none.put(many[:1])
    assert len(none) == 1


def test_a_client_that_comes_once_takes_no_more_room_than_others() -> None:
    """Packed one by one, connections take some more room than together, though none came at first."""
    many = connections()
    rooms = []
    for put in ([many, many], [many, *([c] for c in many)]):
        packed = PackedConnections()
        packed.put([])
        packed.put(put[0])
        before = packed._room
        for some in put[1:]:
            packed.put(some)
        rooms.append(before - packed._room)
    together, apart = rooms
    assert apart < 3 * together


def test_no_more_is_unpacked_than_is_wanted() -> None:
    """Of a client's connections the first ones come, over all that it was packed in; the others are counted."""
    many = [c for c in connections() if c.client.address == "192.0.2.10"]
    packed = PackedConnections()
    for one, other in zip(many[::2], many[1::2], strict=False):
        packed.put([one, other])
    assert packed.take([many[0].client.host], 3) == many[:3]
    assert (len(packed), packed.left_out) == (0, len(many) // 2 * 2 - 3)
    packed.put(many)
    assert packed.take([many[0].client.host], -5) == []
