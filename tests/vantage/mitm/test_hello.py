from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from h3probe.vantage.mitm.hello import LONGEST, MOST_DATAGRAMS, QuicHello, QuicIds, TlsHello
from h3probe.wire.quic.versions import V1
from tests.wire.hello_builder import alpn, client_hello, message, record, server_hello, server_name
from tests.wire.quic_builder import DCID, SCID, crypto, initial

HELLO = message(1, client_hello([server_name(b"example.org"), alpn(b"h2", b"http/1.1")]))
STREAM = record(22, HELLO) + b"whatever follows"


def cut(data: bytes, *places: int) -> list[bytes]:
    """The pieces of `data` between places in it."""
    ends = [0, *sorted(place % (len(data) + 1) for place in places), len(data)]
    return [data[begin:end] for begin, end in itertools.pairwise(ends)]


@given(st.lists(st.integers(0, 10_000), max_size=20))
def test_however_the_stream_is_cut(places: list[int]) -> None:
    """The hello is read once, from pieces of any size."""
    sniffer = TlsHello()
    found = [hello for piece in cut(STREAM, *places) if (hello := sniffer.feed(piece)) is not None]
    assert [hello.sni for hello in found] == ["example.org"]
    assert sniffer.over


def test_a_hello_in_many_records() -> None:
    """A hello may be spread over records of one byte."""
    sniffer = TlsHello()
    hello = sniffer.feed(b"".join(record(22, bytes((byte,))) for byte in HELLO))
    assert hello is not None
    assert hello.alpn == ("h2", "http/1.1")


@pytest.mark.parametrize(
    "start",
    [
        b"GET / HTTP/1.1\r\n",
        b"SSH-2.0-OpenSSH_9\r\n",
        record(23, b"x"),
        record(22, message(2, server_hello())),
        record(22, message(1, b"cut")),
        b"\x16\x03\x01\x00\x00",
        b"\x16\x03\x01\xff\xff" + bytes(65535),
        bytes(5),
    ],
)
def test_what_is_no_hello(start: bytes) -> None:
    """Anything else is left at the first byte that shows it, and nothing is kept of it."""
    sniffer = TlsHello()
    assert sniffer.feed(start) is None
    assert sniffer.over
    assert sniffer.feed(STREAM) is None


def test_a_hello_that_does_not_end() -> None:
    """A stream of records that never completes a message is given up at a limit."""
    sniffer = TlsHello()
    start = bytes((1,)) + (0xFFFFFF).to_bytes(3)
    pieces = 0
    while not sniffer.over:
        assert sniffer.feed(record(22, start + bytes(1000))) is None
        start = b""
        pieces += 1
    assert pieces <= LONGEST // 1000 + 1


@given(st.binary(max_size=200))
def test_any_start_of_a_stream(data: bytes) -> None:
    """Any bytes are a hello or none; nothing is raised."""
    TlsHello().feed(data)
    TlsHello().feed(b"\x16\x03\x01" + data)


def test_a_hello_in_one_initial() -> None:
    """The Initial of a usual client gives the hello and the connection's ids."""
    sniffer = QuicHello()
    hello = sniffer.feed(initial(crypto(0, HELLO), size=1200))
    assert hello is not None
    assert hello.sni == "example.org"
    assert sniffer.ids == QuicIds(V1, DCID, SCID)
    assert sniffer.over


@pytest.mark.parametrize("order", [(0, 1, 2), (2, 1, 0), (1, 1, 0, 2)])
def test_a_hello_in_several_datagrams(order: tuple[int, ...]) -> None:
    """A hello that fills several Initials is put together in any order."""
    third = len(HELLO) // 3
    pieces = [(0, HELLO[:third]), (third, HELLO[third : 2 * third]), (2 * third, HELLO[2 * third :])]
    sniffer = QuicHello()
    found = [
        sniffer.feed(initial(crypto(*pieces[piece]), number=number, size=1200)) for number, piece in enumerate(order)
    ]
    assert [hello.sni for hello in found if hello is not None] == ["example.org"]


def test_a_hello_after_a_retry() -> None:
    """After a Retry the keys come from another connection ID; the ids stay those of the first Initial."""
    sniffer = QuicHello()
    half = len(HELLO) // 2
    assert sniffer.feed(initial(crypto(0, HELLO[:half]), size=1200)) is None
    again = initial(crypto(0, HELLO), dcid=b"fresh-id", token=b"token", number=1, size=1200)
    hello = sniffer.feed(again)
    assert hello is not None
    assert sniffer.ids == QuicIds(V1, DCID, SCID)


def test_datagrams_without_a_hello_are_given_up() -> None:
    """A flow that shows no hello is let alone after some datagrams."""
    sniffer = QuicHello()
    for _ in range(MOST_DATAGRAMS):
        assert not sniffer.over
        assert sniffer.feed(b"\x40" + bytes(1199)) is None
    assert sniffer.over
    assert sniffer.feed(initial(crypto(0, HELLO), size=1200)) is None


@given(st.lists(st.binary(max_size=1300), max_size=3))
def test_any_datagrams(datagrams: list[bytes]) -> None:
    """Any datagrams are a hello or none; nothing is raised."""
    sniffer = QuicHello()
    for datagram in datagrams:
        sniffer.feed(datagram)
        sniffer.feed(b"\xc0\x00\x00\x00\x01" + datagram)
