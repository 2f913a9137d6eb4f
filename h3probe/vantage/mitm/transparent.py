"""What a connection is that was redirected to a transparent proxy: told from the first bytes on it, and nothing else.

A client that knows of no proxy speaks whatever it likes, and may wait for an answer after every byte. So what cannot
begin TLS or a request of HTTP/1 passes through at once, and only a ClientHello or a request's head is waited for.
"""

# mitmproxy annotates only a part of its functions.
# mypy: disallow-untyped-calls=False

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final, Literal

from mitmproxy.net.http.url import parse_authority
from mitmproxy.proxy import events, layer, layers
from mitmproxy.proxy.layers.http import HTTPMode

from h3probe.wire.http1 import parse_request_head

if TYPE_CHECKING:
    from collections.abc import Callable

    from mitmproxy import http
    from mitmproxy.proxy.context import Context
    from mitmproxy.proxy.layer import CommandGenerator, Layer

Beginning = Literal["tls", "http", "other"]

_TLS: Final = b"\x16\x03"
# A request for a server's own resource. CONNECT and an absolute URL are for a proxy, which is then somebody else's.
_REQUEST: Final = re.compile(rb"[A-Z]{3,16} /[^\s]* HTTP/1\.[01]\r?\n")
_FIRST_LINE_SO_FAR: Final = re.compile(rb"[A-Z]{3,16} /[^\r\n]*\r?")
_LONGEST_LINE: Final = 64 << 10


class Undecided(layer.Layer):
    """Holds a connection's first bytes back until it is decided what becomes of it.

    Args:
        context: Of the connection.
        decide: Told the client's bytes so far, and whether no more of them are to be waited for; returns the layer
            that takes over, None to wait, which it may not when there is nothing to wait for.
    """

    def __init__(self, context: Context, decide: Callable[[bytes, bool], Layer | None]) -> None:
        super().__init__(context)
        context.layers.remove(self)  # what takes over stands in its place
        self._decide = decide
        self._start = bytearray()

    def _handle_event(self, event: events.Event) -> CommandGenerator[None]:
        if isinstance(event, events.Start):
            return
        from_client = isinstance(event, events.DataReceived) and event.connection is self.context.client
        if isinstance(event, events.DataReceived) and from_client:
            self._start += event.data
        following = self._decide(bytes(self._start), not from_client)
        if following is None:
            return
        self._handle_event = following.handle_event  # type: ignore[method-assign]
        yield from following.handle_event(events.Start())
        if self._start:
            yield from following.handle_event(events.DataReceived(self.context.client, bytes(self._start)))
            self._start.clear()
        if not from_client:
            yield from following.handle_event(event)


def beginning(start: bytes) -> Beginning:
    """What a client's first bytes begin, as far as can be told from them."""
    if start.startswith(_TLS[: len(start)]) and start:
        return "tls"
    if _REQUEST.match(start):
        return "http"
    if b"\n" not in start and len(start) < _LONGEST_LINE and _FIRST_LINE_SO_FAR.fullmatch(start):
        return "http"
    return "other"


def host_asked(start: bytes) -> str | None:
    """The host that a request names, in lower case, empty where it names none; None when more of its head must come.

    Raises:
        DecodeError: This is no request after all, or its head is too long.
    """
    head = parse_request_head(start)
    if head is None:
        return None
    names = [value for name, value in head.headers if name == "host"]
    return _host(names[0]) if len(names) == 1 else ""


def host_of(request: http.Request) -> str | None:
    """The host that a request names for itself; None where it names none, or what cannot be one."""
    return _host(request.host_header or "") or None


def _host(authority: str) -> str:
    try:
        return str(parse_authority(authority, check=True)[0]).lower()
    except ValueError:
        return ""


def tls_layer(context: Context) -> Layer:
    """The layers that terminate TLS on both sides."""
    server = layers.ServerTLSLayer(context)
    server.child_layer = layers.ClientTLSLayer(context)
    return server


def http_layer(context: Context) -> Layer:
    """The layer of requests in the clear."""
    return layers.HttpLayer(context, HTTPMode.transparent)
