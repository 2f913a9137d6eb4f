from __future__ import annotations

import socket

import pytest

from h3probe.errors import UserError
from h3probe.vantage.proxy_ports import claim


def test_any_free_port() -> None:
    """Port 0 gives one that can be bound, on all addresses that there are."""
    hosts, port = claim(None, 0, udp=True)
    assert "127.0.0.1" in hosts
    for kind in (socket.SOCK_STREAM, socket.SOCK_DGRAM):
        with socket.socket(socket.AF_INET, kind) as bound:
            bound.bind(("127.0.0.1", port))


@pytest.mark.parametrize("kind", [socket.SOCK_STREAM, socket.SOCK_DGRAM])
def test_a_port_in_use(kind: socket.SocketKind) -> None:
    """A port that somebody listens on is refused, with what to do."""
    with socket.socket(socket.AF_INET, kind) as taken:
        taken.bind(("127.0.0.1", 0))
        if kind == socket.SOCK_STREAM:
            taken.listen()
        with pytest.raises(UserError, match="in use here: give another one"):
            claim(None, taken.getsockname()[1], udp=True)


def test_udp_is_not_looked_at_where_it_is_not_wanted() -> None:
    """An explicit proxy does not mind who has the port for UDP."""
    _, port = claim("127.0.0.1", 0, udp=True)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as taken:
        taken.bind(("127.0.0.1", port))
        assert claim("127.0.0.1", port, udp=False) == (["127.0.0.1"], port)


def test_no_address_of_this_host() -> None:
    """An address of another host is refused, and so is what is none."""
    with pytest.raises(UserError, match=r"cannot listen on 192\.0\.2\.1"):
        claim("192.0.2.1", 0, udp=False)
    with pytest.raises(UserError, match="no address of this host"):
        claim("no such host.invalid", 0, udp=False)
