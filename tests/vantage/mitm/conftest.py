"""Proxies that the tests of the add-ons share: each takes a second to start."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from h3probe.events import ProxyReady
from h3probe.lab.authority import Authority, create_authority
from h3probe.lab.servers import SERVERS, Server, running
from h3probe.vantage.mitm.settings import Upstream
from h3probe.vantage.proxy import Proxy
from h3probe.vantage.proxy_spec import Listen, ProxySpec
from tests.vantage.proxying import Background, Corporate, Watched, only

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

CREDENTIALS = "Basic bWU6dG9wLXNlY3JldA=="


@pytest.fixture(scope="session")
def background() -> Iterator[Background]:
    """A loop for servers."""
    with Background() as background:
        yield background


@pytest.fixture(scope="session")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    """The authority of the lab's servers."""
    return create_authority(tmp_path_factory.mktemp("authority"))


@pytest.fixture(scope="session")
def server(background: Background, authority: Authority) -> Server:
    """A server with all versions of HTTP, and Alt-Svc."""
    return background.enter(running(SERVERS["h3"], authority))


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the proxies of these tests keep their authority."""
    return tmp_path_factory.mktemp("data") / "proxy"


@pytest.fixture(scope="session")
def start(folder: Path) -> Iterator[Callable[[ProxySpec], Watched]]:
    """Start proxies that are stopped after the last test."""
    started: list[Proxy] = []

    def start(spec: ProxySpec) -> Watched:
        proxy = Proxy(spec, folder=folder)
        started.append(proxy)
        proxy.start()
        proxy.wait_until_ready()
        return Watched(proxy)

    yield start
    for proxy in started:
        proxy.stop()


@pytest.fixture(scope="session")
def blind(start: Callable[[ProxySpec], Watched]) -> Watched:
    """An explicit proxy that lets TLS be."""
    watched = start(ProxySpec(listen=Listen(0)))
    watched.until(lambda events: bool(only(ProxyReady, events)))
    return watched


@pytest.fixture(scope="session")
def corporate(start: Callable[[ProxySpec], Watched], background: Background) -> tuple[Watched, Corporate]:
    """A proxy with credentials for the one behind it."""
    other = Corporate(b"")
    background.run(other.start())
    watched = start(ProxySpec(listen=Listen(0), upstream=Upstream("http", "127.0.0.1", other.port, CREDENTIALS)))
    watched.until(lambda events: bool(only(ProxyReady, events)))
    return watched, other
