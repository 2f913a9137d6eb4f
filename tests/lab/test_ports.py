from __future__ import annotations

import socket

import pytest

from h3probe.errors import UserError
from h3probe.lab.ports import open_port


def test_one_number_everywhere() -> None:
    """TCP and UDP, IPv4 and IPv6 get the same port, on loopback only."""
    port = open_port()
    try:
        names = [sock.getsockname() for sock in (*port.tcp, *port.udp)]
        assert {name[1] for name in names} == {port.number}
        assert {name[0] for name in names} <= {"127.0.0.1", "::1"}
        assert len(port.tcp) == len(port.udp) >= 1
    finally:
        port.close()


def test_port_in_use_is_a_user_error() -> None:
    """A port that is taken gives one line that names it."""
    port = open_port()
    try:
        with pytest.raises(UserError, match=f"port {port.number} .* is in use"):
            open_port(port.number)
    finally:
        port.close()


def test_tcp_alone_leaves_udp_closed() -> None:
    """Without UDP nothing is bound there."""
    port = open_port(udp=False)
    try:
        assert port.udp == []
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as free:
            free.bind(("127.0.0.1", port.number))
    finally:
        port.close()


def test_failure_leaves_nothing_open() -> None:
    """When UDP is taken, TCP on the same number is free again afterwards."""
    udp = open_port(tcp=False)
    try:
        with pytest.raises(UserError):
            open_port(udp.number)
        open_port(udp.number, udp=False).close()
    finally:
        udp.close()
