"""TLS on a connection: hellos and certificates."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from h3probe.redact import Mapping
from h3probe.wire.tls import handshake_messages, records
from tests.redact.flows import KEY, NAME, Wire, payloads, redacted, server_hello
from tests.redact.streams import CCS, DATA, HELLO, NEW_NAME, sni
from tests.wire.hello_builder import message, record, vector
from tests.wire.hello_builder import server_hello as server_hello_body

CERTIFICATE = message(11, vector(3, vector(3, b"CN=" + NAME + bytes(700))))


@settings(deadline=None)
@given(st.lists(st.integers(1, len(HELLO) - 1), max_size=5), st.randoms(use_true_random=False))
def test_a_hello_cut_anywhere(cuts: list[int], random: object) -> None:
    """However a ClientHello is cut into segments, in whatever order, twice, the name is the new one."""
    wire = Wire()
    bounds = [0, *sorted(set(cuts)), len(HELLO)]
    pieces = [(begin, HELLO[begin:end]) for begin, end in pairwise(bounds)]
    pieces += pieces[-1:]
    random.shuffle(pieces)  # type: ignore[attr-defined]
    frames = wire.connected()
    start = wire.sequence[True]
    frames += [wire.tcp(data, seq=start + begin) for begin, data in pieces]
    made = payloads(redacted(frames, Mapping(KEY)))[3:]
    stream = bytearray(len(HELLO))
    for (begin, data), new in zip(pieces, made, strict=True):
        assert len(new) == len(data)
        stream[begin : begin + len(new)] = new
    assert sni(bytes(stream)) == NEW_NAME


def test_tls12() -> None:
    """Certificates are gone, message types and lengths stay, and everything after ChangeCipherSpec is noise."""
    wire = Wire()
    flight = record(22, server_hello(0x0303) + CERTIFICATE + message(14, b""), 0x0303)
    finished = CCS + record(22, b"finished, encrypted", 0x0303)
    frames = [*wire.connected(), wire.tcp(HELLO), wire.tcp(flight[:200], back=True), wire.tcp(flight[200:], back=True)]
    frames += [wire.tcp(finished), wire.tcp(finished + DATA, back=True)]
    made = payloads(redacted(frames, Mapping(KEY)))[4:]
    first = records(made[0] + made[1])[0][0]
    assert [(kind, len(body)) for kind, body in handshake_messages(first.payload)[0]] == [
        (2, len(server_hello(0x0303)) - 4), (11, len(CERTIFICATE) - 4), (14, 0)
    ]  # fmt: skip
    whole = b"".join(made)
    for hidden in (NAME, b"encrypted", b"user"):
        assert hidden not in whole
    assert made[2][:6] == CCS


@pytest.mark.parametrize("version", [0x0304, 0x7F17])
def test_after_a_server_hello_of_tls13(version: int) -> None:
    """ChangeCipherSpec means nothing there, in a draft neither: a hello that follows it is still rewritten."""
    wire = Wire()
    answer = message(2, server_hello_body([(43, version.to_bytes(2))]))
    frames = [
        *wire.connected(),
        wire.tcp(HELLO),
        wire.tcp(record(22, answer, 0x0303), back=True),
        wire.tcp(CCS + HELLO),
    ]
    made = payloads(redacted(frames, Mapping(KEY)))[4:]
    assert sni(made[-1][len(CCS) :]) == NEW_NAME


def test_a_snaplen() -> None:
    """A hello that was cut is still seen to be one, and holds no name."""
    wire = Wire()
    frame = wire.tcp(HELLO)
    cut = type(frame)(frame.number, frame.time_ns, frame.link_type, frame.data[:-20], frame.length)
    (made,) = payloads(redacted([*wire.connected(), cut], Mapping(KEY))[3:])
    assert made[:11] == HELLO[:11]
    assert NAME[:8] not in made
