from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from mitmproxy.connection import Client
from mitmproxy.options import Options
from mitmproxy.proxy import events, layer
from mitmproxy.proxy.context import Context

from h3probe.errors import DecodeError
from h3probe.vantage.mitm.transparent import Beginning, Undecided, beginning, host_asked

if TYPE_CHECKING:
    from mitmproxy.proxy.layer import CommandGenerator, Layer


@pytest.mark.parametrize(
    ("start", "expected"),
    [
        (b"\x16\x03\x01\x02\x00", "tls"),
        (b"\x16", "tls"),
        (b"\x16\x02", "other"),
        (b"GET / HTTP/1.1\r\n", "http"),
        (b"OPTIONS /a%20b?c HTTP/1.0\n", "http"),
        (b"GET /a-long-one", "http"),
        (b"GET / HTTP/1.1\r", "http"),
        (b"GET / HTTP/2.0\r\n", "other"),
        (b"GET foo\r\n", "other"),
        (b"GET /foo\r\n", "other"),
        (b"GET /" + b"x" * 70_000, "other"),
        (b"GET ", "other"),
        (b"CONNECT example.org:443 HTTP/1.1\r\n", "other"),
        (b"GET http://example.org/ HTTP/1.1\r\n", "other"),
        (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", "other"),
        (b"SSH-2.0-OpenSSH\r\n", "other"),
        (b"h", "other"),
        (b"", "other"),
    ],
)
def test_beginnings(start: bytes, expected: Beginning) -> None:
    """What cannot become TLS, or a request for a server's own resource, is not waited for."""
    assert beginning(start) == expected


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ("Host: Example.org:8080\r\n\r\n", "example.org"),
        ("Host: [2001:db8::1]\r\n\r\n", "2001:db8::1"),
        ("Host: a b\r\n\r\n", ""),
        ("Host: a\r\nHost: b\r\n\r\n", ""),
        ("Accept: */*\r\n\r\n", ""),
        ("Host: example.org\r\n", None),
    ],
)
def test_the_host_of_a_request(fields: str, expected: str | None) -> None:
    """A host that is named once and can be one; none before the head is whole."""
    assert host_asked(f"GET / HTTP/1.1\r\n{fields}".encode()) == expected


@given(st.binary(max_size=200))
def test_rubbish(rubbish: bytes) -> None:
    """Any bytes begin something, and none raises but the documented error."""
    for start in (rubbish, b"GET / HTTP/1.1\r\n" + rubbish):
        beginning(start)
        try:
            host_asked(start)
        except DecodeError:
            continue


class Kept(layer.Layer):
    """Keeps what it gets."""

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self.got: list[Any] = []

    def _handle_event(self, event: events.Event) -> CommandGenerator[None]:
        self.got.append(event.data if isinstance(event, events.DataReceived) else type(event))
        yield from ()


class Bytes:
    """A connection whose fate is known after four bytes of the client's."""

    def __init__(self) -> None:
        client = Client(peername=("192.0.2.1", 1), sockname=("192.0.2.2", 2))
        self.context = Context(client, Options())
        self.kept = Kept(self.context)
        self.asked: list[tuple[bytes, bool]] = []
        self.layer = Undecided(self.context, self.decide)
        self.feed(events.Start())

    def decide(self, start: bytes, is_all: bool) -> Layer | None:  # noqa: FBT001 - as `Undecided` calls it
        """Decide."""
        self.asked.append((start, is_all))
        return self.kept if len(start) >= 4 or is_all else None

    def feed(self, *what: events.Event | bytes) -> None:
        """Let bytes of the client's come, or something else happen."""
        for each in what:
            event = events.DataReceived(self.context.client, each) if isinstance(each, bytes) else each
            assert not list(self.layer.handle_event(event))


def test_bytes_are_held_back_until_it_is_decided() -> None:
    """The layer that is chosen gets all of them, once, and all that follows; it is asked no more."""
    connection = Bytes()
    connection.feed(b"a", b"b", b"cd", b"e")
    assert connection.kept.got == [events.Start, b"abcd", b"e"]
    assert connection.asked == [(b"a", False), (b"ab", False), (b"abcd", False)]
    assert connection.context.layers == [connection.kept]


def test_the_server_speaks_in_between() -> None:
    """Nothing is waited for then, and the server's bytes come after the client's."""
    connection = Bytes()
    connection.feed(b"a", events.DataReceived(connection.context.server, b"welcome"))
    assert connection.asked[-1] == (b"a", True)
    assert connection.kept.got == [events.Start, b"a", b"welcome"]


def test_the_client_has_nothing_more_to_say() -> None:
    """Its end is passed on like its bytes."""
    connection = Bytes()
    connection.feed(b"a", events.ConnectionClosed(connection.context.client))
    assert connection.kept.got == [events.Start, b"a", events.ConnectionClosed]
