"""The fuzz targets, run without a fuzzer: on their seeds, and on damaged copies of these."""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING

import pytest

from fuzz import targets
from fuzz.targets import TARGETS, seeds
from h3probe.wire import dns
from h3probe.wire.http2 import Http2Reader
from h3probe.wire.http3 import Http3Reader, TableCapacity
from h3probe.wire.http_fields import Request

if TYPE_CHECKING:
    from collections.abc import Iterator

DAMAGED_BYTES = 20_000_000
"""How much each target reads at most, in all."""
DAMAGED_COPIES = 5000


def damaged(seed: bytes, random: Random) -> Iterator[bytes]:
    """Yield copies that are cut short, or have bytes flipped, lost or doubled, without an end."""
    while True:
        data = bytearray(seed)
        for _ in range(random.randint(1, 8)):
            place = random.randrange(len(data) or 1)
            match random.randrange(4):
                case 0:
                    data[place : place + 1] = random.randbytes(1)
                case 1:
                    del data[place : place + random.randint(1, 8)]
                case 2:
                    data[place:place] = data[place : place + random.randint(1, 8)]
                case _:
                    data[place : place + 1] = random.choice([b"\x00", b"\x7f", b"\xff"])
        yield bytes(data[: random.randint(0, len(data))]) if random.random() < 0.3 else bytes(data)


@pytest.mark.parametrize("target", TARGETS)
def test_target_holds_on_its_seeds(target: str) -> None:
    """No target breaks its invariant on the valid inputs that a fuzzer starts from."""
    for seed in seeds(target):
        TARGETS[target](seed)


@pytest.mark.parametrize("target", TARGETS)
def test_target_holds_on_damaged_seeds(target: str) -> None:
    """No target breaks its invariant on inputs that are nearly right."""
    random = Random(target)  # noqa: S311 - the same damage in each run, nothing secret
    copies = [damaged(seed, random) for seed in seeds(target)]
    read = 0
    for number in range(DAMAGED_COPIES):
        data = next(copies[number % len(copies)])
        TARGETS[target](data)
        read += len(data)
        if read > DAMAGED_BYTES:
            break


def test_seeds_reach_past_the_first_check() -> None:
    """The hand-made DNS seed is a valid HTTPS record, and the recording gives Initials and handshake messages."""
    (message,) = seeds("dns")
    (binding,) = dns.parse_message(message).answers
    assert isinstance(binding, dns.ServiceBinding)
    assert (binding.name, binding.alpn) == ("h3.test", ("h3",))
    assert any(seed[0] & 0xF0 == 0xC0 for seed in seeds("quic"))
    assert any(seed[:2] == b"\x03\x03" for seed in seeds("tls"))
    http2, http3, *_ = seeds("http-streams")
    assert isinstance(Http2Reader(from_client=True).feed(http2)[-1], Request)
    reader = Http3Reader(from_client=True)
    facts = [fact for piece in targets._split(http3) for fact in reader.feed(piece[0], piece[1:])]
    assert facts == [TableCapacity(4096), Request(0, "GET", "https", "example.com", "/")]


def test_the_engine_seed_splits_into_packets() -> None:
    """The engine's framing gives back the packets it was made from."""
    (seed,) = seeds("engine")
    assert len(list(targets._split(seed))) == 35
