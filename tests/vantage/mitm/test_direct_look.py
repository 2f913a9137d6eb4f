from __future__ import annotations

import socket
import ssl
from typing import TYPE_CHECKING

import pytest

from h3probe.errors import UserError
from h3probe.events import AltSvcSeen, Exchange
from h3probe.lab.servers import SERVERS, running
from h3probe.vantage.mitm.direct_look import alt_svc_of
from h3probe.vantage.mitm.settings import Upstream
from h3probe.vantage.proxy_spec import Listen, ProxySpec
from h3probe.vantage.proxy_trust import make_trust
from tests.addons.test_addons import CA, mitmdump
from tests.vantage.proxying import get, one, only

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from h3probe.lab.authority import Authority
    from h3probe.lab.servers import Server
    from tests.vantage.proxying import Background, Watched


def test_the_lines_of_an_answer(server: Server, authority: Authority) -> None:
    """A server that offers HTTP/3 says so to a question of h3probe's own."""
    context = ssl.create_default_context(cafile=str(authority.ca_file))
    assert alt_svc_of("localhost", server.port, context) == (f'h3=":{server.port}"; ma=3600',)


def test_a_server_that_is_not_to_be_believed(server: Server) -> None:
    """What somebody with another certificate offers is no evidence."""
    assert alt_svc_of("localhost", server.port, ssl.create_default_context()) == ()


def test_a_server_that_cannot_be_reached() -> None:
    """A firewall that wants everything to go through the proxy leaves nothing to tell."""
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        assert alt_svc_of("localhost", closed.getsockname()[1], ssl.create_default_context()) == ()


def test_a_server_without_an_offer(background: Background, authority: Authority) -> None:
    """A server that sends none has none."""
    plain = background.enter(running(SERVERS["h2"], authority))
    context = ssl.create_default_context(cafile=str(authority.ca_file))
    assert alt_svc_of("localhost", plain.port, context) == ()


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
