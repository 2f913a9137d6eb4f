"""What a relay told, taken apart without the code under test."""

from __future__ import annotations

import asyncio
import struct
from typing import TYPE_CHECKING, NamedTuple

from h3probe.events import Endpoint
from tests.vantage.test_synthesis import transport

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from h3probe.events import Frame


class Told(NamedTuple):
    """One frame's packet; flags and numbers are zero where it is no TCP segment."""

    protocol: int
    source: Endpoint
    destination: Endpoint
    flags: str
    sequence: int
    acknowledgment: int
    payload: bytes


def told(frame: Frame) -> Told:
    """Take a frame apart, with its lengths and checksums verified; bytes that it lacks are taken for zeros."""
    protocol, content = transport(frame.data + bytes(frame.length - len(frame.data)))
    hosts = frame.data[12:20] if frame.data[0] >> 4 == 4 else frame.data[8:40]
    half = len(hosts) // 2
    if protocol in {1, 58}:
        return Told(protocol, Endpoint(hosts[:half], 0), Endpoint(hosts[half:], 0), "", 0, 0, content)
    source_port, destination_port = struct.unpack("!HH", content[:4])
    ends = Endpoint(hosts[:half], source_port), Endpoint(hosts[half:], destination_port)
    if protocol == 17:
        return Told(protocol, *ends, "", 0, 0, content[8:])
    sequence, acknowledgment = struct.unpack("!II", content[4:12])
    flags = "".join(letter for bit, letter in enumerate("FSRPA") if content[13] >> bit & 1)
    return Told(protocol, *ends, flags, sequence, acknowledgment, content[20:])


def stream(frames: Iterable[Frame], source: Endpoint) -> bytes:
    """What one side of a TCP connection sent, put together by sequence numbers, which must leave no gap."""
    segments = [segment for segment in map(told, frames) if segment.source == source]
    assert "S" in segments[0].flags
    following = segments[0].sequence + 1
    content = b""
    for segment in segments[1:]:
        assert segment.sequence == following & 0xFFFFFFFF
        content += segment.payload
        following += len(segment.payload) + ("F" in segment.flags)
    return content


async def until(condition: Callable[[], bool]) -> None:
    """Wait for something to become true."""
    while not condition():  # noqa: ASYNC110 - what is waited for is state of the code under test, which has no event
        await asyncio.sleep(0.005)
