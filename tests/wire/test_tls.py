from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from h3probe.errors import DecodeError
from h3probe.wire.tls import Alert, handshake_messages, looks_like_client_hello, parse_alert, records
from tests.wire import hello_builder as build


def test_records_are_cut_where_they_end() -> None:
    """Complete records come back with their place in the stream, and an incomplete one is left for later."""
    stream = b"skip" + build.record(22, b"hello") + build.record(23, b"", 0x0303) + build.record(21, b"xy")[:-1]
    found, position = records(stream, 4)
    assert [(r.content_type, r.version, r.payload, r.length, r.offset) for r in found] == [
        (22, 0x0301, b"hello", 5, 4),
        (23, 0x0303, b"", 0, 14),
    ]
    assert position == 19
    assert records(stream[:-2], position) == ([], 19)


@pytest.mark.parametrize(
    "junk",
    [b"GET / HTTP/1.1", b"\x16\x02\x00\x00\x05", b"\x19\x03\x03\x00\x01", b"\x16\x03\x03\xff\xff", b"H", b"\x16P"],
)
def test_what_is_no_record_is_an_error_as_soon_as_it_shows(junk: bytes) -> None:
    """Bytes that cannot begin a record raise DecodeError, but only after the records before them were returned."""
    with pytest.raises(DecodeError):
        records(junk)
    stream = build.record(22, b"hello") + junk
    found, position = records(stream)
    assert [r.payload for r in found] == [b"hello"]
    with pytest.raises(DecodeError):
        records(stream, position)


def test_handshake_messages_wait_for_their_end() -> None:
    """Messages are returned once complete, with the bytes they took; what follows waits."""
    stream = build.message(1, b"one") + build.message(2, b"") + build.message(11, b"three")
    assert handshake_messages(stream[:-1]) == ([(1, b"one"), (2, b"")], 11)
    assert handshake_messages(stream) == ([(1, b"one"), (2, b""), (11, b"three")], len(stream))


def test_alert_in_the_clear() -> None:
    """A two-byte alert is named; a longer one is encrypted and no alert that can be read."""
    assert parse_alert(b"\x02\x78") == Alert(2, 120, "no_application_protocol")
    for fragment in (b"\x02", b"\x07\x00", bytes(24)):
        with pytest.raises(DecodeError):
            parse_alert(fragment)


def test_looks_like_client_hello() -> None:
    """The first bytes of a stream tell a ClientHello from a ServerHello, from plain text and from too little."""
    stream = build.record(22, build.message(1, build.client_hello()))
    assert looks_like_client_hello(stream)
    assert looks_like_client_hello(stream[:6])
    assert not looks_like_client_hello(stream[:5])
    assert not looks_like_client_hello(build.record(22, build.message(2, build.server_hello())))
    assert not looks_like_client_hello(b"CONNECT example.com:443 HTTP/1.1\r\n")
    assert not looks_like_client_hello(stream[:9] + b"\x09" + stream[10:])


@given(st.binary(max_size=400), st.integers(0, 20))
def test_any_bytes_give_facts_or_decode_error(data: bytes, start: int) -> None:
    """Whatever the bytes, every parser returns facts or raises from the DecodeError family, and nothing else."""
    messages, used = handshake_messages(data)
    assert used == sum(4 + len(body) for _, body in messages) <= len(data)
    looks_like_client_hello(data)
    for parse in (parse_alert, lambda stream: records(stream, start)):
        try:
            parse(data)
        except DecodeError:
            continue
