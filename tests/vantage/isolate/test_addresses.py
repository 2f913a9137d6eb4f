from __future__ import annotations

from dataclasses import fields
from ipaddress import IPv4Interface, IPv6Interface, ip_address

import pytest

from h3probe.vantage.isolate.addresses import PASTA, SLIRP, Addresses


@pytest.mark.parametrize("addresses", [PASTA, SLIRP], ids=["pasta", "slirp4netns"])
def test_everybody_has_an_address_of_their_own(addresses: Addresses) -> None:
    """No two are the same, and each is where its routes are: on the uplink, or between client and middle."""
    texts = [getattr(addresses, field.name) for field in fields(addresses) if field.name != "tap_prefix"]
    assert len(set(texts)) == len(texts)
    uplink = IPv4Interface(f"{addresses.tap}/{addresses.tap_prefix}").network
    pair = IPv4Interface(f"{addresses.client}/30").network
    assert {ip_address(addresses.host) in uplink, ip_address(addresses.dns) in uplink} == {True}
    assert ip_address(addresses.middle) in pair
    assert not uplink.overlaps(pair)
    uplink6 = IPv6Interface(f"{addresses.tap6}/64").network
    pair6 = IPv6Interface(f"{addresses.client6}/64").network
    assert ip_address(addresses.host6) in uplink6
    assert ip_address(addresses.middle6) in pair6
    assert not uplink6.overlaps(pair6)


def test_without_a_middle_the_client_is_on_the_uplink() -> None:
    """It has the address that was the middle's there."""
    direct = PASTA.without_middle()
    assert (direct.client, direct.client6) == (PASTA.tap, PASTA.tap6)
    assert direct.host == PASTA.host
