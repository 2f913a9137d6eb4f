"""Addresses keep family, kind and shape."""

from __future__ import annotations

import ipaddress
from itertools import count

from hypothesis import assume, given, settings
from hypothesis import strategies as st

from h3probe.redact import addresses
from h3probe.redact.mapping import Mapping

MAPPING = Mapping(bytes(range(32)))
# Of these, single addresses and small networks are of other kinds (IANA's special-purpose registry).
SPECIAL = ipaddress.ip_network("2001::/23")


def packed(text: str) -> bytes:
    """An address, packed."""
    return ipaddress.ip_address(text).packed


@settings(deadline=None)
@given(st.ip_addresses())
def test_kind_and_length_of_the_text_stay(address: ipaddress.IPv4Address | ipaddress.IPv6Address) -> None:
    """Whatever is replaced is still of its family, as private, local, loopback or multicast, and as long as text."""
    assume(address not in SPECIAL)
    replaced = ipaddress.ip_address(MAPPING.address(address.packed))
    assert replaced.version == address.version
    if not address.packed.startswith(addresses.EMBEDDING):  # which has the decimal digits of what it embeds
        assert len(str(replaced)) == len(str(address))
    for kind in ("is_loopback", "is_private", "is_global", "is_multicast", "is_link_local", "is_unspecified"):
        assert getattr(replaced, kind) == getattr(address, kind), kind


@settings(deadline=None)
@given(st.sampled_from((4, 16)), st.binary(min_size=8, max_size=8), st.data())
def test_a_network_stays_a_network(size: int, network: bytes, data: st.DataObject) -> None:
    """Two addresses of one /24 or /64 are of one afterwards; two addresses stay two."""
    length = 3 if size == 4 else 8
    hosts = st.binary(min_size=size - length, max_size=size - length)
    one, two = (network[:length] + data.draw(hosts) for _ in range(2))
    first, second = MAPPING.address(one), MAPPING.address(two)
    if not (addresses.is_kept(one) or addresses.is_kept(two)) and not one.startswith(addresses.EMBEDDING):
        assert first[:length] == second[:length]
    assert (first == second) == (one == two)


def test_every_host_of_a_network_gets_an_address_of_its_own() -> None:
    """A whole /24 is mapped one to one, the network's and the broadcast address onto those."""
    mapped = {last: MAPPING.address(bytes((10, 9, 8, last))) for last in range(256)}
    assert len(set(mapped.values())) == 256
    assert mapped[0][3] == 0
    assert mapped[255][3] == 255
    assert mapped[7][:3] != bytes((10, 9, 8))


def test_what_names_nobody_stays() -> None:
    """Loopback, unspecified, broadcast, and well-known groups are as they were."""
    for text in ("127.0.0.1", "127.0.0.53", "::1", "0.0.0.0", "255.255.255.255", "224.0.0.251", "ff02::fb"):  # noqa: S104
        assert MAPPING.address(packed(text)) == packed(text)


def test_an_embedded_address_is_the_same_address() -> None:
    """An IPv4 address is replaced alike where it stands in an IPv6 one (RFC 4291, 2.5.5.2; RFC 6052)."""
    plain = MAPPING.address(packed("203.0.114.9"))
    assert MAPPING.address(packed("::ffff:203.0.114.9"))[12:] == plain
    assert MAPPING.address(packed("64:ff9b::203.0.114.9"))[12:] == plain


def test_a_solicited_node_group_does_not_tell_the_node() -> None:
    """The group that holds the end of an address (RFC 4291, 2.7.1) is another one of its kind."""
    replaced = MAPPING.address(packed("ff02::1:ff12:3456"))
    assert replaced[:13] == packed("ff02::1:ff00:0")[:13]
    assert replaced[13:] != bytes.fromhex("123456")


@settings(deadline=None)
@given(st.binary(min_size=6, max_size=6))
def test_link_layer_addresses(address: bytes) -> None:
    """A station becomes a locally administered one, a group one of its range; zeros and all ones stay."""
    replaced = MAPPING.mac(address)
    assert replaced[0] & 1 == address[0] & 1
    if addresses.is_kept_mac(address):
        assert replaced == address
    elif address[:2] == b"\x33\x33" or address[:3] == b"\x01\x00\x5e":
        assert replaced[:2] == address[:2]
    else:
        assert replaced[0] & 2
        assert replaced != address


def test_candidates_end() -> None:
    """A network of which nothing can be replaced does not keep anybody busy."""
    documentation = packed("192.0.2.0")
    assert set(addresses.candidates(documentation, None, count())) == {documentation}
