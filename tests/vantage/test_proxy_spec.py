from __future__ import annotations

import pytest

from h3probe.errors import UserError
from h3probe.vantage.mitm.settings import Upstream
from h3probe.vantage.proxy_spec import (
    PASSWORD_VARIABLE,
    Listen,
    ProxySpec,
    Reverse,
    parse_proxy,
    parse_reverse,
    parse_upstream,
)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("8899", Listen(8899)),
        ("0", Listen(0)),
        ("0.0.0.0:8899", Listen(8899, "0.0.0.0")),  # noqa: S104 - it is only parsed
        ("localhost:8899", Listen(8899, "localhost")),
        ("[::1]:8899", Listen(8899, "::1")),
    ],
)
def test_proxy(text: str, expected: Listen) -> None:
    """A port, with a host before it or without."""
    assert parse_proxy(text) == expected


@pytest.mark.parametrize("text", ["", "x", "65536", "-1", ":8899", "::1:8899", "a b:1", "http://x:1", "1.5", "٣"])
def test_no_proxy(text: str) -> None:
    """Anything else is refused with an example."""
    with pytest.raises(UserError, match="as 8899"):
        parse_proxy(text)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("8443=example.org:443", Reverse(Listen(8443), "example.org", 443)),
        ("127.0.0.1:0=[2001:db8::1]:443", Reverse(Listen(0, "127.0.0.1"), "2001:db8::1", 443)),
    ],
)
def test_reverse(text: str, expected: Reverse) -> None:
    """Where to listen, and what to stand before."""
    assert parse_reverse(text) == expected


@pytest.mark.parametrize("text", ["", "8443", "8443=", "8443=443", "8443=x:0", "x=y:1", "1=2=3", "8443=::1:443"])
def test_no_reverse(text: str) -> None:
    """Anything else is refused with an example."""
    with pytest.raises(UserError, match=r"8443=example\.org:443"):
        parse_reverse(text)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("http://corp:3128", Upstream("http", "corp", 3128)),
        ("http://corp:3128/", Upstream("http", "corp", 3128)),
        ("corp:3128", Upstream("http", "corp", 3128)),
        ("https://corp", Upstream("https", "corp", 443)),
        ("http://corp", Upstream("http", "corp", 80)),
        ("http://[::1]:3128", Upstream("http", "::1", 3128)),
        ("http://me:s%40cret@corp:3128", Upstream("http", "corp", 3128, "Basic bWU6c0BjcmV0")),
        ("http://me@corp:3128", Upstream("http", "corp", 3128, "Basic bWU6ZnJvbS1lbnY=")),
    ],
)
def test_upstream(text: str, expected: Upstream) -> None:
    """A URL, with credentials in it or a password in the environment."""
    assert parse_upstream(text, {PASSWORD_VARIABLE: "from-env"}) == expected


@pytest.mark.parametrize(
    "text",
    [
        "",
        "ftp://me:secret@corp",
        "socks5://me:secret@corp",
        "http://me:secret@",
        "http://me:secret@corp:0",
        "http://me:secret@corp:99999",
        "http://me:secret@corp/path",
        "http://me:secret@corp/?q",
        "http://me:secret@[::1",
        "http://me%3Ax:secret@corp",
    ],
)
def test_no_upstream(text: str) -> None:
    """Anything else is refused, by a message that has no credential in it."""
    with pytest.raises(UserError) as caught:
        parse_upstream(text, {})
    assert "secret" not in str(caught.value)


def test_a_user_without_a_password() -> None:
    """The message says where the password goes."""
    with pytest.raises(UserError, match=PASSWORD_VARIABLE):
        parse_upstream("http://me@corp:3128", {})


def test_what_excludes_each_other() -> None:
    """A proxy is explicit or reverse, and only an explicit one has another one behind it."""
    reverse = (Reverse(Listen(0), "example.org", 443),)
    with pytest.raises(UserError):
        ProxySpec()
    with pytest.raises(UserError):
        ProxySpec(listen=Listen(0), reverse=reverse)
    with pytest.raises(UserError):
        ProxySpec(reverse=reverse, upstream=Upstream("http", "corp", 3128))


def test_a_transparent_proxy() -> None:
    """It listens on given ports of given addresses, and is nothing else besides."""
    here = (Listen(53080, "198.18.0.1"), Listen(53080, "2001:db8::1"))
    assert ProxySpec(transparent=here).transparent == here
    with pytest.raises(UserError, match="transparent"):
        ProxySpec(listen=Listen(0), transparent=here)
    with pytest.raises(UserError, match="a transparent proxy connects"):
        ProxySpec(transparent=here, upstream=Upstream("http", "corp", 3128))
    for listen in (Listen(0, "198.18.0.1"), Listen(53080), Listen(53080, "0.0.0.0"), Listen(53080, "localhost")):  # noqa: S104 - it is refused
        with pytest.raises(UserError, match="given ports of given addresses"):
            ProxySpec(transparent=(listen,))
