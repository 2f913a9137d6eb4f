from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from h3probe.vantage.clientlog.words import origin_and_url
from h3probe.wire.urls import is_origin


@pytest.mark.parametrize(
    ("url", "origin", "shown"),
    [
        ("https://Example.org/a", "https://example.org:443", "https://example.org/a"),
        ("http://user:pw@h:8080", "http://h:8080", "http://h:8080/"),
        ("https://[2001:db8::1]/?a=1&b;c=2#x", "https://[2001:db8::1]:443", "https://[2001:db8::1]/?a=…&…;c=…"),
        ("wss://h/socket", "https://h:443", "https://h/socket"),
    ],
)
def test_origin_and_url(url: str, origin: str, shown: str) -> None:
    """An origin always has its port; user information, values and fragments are left out."""
    assert origin_and_url(url) == (origin, shown)


@pytest.mark.parametrize(
    "url", ["", "socket://h:1/", "https://", "https://[::1", "https://h:99999/", "/path", f"https://{'a' * 256}/"]
)
def test_what_is_no_http_url(url: str) -> None:
    """It has neither."""
    assert origin_and_url(url) is None


@given(st.text(max_size=100) | st.text(max_size=100).map("https://{}".format))
def test_any_text(text: str) -> None:
    """Nothing is raised, and what is given is an origin."""
    found = origin_and_url(text)
    assert found is None or is_origin(found[0])
