"""Captures put together from recordings and made-up downloads, in ways that no recording shows."""

from __future__ import annotations

import struct
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from hypothesis import strategies as st

from h3probe.events import Frame
from h3probe.vantage.files import open_capture
from tests.wire.packets import ethernet, ipv6

if TYPE_CHECKING:
    from collections.abc import Callable

FOLDER = Path(__file__).parents[2] / "captures"
NAMES = (
    "curl-http3.pcap",
    "jdk26-client-any.pcap",
    "curl-retry.pcap",
    "jdk26-tinyproxy-any.pcap",
    "jdk26-request-any.pcap",
    "jdk26-http2-default.pcap",
)
# Offsets in an Ethernet frame with an IPv4 header without options.
HOP_LIMIT, PROTOCOL, TCP_FLAGS = 22, 23, 47
SECOND = 1_000_000_000


@cache
def recorded(name: str) -> tuple[bytes, ...]:
    """The frames of a recording."""
    with open_capture(FOLDER / name) as reader:
        return tuple(event.data for event in reader if isinstance(event, Frame))


def _transport(frame: bytes) -> tuple[int, int]:
    """The protocol over IP, and where its header begins; 0 for neither IPv4 nor IPv6."""
    if frame[12:15] == b"\x08\x00\x45" and len(frame) > 47:
        return frame[PROTOCOL], 34
    return (frame[20], 54) if frame[12:14] == b"\x86\xdd" and len(frame) > 67 else (0, 0)


def again(frame: bytes, arg: int) -> list[bytes]:
    """As part of a download: the same ports, the next bytes."""
    protocol, at = _transport(frame)
    if protocol == 17:
        short = frame[: at + 8] + bytes((0x40 | arg & 0x3F,)) + frame[at + 9 :]
        return [frame, *[short] * (arg % 40)]
    if protocol != 6:
        return [frame] * 2
    seq = int.from_bytes(frame[at + 4 : at + 8])
    step = (1, 700, 1 << 29, 1 << 31)[arg % 4]
    return [
        frame[: at + 4] + (seq + step * number & 0xFFFFFFFF).to_bytes(4) + frame[at + 8 :] for number in range(arg % 40)
    ]


def _flags(frame: bytes, arg: int) -> list[bytes]:
    if len(frame) <= TCP_FLAGS or frame[PROTOCOL] != 6:
        return [frame]
    return [frame[:TCP_FLAGS] + bytes((arg & 0x17,)) + frame[TCP_FLAGS + 1 :]]


def _swap(frame: bytes, _: int) -> list[bytes]:
    """From the other side."""
    return [frame, frame[:26] + frame[30:34] + frame[26:30] + frame[36:38] + frame[34:36] + frame[38:]]


def _over_ipv6(frame: bytes, _: int) -> list[bytes]:
    if len(frame) < 34 or frame[12:15] != b"\x08\x00\x45":
        return [frame]
    total = int.from_bytes(frame[16:18])
    return [ethernet(ipv6(frame[34 : 14 + total], frame[PROTOCOL]), 0x86DD)]


CHANGES: dict[str, Callable[[bytes, int], list[bytes]]] = {
    "as it is": lambda frame, _: [frame],
    "again": again,
    "twice": lambda frame, _: [frame, frame],
    "lost": lambda _, __: [],
    "cut": lambda frame, arg: [frame[: max(arg, 1)]],
    "routed": lambda frame, arg: [frame[:HOP_LIMIT] + bytes((arg & 0xFF,)) + frame[HOP_LIMIT + 1 :]],
    "other station": lambda frame, arg: [frame[:11] + bytes((arg & 3,)) + frame[12:]],
    "tagged": lambda frame, arg: [frame[:12] + b"\x81\x00" + struct.pack(">H", arg) + frame[12:]],
    "fragment": lambda frame, arg: [frame[:20] + bytes((arg & 0x3F, 0)) + frame[22:]],
    "flags": _flags,
    "swapped": _swap,
    "version 6": _over_ipv6,
    "other byte": lambda frame, arg: [frame[: arg % len(frame)] + bytes((arg & 0xFF,)) + frame[arg % len(frame) + 1 :]],
}


@st.composite
def mixes(draw: st.DrawFn) -> list[tuple[int, bytes, int]]:
    """Frames with their times in nanoseconds and their lengths on the wire."""
    names = draw(st.lists(st.sampled_from(NAMES), min_size=1, max_size=3))
    gap = draw(st.sampled_from((0, 1_000, 200_000_000)))
    sources = [list(recorded(name)) for name in names]
    mixed: list[tuple[int, bytes, int]] = []
    now = 1_700_000_000 * SECOND
    kinds = st.tuples(st.sampled_from(sorted(CHANGES)), st.integers(0, 65_535))
    changes = draw(st.dictionaries(st.integers(0, 120), kinds, max_size=40))
    pauses = draw(
        st.dictionaries(
            st.integers(0, 120), st.sampled_from((-SECOND, 4 * SECOND, 70 * SECOND, 4000 * SECOND)), max_size=4
        )
    )
    order = draw(st.randoms(use_true_random=False))
    number = 0
    while sources:
        source = order.choice(sources)
        change, arg = changes.get(number, ("as it is", 0))
        now = max(now + gap + pauses.get(number, 0), 0)
        frame = source.pop(0)
        mixed += [(now, made, max(len(frame), len(made))) for made in CHANGES[change](frame, arg) if made]
        number += 1
        sources = [source for source in sources if source]
    return mixed


def pcap(frames: list[tuple[int, bytes, int]], link_type: int = 1) -> bytes:
    """They as a file, with nanoseconds."""
    parts = [struct.pack("<IHHiIII", 0xA1B23C4D, 2, 4, 0, 0, 262_144, link_type)]
    for time_ns, data, length in frames:
        parts.append(struct.pack("<IIII", *divmod(time_ns, SECOND), len(data), length) + data)
    return b"".join(parts)


def pcapng(frames: list[tuple[int, bytes, int]], link_type: int = 1) -> bytes:
    """The same in pcapng."""

    def block(kind: int, body: bytes) -> bytes:
        body += bytes(-len(body) % 4)
        return struct.pack("<II", kind, len(body) + 12) + body + struct.pack("<I", len(body) + 12)

    parts = [block(0x0A0D0D0A, struct.pack("<IHHq", 0x1A2B3C4D, 1, 0, -1))]
    parts.append(block(1, struct.pack("<HHI", link_type, 0, 0) + struct.pack("<HHBxxxI", 9, 1, 9, 0)))
    for time_ns, data, length in frames:
        head = struct.pack("<IIIII", 0, time_ns >> 32, time_ns & 0xFFFFFFFF, len(data), length)
        parts.append(block(6, head + data))
    return b"".join(parts)
