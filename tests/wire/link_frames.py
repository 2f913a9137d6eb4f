"""What frames of every link type begin with, and what is to be found behind it."""

from __future__ import annotations

import struct

from h3probe.errors import TruncatedError
from h3probe.wire.link import network_layer
from tests.wire.packets import ipv4, ipv6, udp

PACKET4 = ipv4(udp())
PACKET6 = ipv6(udp())
SNAP = b"\xaa\xaa\x03\0\0\0\x08\x00"

LinkFrame = tuple[int, bytes, int, bytes | None]
"""Link type, headers, the IP version behind them, the sender's address."""


def u16(*numbers: int) -> bytes:
    """Numbers of 16 bits in network byte order."""
    return struct.pack(f">{len(numbers)}H", *numbers)


def assert_found(frame: LinkFrame) -> None:
    """The packet right behind the headers is found, and the sender's address."""
    link_type, header, version, station = frame
    data = header + (PACKET4 if version == 4 else PACKET6)
    assert network_layer(link_type, data) == (version, len(header), station)


def assert_never_misread(frame: LinkFrame) -> None:
    """Wherever the headers are cut, that is said, or no packet is found past them."""
    link_type, header, *_ = frame
    for cut in range(len(header)):
        try:
            _, offset, _ = network_layer(link_type, header[:cut])
        except TruncatedError:
            continue
        assert offset <= len(header)
