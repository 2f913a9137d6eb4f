"""CONNECT through the proxy behind this one, honestly: the client gets that proxy's own answer.

mitmproxy answers a CONNECT with 200 before it has asked the upstream proxy, so that a client behind a 407 sees a
connection that breaks. Here the upstream proxy is asked first, with the client's own header fields, and the client gets
what it says.
"""

# mitmproxy annotates only a part of its functions.
# mypy: disallow-untyped-calls=False

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal

from mitmproxy import http
from mitmproxy.connection import Server
from mitmproxy.net.http import http1
from mitmproxy.proxy import commands, events, layer, layers, tunnel
from mitmproxy.proxy.layers.http import (  # type: ignore[attr-defined]  # re-exported without saying so
    DropStream,
    HttpConnectedHook,
    HttpConnectErrorHook,
    HttpLayer,
    HttpStream,
    RequestData,
    RequestEndOfMessage,
    RequestProtocolError,
    ResponseData,
    ResponseEndOfMessage,
    ResponseHeaders,
    SendHttp,
)
from mitmproxy.proxy.layers.tls import HTTP1_ALPNS
from mitmproxy.proxy.mode_specs import UpstreamMode

from h3probe.errors import DecodeError
from h3probe.wire.http1 import MAX_HEAD, parse_response_head

if TYPE_CHECKING:
    from mitmproxy.proxy.context import Context
    from mitmproxy.proxy.layer import CommandGenerator

METADATA: Final = "h3probe_upstream"
"""The key under which an `Answer` hangs on a flow."""
_NOT_PASSED_ON: Final = (
    "Connection",
    "Content-Length",
    "Keep-Alive",
    "Proxy-Connection",
    "TE",
    "Trailer",
    "Transfer-Encoding",
    "Upgrade",
)


@dataclass(slots=True)
class Answer:
    """What the upstream proxy said to a CONNECT.

    Attributes:
        asked: When it was asked, by `time.monotonic`; 0 when it could not even be.
        status: Its answer; None without one.
        kind: What went wrong; None when nothing did.
        error: The same in plain words.
        connection: The one to the upstream proxy.
    """

    asked: float = 0.0
    status: int | None = None
    kind: Literal["refused", "unreachable", "silent", "garbage"] | None = None
    error: str | None = None
    connection: Server | None = None


class UpstreamHttpLayer(HttpLayer):
    """mitmproxy's, with streams that ask the upstream proxy before they answer."""

    def make_stream(self, stream_id: int) -> CommandGenerator[None]:
        """Make the stream of one request."""
        self.streams[stream_id] = AskingStream(self.context.fork(), stream_id)
        yield from self.event_to_child(self.streams[stream_id], events.Start())


class AskingStream(HttpStream):
    """mitmproxy's, but for CONNECT."""

    answer: Answer
    tunnel: UpstreamTunnel

    def handle_connect_upstream(self) -> CommandGenerator[None]:
        """Ask the upstream proxy; `_opening` takes it from there."""
        self.answer = self.flow.metadata[METADATA] = Answer()
        mode = self.context.client.proxy_mode
        if not isinstance(mode, UpstreamMode):
            raise TypeError(f"a stream that asks an upstream proxy, in mode {mode}")
        proxy = self.answer.connection = Server(address=mode.address)
        stack = tunnel.LayerStack()
        if mode.scheme == "https":
            proxy.alpn_offers = HTTP1_ALPNS
            proxy.sni = mode.address[0]
            stack /= layers.ServerTLSLayer(self.context, proxy)
        self.tunnel = UpstreamTunnel(self.context, proxy, self.flow.request, self.answer)
        stack /= self.tunnel
        self.child_layer = stack[0]
        self._handle_event = self._opening
        yield from self._opening(events.Start())

    def _opening(self, event: events.Event) -> CommandGenerator[None]:
        if isinstance(event, RequestProtocolError):
            # The client is gone, and with it the reason to ask.
            yield commands.CloseConnection(self.tunnel.tunnel_connection)
            self._end()
            yield DropStream(self.stream_id)
            return
        if isinstance(event, RequestData):
            event = events.DataReceived(self.context.client, event.data)
        elif isinstance(event, RequestEndOfMessage):
            event = events.ConnectionClosed(self.context.client)
        if self.child_layer is None:
            return
        for command in self.child_layer.handle_event(event):
            if isinstance(command, Opened):
                yield from self._opened(command.error)
            else:
                yield command

    def _opened(self, error: str | None) -> CommandGenerator[None]:
        if error is None:
            self.flow.response = _response(200, "Connection established", self.tunnel.headers)
            yield HttpConnectedHook(self.flow)
            self._handle_event = self.passthrough
        else:
            if self.answer.kind is None:
                self.answer.kind, self.answer.error = "unreachable", error
            self.flow.response = self._refusal()
            yield HttpConnectErrorHook(self.flow)
            self._end()
        content = self.flow.response.raw_content
        yield SendHttp(ResponseHeaders(self.stream_id, self.flow.response, not content), self.context.client)
        if content:
            yield SendHttp(ResponseData(self.stream_id, content), self.context.client)
        yield SendHttp(ResponseEndOfMessage(self.stream_id), self.context.client)

    def _refusal(self) -> http.Response:
        if self.answer.status is not None:
            return _response(self.answer.status, self.tunnel.reason, self.tunnel.headers)
        return bad_gateway(self.answer.error or "no answer", "connection_terminated")

    def _end(self) -> None:
        self.client_state = self.server_state = self.state_errored
        self.flow.live = False
        self._handle_event = self.state_errored


@dataclass
class Opened(commands.Command):
    """The upstream proxy has answered: `error` says why there is no tunnel."""

    error: str | None


class UpstreamTunnel(tunnel.TunnelLayer):
    """Opens its connection by a CONNECT to the upstream proxy, with what the client sent in it.

    Attributes:
        headers: Of the answer, as far as they concern the client.
        reason: Of the answer.
    """

    tunnel_connection: Server

    def __init__(self, context: Context, proxy: Server, request: http.Request, answer: Answer) -> None:
        super().__init__(context, tunnel_connection=proxy, conn=context.server)
        self.child_layer = Opener(context)
        self.headers = http.Headers()
        self.reason = ""
        self._request = request
        self._answer = answer
        self._buffer = bytearray()

    def start_handshake(self) -> CommandGenerator[None]:
        """Send the CONNECT."""
        self._answer.asked = time.monotonic()
        yield commands.SendData(self.tunnel_connection, http1.assemble_request_head(self._request))

    def receive_handshake_data(self, data: bytes) -> CommandGenerator[tuple[bool, str | None]]:
        """Read the answer; what follows it is the tunnel's."""
        # Only what is new can complete a head: one that comes byte by byte costs no more than one that does not.
        start = max(len(self._buffer) - 2, 0)
        self._buffer += data
        complete = self._buffer.find(b"\n\r\n", start) != -1 or self._buffer.find(b"\n\n", start) != -1
        if not complete and len(self._buffer) < MAX_HEAD:
            return False, None
        try:
            while True:
                head = parse_response_head(bytes(self._buffer))
                if head is None:
                    return False, None
                fields = bytes(self._buffer[: head.head_length])
                del self._buffer[: head.head_length]
                if head.status >= 200:
                    break
        except DecodeError as error:
            return False, self._fail("garbage", f"the upstream proxy's answer is no HTTP ({error})")
        self._answer.status, self.reason = head.status, head.reason
        self.headers = _fields(fields)
        if 200 <= head.status < 300:
            if self._buffer:
                yield from self.receive_data(bytes(self._buffer))
                self._buffer.clear()
            return True, None
        return False, self._fail("refused", f"{head.status} {head.reason}".strip())

    def on_handshake_error(self, err: str) -> CommandGenerator[None]:
        """Note why, and close."""
        if self._answer.kind is None:
            self._fail("silent", "the upstream proxy closed the connection without an answer")
        yield from super().on_handshake_error(err)

    def _fail(self, kind: Literal["refused", "silent", "garbage"], error: str) -> str:
        self._answer.kind, self._answer.error = kind, error
        return error


class Opener(layer.Layer):
    """Asks for the tunnel at once, says how that went, and hands over to whatever the client then speaks."""

    def _handle_event(self, event: events.Event) -> CommandGenerator[None]:
        if not isinstance(event, events.Start):
            return
        error = yield commands.OpenConnection(self.context.server)
        if error is None:
            following = layer.NextLayer(self.context)
            self._handle_event = following.handle_event  # type: ignore[method-assign]
            yield from following.handle_event(event)
        # Last, since it brings on what the client has sent already.
        yield Opened(error)


def _fields(head: bytes) -> http.Headers:
    """Header fields as they came: `parse_response_head` has already found the head to be one."""
    lines = [line for line in head.replace(b"\r\n", b"\n").split(b"\n")[1:] if line]
    try:
        return http1.read_response_head([b"HTTP/1.1 200 OK", *lines]).headers
    except ValueError:
        return http.Headers()


def _response(status: int, reason: str, headers: http.Headers) -> http.Response:
    passed_on = headers.copy()
    for name in _NOT_PASSED_ON:
        passed_on.pop(name, None)
    if status != 200:
        passed_on["Content-Length"] = "0"
    now = time.time()
    return http.Response(b"HTTP/1.1", status, reason.encode("latin-1", "replace"), passed_on, b"", None, now, now)


def bad_gateway(text: str, error: str, status: int = 502) -> http.Response:
    """h3probe's own refusal, with the reason for people and for programs (RFC 9209, 2.1.1 and 2.3).

    Args:
        text: Why, in plain words.
        error: The same as one of RFC 9209's error types.
        status: What to answer.
    """
    details = "".join(c if " " <= c <= "~" and c not in '"\\' else "?" for c in text)[:200]
    return http.Response.make(
        status,
        f"h3probe: {text}\n".encode("utf-8", "replace"),
        {
            "Content-Type": "text/plain; charset=utf-8",
            "Proxy-Status": f'h3probe; error={error}; details="{details}"',
        },
    )
