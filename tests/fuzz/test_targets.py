"""The fuzz targets, run without a fuzzer: on their seeds, and on damaged copies of these."""

from __future__ import annotations

from pathlib import Path
from random import Random
from typing import TYPE_CHECKING

import pytest

from fuzz import decoders, explaining, handshakes, pieces
from fuzz.seeds import seeds
from fuzz.targets import TARGETS, most_work
from fuzz.work import work
from h3probe.records import ExchangeRecord
from h3probe.wire import dns
from h3probe.wire.http2 import Http2Reader
from h3probe.wire.http3 import Http3Reader, TableCapacity
from h3probe.wire.http_fields import Request

if TYPE_CHECKING:
    from collections.abc import Iterator

DAMAGED_COPIES = 3000
EXPLAINED_COPIES = 60
"""The same of targets that explain what they read, which takes a hundred times as long."""
PATTERNS = (b"\0", b"\xff", b"\n", b"a", b" ", b"[", b'{"a":', b"=,", b"\0\5\0\0\0\0\0", b"\0\1a")
SMALL, LARGE = 1024, 4096
BESIDE = 20_000
"""Steps that may come on top, for what is done once."""


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
    for number in range(DAMAGED_COPIES if TARGETS[target].__module__ == decoders.__name__ else EXPLAINED_COPIES):
        TARGETS[target](next(copies[number % len(copies)]))


@pytest.mark.parametrize("target", TARGETS)
def test_work_is_linear(target: str) -> None:
    """Four times as much of the same takes about four times as many steps, and not more than the fuzzer allows."""
    for pattern in (*PATTERNS, *(seed for seed in seeds(target)[:3] if seed)):
        small, large = ((pattern * (size // len(pattern) + 1))[:size] for size in (SMALL, LARGE))
        TARGETS[target](small)  # What is loaded once is loaded now.
        done = work(TARGETS[target], large)
        assert done <= 6 * work(TARGETS[target], small) + BESIDE
        assert done <= most_work(target, LARGE)


def test_work_is_counted() -> None:
    """A loop within a loop is found out."""

    def quadratic(data: bytes) -> None:
        for _ in data:
            for _ in data:
                pass

    assert work(quadratic, bytes(400)) > 12 * work(quadratic, bytes(100))


def test_seeds_reach_past_the_first_check() -> None:
    """The hand-made DNS seed is a valid HTTPS record, and the recording gives Initials and handshake messages."""
    message, *_ = seeds("dns")
    (binding,) = dns.parse_message(message).answers
    assert isinstance(binding, dns.ServiceBinding)
    assert (binding.name, binding.alpn) == ("h3.test", ("h3",))
    assert any(seed[0] & 0xF0 == 0xC0 for seed in seeds("quic"))
    assert any(seed[:2] == b"\x03\x03" for seed in seeds("tls"))
    assert isinstance(Http2Reader(from_client=True).feed(seeds("http2")[0])[-1], Request)
    reader = Http3Reader(from_client=True)
    facts = [fact for piece in pieces.split(seeds("http3")[0]) for fact in reader.feed(piece[0], piece[1:])]
    assert facts == [TableCapacity(4096), Request(0, "GET", "https", "example.com", "/")]


def test_what_is_sealed_is_opened() -> None:
    """Requests that seeds put into packets after a recorded handshake are read out of them, HTTP/1.1 to HTTP/3."""
    begun = handshakes.recorded("curl-h3", 6)
    http3 = explaining.explain(handshakes.after_quic(seeds("one-rtt")[0], begun))
    found = [record for record in http3 if isinstance(record, ExchangeRecord)]
    for at, name in enumerate(("curl-h2", "curl-h1")):
        over_tls = handshakes.after_tls(seeds("tls-records")[at][1:], handshakes.recorded(name, 8))
        found += [record for record in explaining.explain(over_tls) if isinstance(record, ExchangeRecord)]
    assert [(record.version, record.status) for record in found] == [
        ("HTTP/3", 200),
        ("HTTP/2", 200),
        ("HTTP/1.1", 200),
    ]


def test_a_folder_of_captures_seeds_what_reads_packets() -> None:
    """Whatever lies in a folder: what a target can read of it is among its seeds."""
    folder = Path(__file__).parents[1] / "data" / "decrypted"
    assert set(seeds("quic")) < set(seeds("quic", folder))
    assert set(seeds("key-log")) < set(seeds("key-log", folder))
    assert all(len(list(pieces.split(seed))) > 1 for seed in seeds("engine", folder))
