from __future__ import annotations

import pytest

from h3probe.wire.urls import LONGEST_URL, path_of


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
