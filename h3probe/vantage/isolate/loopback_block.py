"""What `loopback` does, to packets of a block: all of them at once."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from h3probe.vantage.counting import is_tcp, network_of

if TYPE_CHECKING:
    from collections.abc import Collection

    from numpy.typing import NDArray

    from h3probe.events import Block

    type Numbers = NDArray[np.int64]
    type Bytes = NDArray[np.uint8]

_LOOPBACK: Final = {4: bytes([127, 0, 0, 1]), 6: bytes(15) + b"\x01"}
_ADDRESSES_AT: Final = {4: 12, 6: 8}
_HEADER: Final = {4: 20, 6: 40}


def translate(block: Block, hosts: Collection[bytes]) -> None:
    """Make both addresses of a packet loopback's, in place, if one is the host's; checksums stay right.

    Args:
        block: Packets of UDP or TCP without options.
        hosts: The host's addresses.
    """
    every = np.frombuffer(block.data, np.uint8)
    network = network_of(block)
    for version, loopback in _LOOPBACK.items():
        size = len(loopback)
        mine = network[every[network] >> 4 == version]
        places = (mine + _ADDRESSES_AT[version])[:, None] + np.arange(2 * size)
        ends = every[places].reshape(-1, 2, size)
        found = np.zeros(len(mine), np.bool_)
        for host in hosts:
            if len(host) == size:
                found |= (ends == np.frombuffer(host, np.uint8)).all(2).any(1)
        mine, places = mine[found], places[found]
        change = sum(2 * loopback[at] * (256 if at % 2 == 0 else 1) for at in range(size)) - _sum(every, places)
        every[places] = np.frombuffer(2 * loopback, np.uint8)
        transport = mine + _HEADER[version]
        _mend(every, transport + np.where(is_tcp(block.data, mine), 16, 6), change)
        if version == 4:
            _renew(every, mine)


def _sum(every: Bytes, places: Numbers) -> Numbers:
    """The sum of the 16-bit words of each row."""
    words = every[places].astype(np.int64)
    found: Numbers = (words[:, ::2] << 8 | words[:, 1::2]).sum(1)
    return found


def _put(every: Bytes, at: Numbers, value: Numbers) -> None:
    every[at], every[at + 1] = value >> 8, value & 0xFF


def _mend(every: Bytes, at: Numbers, change: Numbers) -> None:
    """Change checksums by what the sums of their words have grown (RFC 1624); one of zero means none (RFC 768)."""
    old = every[at].astype(np.int64) << 8 | every[at + 1]
    _put(every, at, np.where(old, 0xFFFF - ((old ^ 0xFFFF) + change) % 0xFFFF, 0))


def _renew(every: Bytes, at: Numbers) -> None:
    """The Internet checksum of IPv4 headers (RFC 1071)."""
    _put(every, at + 10, np.zeros(len(at), np.int64))
    total = _sum(every, at[:, None] + np.arange(20))
    for _ in range(2):
        total = (total & 0xFFFF) + (total >> 16)
    _put(every, at + 10, total ^ 0xFFFF)
