from __future__ import annotations

import pytest

from h3probe.wire.urls import LONGEST_URL, is_origin, path_of


@pytest.mark.parametrize(
    ("target", "expected"),
    [
        ("/", "/"),
        ("/a/b", "/a/b"),
        ("/a?token=secret&x=1", "/a?token=…&x=…"),
        ("/a?secret", "/a?…"),
        ("/a?x=1;y=2&&z", "/a?x=…;y=…&&…"),
        ("/a?x=a=b", "/a?x=…"),
        ("/a?", "/a?"),
        ("*", "*"),
    ],
)
def test_queries_keep_names_alone(target: str, expected: str) -> None:
    """A query may hold a credential: its values are left out, and so is what is not a name with a value."""
    assert path_of(target) == expected


def test_a_path_is_cut() -> None:
    """A path of any length is reported at a bounded one."""
    assert len(path_of("/" + "x" * 100_000)) == LONGEST_URL


@pytest.mark.parametrize(
    "text", ["https://h3.test:443", "http://[::1]:80", "https://a b:1", "https://" + "a" * 255 + ":65535"]
)
def test_origins(text: str) -> None:
    """Whatever a host is called, an origin has a scheme and a port."""
    assert is_origin(text)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "h3.test:443",
        "https://h3.test",
        "https://h3.test:443/a",
        "https://:443",
        "https://h:65536",
        "https://h:x",
        "https://h:٣",
        f"https://{'a' * 256}:443",
        f"https://h:{'4' * 5000}",
    ],
)
def test_what_is_no_origin(text: str) -> None:
    """What lacks a part, goes on behind the port, or is longer than any name is none."""
    assert not is_origin(text)
