from __future__ import annotations

import pytest

from h3probe.vantage.mitm.settings import QuicReady, Settings, Standing, Upstream


@pytest.mark.parametrize(
    "settings",
    [
        Settings(3),
        Settings(3, intercept=()),
        Settings(
            9,
            intercept=("example.org", "*.example.net"),
            upstream=Upstream("https", "::1", 3128, "Basic bWU6c2VjcmV0"),
            standing=(Standing(8443, "example.org", 443),),
            secrets=("bWU6c2VjcmV0",),
            aliases=(("198.18.0.9", "127.0.0.1"),),
        ),
    ],
)
def test_settings_come_back(settings: Settings) -> None:
    """What h3probe writes on its mitmdump's standard input is one line, and is read there as it was."""
    line = settings.dump()
    assert line.endswith("\n")
    assert line.count("\n") == 1
    assert Settings.load(line) == settings


def test_an_upstream_has_a_name_without_credentials() -> None:
    """What is shown of an upstream proxy is its host and port."""
    assert Upstream("http", "corp", 3128, "Basic x").name == "corp:3128"
    assert Upstream("http", "::1", 3128).name == "[::1]:3128"


def test_a_race_comes_back() -> None:
    """It is one line too, whatever a client put into its ClientHello."""
    for host in ("example.org", 'a"\n\x00é'):
        line = QuicReady(host).dump()
        assert line.isascii()
        assert line.count("\n") == 1
        assert QuicReady.load(line) == QuicReady(host)
