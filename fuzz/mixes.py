"""Recordings whose packets are lost, doubled, changed and out of order, in ways that the input says.

What becomes of the next frame of a recording stands in four bytes: of which recording, what, when, and what exactly.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

from fuzz.explaining import explain, redacted, said
from fuzz.handshakes import DECRYPTED, ETHERNET, read
from h3probe.events import Frame, Secrets
from tests.run import mixes
from tests.track.builders import MS, START

if TYPE_CHECKING:
    from collections.abc import Iterator

WITH_SECRETS = ("curl-h3", "curl-h2", "curl-h1", "curl-chacha", "curl-tls12")
CHANGES = ("as it is", *sorted(set(mixes.CHANGES) - {"as it is"}))
PAUSES_NS = (MS, 0, 200 * MS, 70_000 * MS)


def decrypted(data: bytes) -> None:
    """Recordings with their secrets, their packets lost, doubled, changed, out of order."""
    secrets = b"".join((DECRYPTED / f"{name}.keys").read_bytes() for name in WITH_SECRETS)
    frames = [Frame(at, *each) for at, each in enumerate(_mixed(data, _with_secrets()), 1)]
    explain((Secrets(secrets), *frames))


def in_blocks(data: bytes) -> None:
    """Recordings likewise: the same is said whether packets are counted in blocks or looked at one by one."""
    mixed = [(time_ns, frame, length) for time_ns, _, frame, length in _mixed(data, _frames())]
    if mixed:
        file = mixes.pcap(mixed)
        assert said(file, in_blocks=True) == said(file, in_blocks=False)


def redacted_too(data: bytes) -> None:
    """Recordings likewise, redacted."""
    redacted(Frame(at, *each) for at, each in enumerate(_mixed(data, _frames()), 1))


def _mixed(data: bytes, sources: list[tuple[bytes, ...]]) -> Iterator[tuple[int, int, bytes, int]]:
    left = [iter(source) for source in sources]
    now = START
    for at in range(0, len(data) - 3, 4):
        which, change, pause, arg = data[at], data[at + 1], data[at + 2], data[at + 3] * 257
        frame = next(left[which % len(left)], None)
        if frame is None:
            continue
        now += PAUSES_NS[pause % len(PAUSES_NS)]
        for made in mixes.CHANGES[CHANGES[change % len(CHANGES)]](frame, arg):
            if made:
                yield now, ETHERNET, made, max(len(frame), len(made))


@cache
def _frames() -> list[tuple[bytes, ...]]:
    return [mixes.recorded(name) for name in mixes.NAMES]


@cache
def _with_secrets() -> list[tuple[bytes, ...]]:
    return [tuple(frame.data for frame in read(name)) for name in WITH_SECRETS]
