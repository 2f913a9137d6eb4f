from __future__ import annotations

import asyncio
import socket
import ssl
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING

import pytest

from h3probe.errors import UserError
from h3probe.events import AltSvcSeen, Exchange
from h3probe.lab.servers import SERVERS, running
from h3probe.vantage.mitm import direct_look
from h3probe.vantage.mitm.direct_look import alt_svc_of, is_telling
from h3probe.vantage.mitm.settings import Upstream
from h3probe.vantage.proxy_spec import Listen, ProxySpec
from h3probe.vantage.proxy_trust import make_trust
from tests.addons.test_addons import CA, mitmdump
from tests.vantage.proxying import get, one, only

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable
    from pathlib import Path

    from h3probe.lab.authority import Authority
    from h3probe.lab.servers import Server
    from tests.vantage.proxying import Background, Watched


def test_the_lines_of_an_answer(background: Background, server: Server, authority: Authority) -> None:
    """A server that offers HTTP/3 says so to a question of h3probe's own."""
    context = ssl.create_default_context(cafile=str(authority.ca_file))
    assert background.run(alt_svc_of("localhost", server.port, "/", context)) == (f'h3=":{server.port}"; ma=3600',)


def test_a_server_that_is_not_to_be_believed(background: Background, server: Server) -> None:
    """What somebody with another certificate offers is no evidence."""
    assert background.run(alt_svc_of("localhost", server.port, "/", ssl.create_default_context())) == ()


def test_a_server_that_cannot_be_reached(background: Background) -> None:
    """A firewall that wants everything to go through the proxy leaves nothing to tell."""
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        port, context = closed.getsockname()[1], ssl.create_default_context()
        assert background.run(alt_svc_of("localhost", port, "/", context)) == ()


def test_a_server_without_an_offer(background: Background, authority: Authority) -> None:
    """A server that sends none has none."""
    plain = background.enter(running(SERVERS["h2"], authority))
    context = ssl.create_default_context(cafile=str(authority.ca_file))
    assert background.run(alt_svc_of("localhost", plain.port, "/", context)) == ()


@asynccontextmanager
async def saying(answer: bytes, asked: list[bytes], authority: Authority) -> AsyncIterator[int]:
    """A server that gives one answer to everything, and may never finish it."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        asked.append(await reader.readuntil(b"\r\n\r\n"))
        writer.write(answer)
        with suppress(OSError):
            await reader.read()
        writer.close()

    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(authority.cert_file, authority.key_file)
    server = await asyncio.start_server(serve, "127.0.0.1", 0, ssl=context)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()


LINE = b'Alt-Svc: h3=":443"\r\n'


@pytest.mark.parametrize(
    ("answer", "lines"),
    [
        (b"HTTP/1.1 200 OK\r\n" + LINE + b"\r\n", ('h3=":443"',)),
        (b"HTTP/1.1 103 Early Hints\r\n\r\nHTTP/1.1 301 Moved\r\n" + LINE + LINE + b"\r\n", ('h3=":443"',) * 2),
        (b"HTTP/1.1 403 Forbidden\r\n" + LINE + b"\r\n", ()),
        (b"HTTP/1.1 503 Busy\r\n" + LINE + b"\r\n", ()),
        (b"HTTP/1.1 200 OK\r\n" + LINE + b"X: " + b"x" * (80 << 10), ()),
        (b"SSH-2.0-x\r\n\r\n", ()),
    ],
)
def test_only_a_good_answer_counts(
    background: Background, authority: Authority, answer: bytes, lines: tuple[str, ...]
) -> None:
    """The path that the client asked for; an error may be that of anybody on the way, and garbage is no answer."""
    asked: list[bytes] = []

    async def look() -> tuple[str, ...]:
        context = ssl.create_default_context(cafile=str(authority.ca_file))
        async with saying(answer, asked, authority) as port:
            return await alt_svc_of("127.0.0.1", port, "/a/b", context)

    assert background.run(look()) == lines
    assert asked[0].startswith(b"HEAD /a/b HTTP/1.1\r\nHost: 127.0.0.1:")


def test_a_server_that_never_finishes(
    background: Background, authority: Authority, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All of a look has one limit, however busily the server goes on."""
    monkeypatch.setattr(direct_look, "TIMEOUT_S", 0.2)

    async def look() -> tuple[str, ...]:
        context = ssl.create_default_context(cafile=str(authority.ca_file))
        async with saying(b"HTTP/1.1 200 OK\r\n" + LINE, [], authority) as port:
            return await alt_svc_of("127.0.0.1", port, "/", context)

    assert background.run(look()) == ()


@pytest.mark.parametrize(
    ("method", "status", "asks"),
    [("GET", 200, True), ("HEAD", 304, True), ("POST", 200, False), ("GET", 403, False), ("GET", 502, False)],
)
def test_when_a_server_is_looked_at(method: str, status: int, *, asks: bool) -> None:
    """An answer that a HEAD for the same path can be held against, and no other."""
    assert is_telling(method, status) is asks


@pytest.mark.parametrize("path", ["*", "/a b", "/a\r\nX: y", ""])
def test_a_path_that_cannot_be_asked_for(background: Background, server: Server, path: str) -> None:
    """Nothing of it ends up on a line of its own."""
    assert background.run(alt_svc_of("localhost", server.port, path, ssl.create_default_context())) == ()


@pytest.mark.parametrize("strips", [True, False])
def test_what_an_upstream_takes_out(  # noqa: PLR0917 - fixtures
    start: Callable[[ProxySpec], Watched],
    background: Background,
    server: Server,
    authority: Authority,
    tmp_path: Path,
    strips: bool,  # noqa: FBT001 - a parameter of the test
) -> None:
    """Behind a proxy that terminates TLS and strips Alt-Svc, each server is asked once past it; else not at all."""
    corporate, roots = tmp_path / "corporate", tmp_path / "roots.pem"
    options = [] if strips else ["strip_alt_svc_hosts=example.org"]
    with mitmdump(corporate, authority, "strip_alt_svc.py", *options) as dump:
        roots.write_text((corporate / CA).read_text() + authority.ca_file.read_text())
        upstream = Upstream("http", "127.0.0.1", dump.port)
        spec = ProxySpec(listen=Listen(0), upstream=upstream, intercept=(), upstream_ca=roots, look_directly=True)
        watched = start(spec)
        trust = make_trust(watched.proxy.folder, authority.ca_file)
        outcomes = get(background, server.url, trust.bundle, proxy=watched.proxy, count=2)
        sent = (f'h3=":{server.port}"; ma=3600',)
        assert [outcome.alt_svc for outcome in outcomes] == [None if strips else sent[0]] * 2
        looked = watched.until(lambda events: len(only(Exchange, events)) == 2 and bool(only(AltSvcSeen, events)))
        if strips:
            seen = one(AltSvcSeen, looked)
            assert (seen.directly, seen.lines, seen.passed_on) == (True, sent, ())
            assert seen.origin == f"https://localhost:{server.port}"
        else:
            assert [(seen.directly, seen.passed_on) for seen in only(AltSvcSeen, looked)] == [(False, sent)] * 2


def test_it_is_for_an_upstream_with_interception() -> None:
    """Without either there is nothing that could be missed."""
    with pytest.raises(UserError, match="--look-directly"):
        ProxySpec(listen=Listen(0), intercept=(), look_directly=True)
    with pytest.raises(UserError, match="--look-directly"):
        ProxySpec(listen=Listen(0), upstream=Upstream("http", "127.0.0.1", 1), look_directly=True)
