from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from typing import TYPE_CHECKING

import psutil
import pytest

from h3probe.errors import UserError
from h3probe.events import ProxyDied, ProxyReady
from h3probe.vantage import proxy_command
from h3probe.vantage.privileges import User
from h3probe.vantage.proxy import Proxy
from h3probe.vantage.proxy_ports import claim
from h3probe.vantage.proxy_spec import Listen, ProxySpec
from tests.vantage.proxying import PATIENCE_S, Watched, one, only

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the proxies of these tests keep their authority."""
    return tmp_path_factory.mktemp("data") / "proxy"


def test_its_death_is_an_event(folder: Path) -> None:
    """A proxy that dies says so with its exit status, once, and nothing after it."""
    with Proxy(ProxySpec(listen=Listen(0)), folder=folder) as proxy:
        assert proxy.pid is not None
        os.kill(proxy.pid, signal.SIGKILL)
        events = Watched(proxy).until(lambda events: bool(only(ProxyDied, events)))
        assert events[-1].exit_status == 128 + signal.SIGKILL
        assert proxy.events() == []
        assert proxy.stop() == []


def test_it_ends_with_h3probe(folder: Path) -> None:
    """When h3probe is killed its proxy goes too: nobody is left to end it."""
    code = (
        "import sys, time; from pathlib import Path; from h3probe.vantage.proxy import Proxy; "
        "from h3probe.vantage.proxy_spec import *; p = Proxy(ProxySpec(listen=Listen(0)), folder=Path(sys.argv[1])); "
        "p.start(); p.wait_until_ready(); print(p.pid, flush=True); time.sleep(60)"
    )
    with subprocess.Popen([sys.executable, "-c", code, str(folder)], stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        process = psutil.Process(int(parent.stdout.readline()))
        parent.kill()
    process.wait(PATIENCE_S)
    assert not process.is_running()


def test_a_port_in_use(folder: Path) -> None:
    """A port that is taken is said to be, before anything is started."""
    with socket.create_server(("127.0.0.1", 0)) as taken, pytest.raises(UserError, match="in use here"):
        Proxy(ProxySpec(listen=Listen(taken.getsockname()[1])), folder=folder).start()


def test_any_port_is_any_port(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A free port that somebody takes before the proxy has it is replaced by another one."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        found = [(["127.0.0.1"], taken.getsockname()[1])]
        free = claim("127.0.0.1", 0, udp=False)
        monkeypatch.setattr(proxy_command, "claim", lambda *_, **__: found.pop() if found else free)
        with Proxy(ProxySpec(listen=Listen(0)), folder=folder) as proxy:
            assert proxy.port == free[1]
            assert not only(ProxyDied, proxy.events())


def test_it_cannot_start(tmp_path: Path) -> None:
    """What keeps it from starting is the message: here, options that h3probe does not run with."""
    folder = tmp_path / "proxy"
    folder.mkdir(mode=0o700)
    (folder / "config.yaml").write_text("store_streamed_bodies: true\n")
    proxy = Proxy(ProxySpec(listen=Listen(0)), folder=folder)
    proxy.start()
    with pytest.raises(UserError, match="does not run with mitmproxy's option store_streamed_bodies"):
        proxy.wait_until_ready()
    proxy.stop()


def test_stop_is_clean(folder: Path) -> None:
    """Stopped, the process is gone, the port is free, and nothing counts as a death."""
    with Proxy(ProxySpec(listen=Listen(0)), folder=folder) as proxy:
        assert proxy.pid is not None
        process, port = psutil.Process(proxy.pid), proxy.port
        assert not proxy.is_exposed
        assert not only(ProxyDied, proxy.stop())
    assert not process.is_running()
    with socket.create_server(("127.0.0.1", port)):
        pass


def test_the_key_is_private(tmp_path: Path) -> None:
    """What the authority signs with can be read by its owner only, also where the folder was open to all."""
    folder = tmp_path / "proxy"
    folder.mkdir(mode=0o755)
    with Proxy(ProxySpec(listen=Listen(0)), folder=folder):
        pass
    assert folder.stat().st_mode & 0o777 == 0o700
    keys = [path for path in folder.iterdir() if b"PRIVATE KEY" in path.read_bytes() or path.name == "mitmproxy-ca.p12"]
    assert len(keys) == 2
    assert {path.stat().st_mode & 0o777 for path in keys} == {0o600}


def test_nothing_of_mitmproxy_is_imported() -> None:
    """h3probe's own process stays light: the proxy's module pulls in neither mitmproxy nor cryptography."""
    code = (
        "import sys, h3probe.vantage.proxy, h3probe.vantage.proxy_settings; "
        "print(sorted({n.partition('.')[0] for n in sys.modules} & {'mitmproxy', 'cryptography', 'OpenSSL'}))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


TRANSPARENT_PORT = 53089


def transparent(folder: Path, *, user: User | None = None) -> tuple[Proxy, list[list[str]]]:
    """A transparent proxy, and the command lines that it would have run elsewhere."""
    wrapped: list[list[str]] = []

    def wrap(argv: list[str]) -> list[str]:
        wrapped.append(argv)
        return ["env", *argv]

    spec = ProxySpec(transparent=(Listen(TRANSPARENT_PORT, "127.0.0.1"),), intercept=())
    return Proxy(spec, folder=folder, user=user, wrap=wrap), wrapped


def test_it_runs_elsewhere(folder: Path) -> None:
    """What makes its command line is asked once, its own pipe says when it listens, and it ends like any other."""
    proxy, wrapped = transparent(folder)
    with proxy:
        assert [str(address) for address in proxy.addresses] == [f"127.0.0.1:{TRANSPARENT_PORT}"]
        assert one(ProxyReady, proxy.events()).mode == "transparent"
        for host in ("example.org", "x" * 100_000, 'quoted"\n'):
            proxy.quic_ready(host)
        assert not only(ProxyDied, proxy.stop())
    assert len(wrapped) == 1
    proxy.quic_ready("example.org")


def test_a_port_in_use_elsewhere(folder: Path) -> None:
    """No port is tried from here; the process's own last words say what is wrong."""
    proxy, _ = transparent(folder)
    with socket.create_server(("127.0.0.1", TRANSPARENT_PORT)), pytest.raises(UserError, match="in use"), proxy:
        pass


NOBODY = User(65534, 65534, "nobody")
