from __future__ import annotations

import os
import socket
import time
from typing import TYPE_CHECKING

import pytest

from h3probe.errors import PrivilegeError
from h3probe.vantage.scapy_sockets import ScapySource
from tests.vantage.test_bpf import UDP4, ethernet

if TYPE_CHECKING:
    from h3probe.vantage.packets import Packet
    from tests.vantage.conftest import Wire


def waited_for(source: ScapySource) -> Packet:
    """The next packet; a veth pair's far end takes a moment."""
    deadline = time.monotonic() + 10
    while time.monotonic() < deadline:
        packet = source.read()
        if packet is not None:
            return packet
    pytest.fail("no packet came")


def test_packet_through_scapy(wire: Wire) -> None:
    """Scapy's socket, where it stands in for the other systems' ones, gives the frame with its interface and type."""
    source = ScapySource(interfaces=[socket.if_nametoindex(wire.far)])
    assert source.read() is None
    wire.send(ethernet(UDP4))
    packet = waited_for(source)
    assert (packet.data, packet.interface, packet.link_type, packet.network) == (ethernet(UDP4), wire.far, 1, 14)
    assert source.statistics() == (1, 0)
    source.close()


def test_all_interfaces_in_order_of_time(wire: Wire) -> None:
    """Without names every interface is watched, and what they show is put into one order."""
    source = ScapySource()
    wire.send(ethernet(UDP4))
    first, second = waited_for(source), waited_for(source)
    assert {first.interface, second.interface} == {wire.near, wire.far}
    assert first.time_ns <= second.time_ns
    assert len(source.sockets) == 3
    source.close()


def test_narrow(wire: Wire) -> None:
    """Other interfaces can be watched instead."""
    source = ScapySource(interfaces=[socket.if_nametoindex("lo")])
    source.watch([socket.if_nametoindex(wire.far)])
    wire.send(ethernet(UDP4))
    packet = waited_for(source)
    assert packet.interface == wire.far
    source.close()


@pytest.mark.usefixtures("own_network")
def test_no_privilege() -> None:
    """Where no interface can be opened, the error names the ways that need nothing."""
    ScapySource().close()  # scapy's own modules may be out of an unprivileged user's reach
    os.seteuid(65534)
    try:
        with pytest.raises(PrivilegeError, match=r"--relay .*explain"):
            ScapySource()
    finally:
        os.seteuid(0)
