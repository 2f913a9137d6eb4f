from __future__ import annotations

import asyncio
from typing import Any

import pytest

from h3probe.lab.site import Site, asgi_app


@pytest.mark.parametrize(
    ("path", "status", "size"),
    [
        ("/", 200, 12),
        ("/hello", 200, 6),
        ("/hello?a=b", 200, 6),
        ("/bytes/0", 200, 0),
        ("/bytes/100000", 200, 100_000),
        ("/bytes/99999999", 200, 64 * 1024 * 1024),
        ("/bytes/999999999", 404, 10),
        ("/bytes/-1", 404, 10),
        ("/bytes/", 404, 10),
        ("/bytes/1/2", 404, 10),
        ("", 404, 10),
    ],
)
def test_paths(path: str, status: int, size: int) -> None:
    """Each path has its status and content, bounded in size, and the length says so."""
    response = Site().respond("GET", path)
    assert (response.status, len(response.body)) == (status, size)
    assert dict(response.headers)[b"content-length"] == b"%d" % size


def test_head_has_a_length_and_no_content() -> None:
    """HEAD says how long GET's content would be (RFC 9110, 9.3.2)."""
    response = Site().respond("HEAD", "/hello")
    assert response.body == b""
    assert dict(response.headers)[b"content-length"] == b"6"


def test_other_methods_are_refused() -> None:
    """Nothing but GET and HEAD is taken."""
    assert Site().respond("POST", "/").status == 405


def test_alt_svc_follows_the_site() -> None:
    """The header appears as soon as it is set, as it is set."""
    site = Site()
    assert b"alt-svc" not in dict(site.respond("GET", "/").headers)
    site.alt_svc = 'h3=":1"; ma=3600'
    assert dict(site.respond("GET", "/").headers)[b"alt-svc"] == b'h3=":1"; ma=3600'


def test_lifespan_is_answered() -> None:
    """The application completes both lifespan events and then returns."""
    events = iter(["lifespan.startup", "lifespan.shutdown"])
    sent: list[Any] = []

    async def receive() -> dict[str, str]:
        return {"type": next(events)}

    async def send(message: Any) -> None:  # noqa: ANN401 - ASGI messages
        sent.append(message)

    asyncio.run(asgi_app(Site())({"type": "lifespan"}, receive, send))  # type: ignore[arg-type]
    assert [message["type"] for message in sent] == ["lifespan.startup.complete", "lifespan.shutdown.complete"]


def test_a_page_that_asks_for_more() -> None:
    """It is HTML, and sends as many requests as its path says; other paths below it are no page."""
    page = Site().respond("GET", "/page/3")
    assert (page.status, page.headers[0]) == (200, (b"content-type", b"text/html"))
    assert b"number <= 3;" in page.body
    assert Site().respond("GET", "/page/x").status == 404
    assert Site().respond("GET", "/page/1000").status == 404
