from __future__ import annotations

import socket
from typing import TYPE_CHECKING

from h3probe.vantage.mitm.settings import Standing, Upstream
from h3probe.vantage.proxy_command import command_line, environment_for, modes_of, settings_for
from h3probe.vantage.proxy_spec import PASSWORD_VARIABLE, Listen, ProxySpec, Reverse

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

AUTHORIZATION = "Basic YW5uOnNlY3JldA=="
UPSTREAM = Upstream("http", "proxy.example", 3128, AUTHORIZATION)


def test_the_modes_of_a_proxy() -> None:
    """An explicit proxy is chained where there is one behind it, without a credential on the command line."""
    (mode,), standing = modes_of(ProxySpec(listen=Listen(0, "127.0.0.1"), upstream=UPSTREAM))
    assert mode.startswith("upstream:http://proxy.example:3128@127.0.0.1:")
    assert standing == ()
    assert modes_of(ProxySpec(transparent=(Listen(5, "127.0.0.1"),))) == (["transparent@127.0.0.1:5"], ())


def test_the_modes_before_a_server() -> None:
    """A reverse proxy names its server, an address of IPv6 in brackets, and says on which port it stands."""
    modes, (standing,) = modes_of(ProxySpec(reverse=(Reverse(Listen(0, "127.0.0.1"), "::1", 4433),)))
    assert modes == [f"reverse:https://[::1]:4433@127.0.0.1:{standing.port}"]
    assert standing == Standing(standing.port, "::1", 4433)


def test_a_port_that_was_claimed_is_free() -> None:
    """Claiming a port does not take it: the process has it later."""
    (mode,), _ = modes_of(ProxySpec(listen=Listen(0, "127.0.0.1")))
    with socket.create_server(("127.0.0.1", int(mode.rpartition(":")[2]))):
        pass


def test_who_may_come(tmp_path: Path) -> None:
    """A proxy on loopback turns away who is elsewhere; whom a redirect brings to a transparent one it takes."""
    explicit, transparent = ProxySpec(listen=Listen(0, "127.0.0.1")), ProxySpec(transparent=(Listen(5, "127.0.0.1"),))
    assert "block_global=true" in command_line(explicit, tmp_path, [])
    assert "block_global=false" in command_line(transparent, tmp_path, [])
    assert f"confdir={tmp_path}" in command_line(explicit, tmp_path, [])


def test_the_password_is_not_in_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """What it needs it is told; nobody can read it out of its environment."""
    monkeypatch.setenv(PASSWORD_VARIABLE, "secret")
    monkeypatch.setenv("PYTHONPATH", "/mine")
    environment = environment_for(None)
    assert PASSWORD_VARIABLE not in environment
    assert environment["PYTHONPATH"].endswith(":/mine")


def test_what_must_not_be_logged() -> None:
    """The credential for the proxy behind it is among what is told, and named as a secret."""
    settings = settings_for(ProxySpec(listen=Listen(0, "127.0.0.1"), upstream=UPSTREAM), 7, ())
    assert (settings.events, settings.upstream, settings.secrets) == (7, UPSTREAM, ("YW5uOnNlY3JldA==",))
    assert settings_for(ProxySpec(listen=Listen(0, "127.0.0.1")), 7, ()).secrets == ()
