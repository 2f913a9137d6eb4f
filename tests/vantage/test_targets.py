from __future__ import annotations

import socket

import pytest

from h3probe.events import Endpoint
from h3probe.vantage.targets import Targets, endpoint, local_endpoint, split_host_and_port


def test_preferred_address_comes_first() -> None:
    """The address that last answered is tried first, the others in the resolver's order."""
    addresses = [(socket.AF_INET6, ("::1", 1)), (socket.AF_INET, ("127.0.0.1", 1)), (socket.AF_INET, ("127.0.0.2", 1))]
    targets = Targets(list(addresses))
    assert targets.order() == [0, 1, 2]
    targets.preferred = 2
    assert targets.order() == [2, 0, 1]


@pytest.mark.parametrize(
    ("address", "expected"),
    [
        (("127.0.0.1", 80), Endpoint(bytes([127, 0, 0, 1]), 80)),
        (("::1", 80, 0, 0), Endpoint(bytes(15) + b"\x01", 80)),
        (("fe80::1%eth0", 80, 0, 2), Endpoint(bytes([0xFE, 0x80]) + bytes(13) + b"\x01", 80)),
    ],
)
def test_endpoint(address: tuple[object, ...], expected: Endpoint) -> None:
    """A socket address is packed as on the wire."""
    assert endpoint(address) == expected


def test_local_endpoint_of_a_wildcard_socket() -> None:
    """A socket that is bound to all addresses is known to a client by the one that answers it."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as listener:
        listener.bind(("0.0.0.0", 0))  # noqa: S104 - what the test is about
        port = listener.getsockname()[1]
        assert local_endpoint(listener, ("127.0.0.1", 9)) == Endpoint(bytes([127, 0, 0, 1]), port)


def test_local_endpoint_of_a_bound_socket() -> None:
    """A socket that is bound to one address is known by that."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as listener:
        listener.bind(("127.0.0.1", 0))
        assert local_endpoint(listener, ("127.0.0.9", 9)) == endpoint(listener.getsockname())


def test_a_host_and_a_port() -> None:
    """The host may be missing, an IPv6 address has brackets, and what else no host has in it is the caller's choice."""
    assert split_host_and_port("443", lowest=1) == (None, 443)
    assert split_host_and_port("[::1]:443", lowest=1) == ("::1", 443)
    assert split_host_and_port("a=b:443", lowest=1) == ("a=b", 443)
    for text, barred in (("0", ""), ("::1:443", ""), ("a@b:443", ""), (":443", ""), ("a=b:443", "=")):
        with pytest.raises(ValueError, match="is no"):
            split_host_and_port(text, lowest=1, barred=barred)
