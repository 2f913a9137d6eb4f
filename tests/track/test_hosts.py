from __future__ import annotations

import pytest

from h3probe.events import Endpoint
from h3probe.track.hosts import ADDRESSES_OF_A_HOST, STATIONS_LIMIT, Hosts

STATION = bytes.fromhex("020000000001")
V4 = bytes([192, 0, 2, 1])
V6 = bytes.fromhex("20010db8000100000000000000000001")
V6_PRIVACY = bytes.fromhex("20010db80001000089abcdef01234567")
V6_ELSEWHERE = bytes.fromhex("20010db8000200000000000000000001")
LINK_LOCAL = bytes.fromhex("fe800000000000000000000000000001")


def same(hosts: Hosts, a: bytes, b: bytes) -> bool:
    """Whether two addresses are told to be one host's."""
    return hosts.identity(Endpoint(a, 1)) == hosts.identity(Endpoint(b, 2))


def test_one_station_one_host() -> None:
    """A station's IPv4 address, its IPv6 addresses of one /64 and its link-local one are one host."""
    hosts = Hosts()
    for address in (V4, V6, V6_PRIVACY, LINK_LOCAL):
        hosts.see(STATION, address)
    assert same(hosts, V4, V6)
    assert same(hosts, V6_PRIVACY, LINK_LOCAL)


@pytest.mark.parametrize("stranger", [bytes([203, 0, 113, 9]), V6_ELSEWHERE])
def test_a_router_joins_nobody(stranger: bytes) -> None:
    """A second IPv4 address or another /64 behind a station makes it a router: two strangers are never one host."""
    hosts = Hosts()
    for address in (V4, V6, stranger):
        hosts.see(STATION, address)
    assert not same(hosts, V4, V6)
    assert hosts.identity(Endpoint(V4, 1)) == "192.0.2.1"


def test_too_many_addresses_join_nobody() -> None:
    """A station with more addresses than a host has cannot be told from a router."""
    hosts = Hosts()
    hosts.see(STATION, V4)
    addresses = [V6[:8] + number.to_bytes(8) for number in range(ADDRESSES_OF_A_HOST + 1)]
    for address in addresses:
        hosts.see(STATION, address)
    assert not same(hosts, V4, addresses[0])


def test_without_a_station_an_address_is_itself() -> None:
    """Links without addresses, and the all-zero station of a loopback, join nobody."""
    hosts = Hosts()
    hosts.see(None, V4)
    hosts.see(None, V6)
    hosts.see(bytes(6), V4)
    hosts.see(bytes(6), V6)
    assert not same(hosts, V4, V6)


def test_loopback_and_local_addresses_are_one_host() -> None:
    """127.0.0.1 and ::1 are one host, and so are this host's own addresses where they are known."""
    hosts = Hosts()
    assert same(hosts, bytes([127, 0, 0, 1]), bytes(15) + b"\x01")
    hosts.local = frozenset({V4, V6_ELSEWHERE})
    assert same(hosts, V4, V6_ELSEWHERE)
    assert not same(hosts, V4, V6)


def test_stations_are_limited() -> None:
    """A flood of forged stations does not fill the memory."""
    hosts = Hosts()
    for number in range(STATIONS_LIMIT + 10):
        hosts.see(number.to_bytes(6), number.to_bytes(4))
    assert len(hosts._sent) == STATIONS_LIMIT
