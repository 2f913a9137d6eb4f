"""Names inside Initials."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from h3probe.redact import Mapping
from h3probe.wire.quic.frames import Crypto
from tests.redact.flows import KEY, NAME, Wire, hello, payloads, redacted
from tests.redact.initials import MAPPING, names_in, opened
from tests.wire.quic_builder import crypto, initial


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow], max_examples=60)
@given(st.lists(st.integers(1, len(hello()) - 1), max_size=6), st.randoms(use_true_random=False), st.booleans())
def test_a_hello_cut_anywhere(cuts: list[int], random: object, together: bool) -> None:  # noqa: FBT001 - drawn
    """However a ClientHello is cut into frames and datagrams, in whatever order, twice, the name is the new one."""
    message = hello()
    bounds = [0, *sorted(set(cuts)), len(message)]
    parts = [crypto(begin, message[begin:end]) for begin, end in pairwise(bounds)]
    parts += parts[:1]
    random.shuffle(parts)  # type: ignore[attr-defined]
    if together:
        parts = [b"".join(parts)]
    wire = Wire()
    frames = [wire.udp(initial(part, number=number, size=400)) for number, part in enumerate(parts)]
    made = redacted(frames, Mapping(KEY))
    assert [frame.number for frame in made] == [frame.number for frame in frames]
    assert names_in(payloads(made)) == [MAPPING.host(NAME).decode()]


def test_every_single_cut() -> None:
    """A name split over two datagrams at each of its bytes gets the same replacement at the same offsets."""
    message = hello()
    start = message.index(NAME)
    for cut in range(start - 1, start + len(NAME) + 2):
        wire = Wire()
        parts = [crypto(cut, message[cut:]), crypto(0, message[:cut])]
        frames = [wire.udp(initial(part, number=number, size=1200)) for number, part in enumerate(parts)]
        assert names_in(payloads(redacted(frames, Mapping(KEY)))) == [MAPPING.host(NAME).decode()]


def test_half_a_hello() -> None:
    """A hello that is never whole leaves nothing of itself, and is none afterwards either."""
    wire = Wire()
    message = hello()
    half = message[: message.index(NAME) + 8]
    (made,) = payloads(redacted([wire.udp(initial(crypto(0, half), size=1200))]))
    (frame, *_) = (frame for frame in opened(made)[1] if isinstance(frame, Crypto))
    assert len(frame.data) == len(half)
    assert b"www" not in frame.data
    assert frame.data[0] & 0x80
