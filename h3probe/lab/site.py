"""What the lab's servers answer, whatever protocol the request came over."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

_MAX_BYTES = 64 * 1024 * 1024
_PAGES = {"/": b"h3probe lab\n", "/hello": b"hello\n"}
PAGES = "/page/"
"""Before a number: a page that sends so many requests, its own among them."""

# A request that a page waits for keeps it from being loaded, and half a second in between lets a browser follow an
# Alt-Svc. The lines are those of Probe.java; what the browser says of a request is in its timing (Resource Timing).
_PAGE = b"""<!doctype html><link rel=icon href="data:,"><pre id=told></pre><script>
const versions = {h3: "HTTP_3", h2: "HTTP_2", "http/1.1": "HTTP_1_1"};
const took = [];
for (let number = 2; number <= %d; number++) {
  for (const until = performance.now() + 500; performance.now() < until;);
  const began = performance.now(), request = new XMLHttpRequest();
  request.open("GET", "/hello?" + number, false);
  try { request.send(); } catch (error) { }
  took[number] = performance.now() - began;
}
onload = () => {
  const page = performance.getEntriesByType("navigation")[0];
  took[1] = page.responseEnd - page.fetchStart;
  const entries = [page, ...performance.getEntriesByType("resource").filter(entry => entry.name.includes("/hello?"))];
  told.textContent = "\\n" + entries.map((entry, index) => {
    const version = versions[entry.nextHopProtocol];
    const result = version && entry.responseStatus ? `${version} ${entry.responseStatus} alt-svc=-` : "no response";
    return `request ${index + 1}: ${result} after ${Math.round(took[index + 1])} ms\\n`;
  }).join("");
};
</script>
"""


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
        """Answer one request: `/`, `/hello`, `/bytes/N` for N bytes, and `/page/N` for a page with N requests."""
        body = _content(path)
        status = 200 if body is not None else 404
        content = body if body is not None else b"not found\n"
        if method not in {"GET", "HEAD"}:
            status, content = 405, b"GET and HEAD only\n"
        kind = b"text/html" if path.startswith(PAGES) else b"text/plain"
        headers = [(b"content-type", kind), (b"content-length", b"%d" % len(content))]
        if self.alt_svc is not None:
            headers.append((b"alt-svc", self.alt_svc.encode()))
        return Response(status, headers, b"" if method == "HEAD" else content)


def _content(path: str) -> bytes | None:
    path = path.partition("?")[0]
    prefix, _, number = path.rpartition("/")
    if f"{prefix}/" == PAGES and number.isascii() and number.isdigit() and len(number) <= 3:
        return _PAGE.replace(b"%d", number.encode())
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
