"""What the lab's servers answer, whatever protocol the request came over."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

_MAX_BYTES = 64 * 1024 * 1024
_PAGES = {"/": b"h3probe lab\n", "/hello": b"hello\n"}


@dataclass(frozen=True, slots=True)
class Response:
    """A whole response.

    Attributes:
        status: The status code.
        headers: Names in lower case, and values.
        body: The content, at most 64 MiB.
    """

    status: int
    headers: list[tuple[bytes, bytes]]
    body: bytes


@dataclass(slots=True)
class Site:
    """The answers of one server.

    Attributes:
        alt_svc: The `Alt-Svc` value to send (RFC 7838), None for none. It may change while the server runs, so that a
            relay that is started later can be advertised.
        swallows_udp: Whether datagrams go unheard, as behind a firewall that drops them; it may change likewise.
    """

    alt_svc: str | None = None
    swallows_udp: bool = False

    def respond(self, method: str, path: str) -> Response:
        """Answer one request: `/`, `/hello`, and `/bytes/N` for N bytes."""
        body = _content(path)
        status = 200 if body is not None else 404
        content = body if body is not None else b"not found\n"
        if method not in {"GET", "HEAD"}:
            status, content = 405, b"GET and HEAD only\n"
        headers = [(b"content-type", b"text/plain"), (b"content-length", b"%d" % len(content))]
        if self.alt_svc is not None:
            headers.append((b"alt-svc", self.alt_svc.encode()))
        return Response(status, headers, b"" if method == "HEAD" else content)


def _content(path: str) -> bytes | None:
    path = path.partition("?")[0]
    prefix, _, number = path.rpartition("/")
    if prefix == "/bytes" and number.isascii() and number.isdigit() and len(number) <= 8:
        return b"x" * min(int(number), _MAX_BYTES)
    return _PAGES.get(path)


def asgi_app(
    site: Site,
) -> Callable[[Any, Callable[[], Awaitable[Any]], Callable[[Any], Awaitable[None]]], Awaitable[None]]:
    """The site as an ASGI 3 application."""

    async def app(
        scope: dict[str, Any], receive: Callable[[], Awaitable[Any]], send: Callable[[Any], Awaitable[None]]
    ) -> None:
        if scope["type"] == "lifespan":
            await _live(receive, send)
        elif scope["type"] == "http":
            response = site.respond(scope["method"], scope["path"])
            await send({"type": "http.response.start", "status": response.status, "headers": response.headers})
            await send({"type": "http.response.body", "body": response.body})

    return app


async def _live(receive: Callable[[], Awaitable[Any]], send: Callable[[Any], Awaitable[None]]) -> None:
    """Answer the server's lifespan events (ASGI lifespan protocol 2.0)."""
    while True:
        kind = (await receive())["type"]
        await send({"type": f"{kind}.complete"})
        if kind == "lifespan.shutdown":
            return
