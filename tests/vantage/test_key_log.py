from __future__ import annotations

from pathlib import Path

import pytest

from h3probe.events import Secrets
from h3probe.vantage.key_log import LONGEST_LINE, KeyLogTail, key_log_environment
from h3probe.vantage.proxy_settings import kind_of

LINE = b"CLIENT_RANDOM " + b"11" * 32 + b" " + b"22" * 48 + b"\n"
OTHER = LINE.replace(b"11", b"33")


@pytest.mark.parametrize(
    ("program", "expected"),
    [
        ("curl", {}),
        ("chromium", {}),
        ("/usr/bin/google-chrome-stable", {}),
        ("firefox", {}),
        ("python3.13", {}),
        ("node", {"NODE_OPTIONS": "-r x --tls-keylog=/k/keys.log"}),
        ("npm", {"NODE_OPTIONS": "-r x --tls-keylog=/k/keys.log"}),
        ("./start.sh", {"NODE_OPTIONS": "-r x --tls-keylog=/k/keys.log"}),
    ],
)
def test_each_kind_of_program_is_asked_its_own_way(program: str, expected: dict[str, str]) -> None:
    """All look at one variable but Node, whose option comes after what is there already."""
    before = {"A": "b", "NODE_OPTIONS": "-r x"}
    environment, lines = key_log_environment(kind_of([program]), [program], Path("/k/keys.log"), environment=before)
    assert environment == {**before, "SSLKEYLOGFILE": "/k/keys.log", **expected}
    assert len(lines) == 1 + len(expected)


def test_a_name_with_a_space_is_quoted_for_node() -> None:
    """Node cuts its options at spaces, except between quotation marks."""
    environment, _ = key_log_environment("unknown", ["x"], Path('/a b/"c'), environment={})
    assert environment["NODE_OPTIONS"] == '"--tls-keylog=/a b/\\"c"'
    assert environment["SSLKEYLOGFILE"] == '/a b/"c'


def test_whole_lines_are_told(tmp_path: Path) -> None:
    """First that secrets will come, then each line when it is whole; the last one also without its end."""
    path = tmp_path / "keys.log"
    path.write_bytes(b"")
    with KeyLogTail(path) as tail:
        assert tail.events() == [Secrets(b"", growing=True)]
        assert tail.events() == []
        with path.open("ab", buffering=0) as stream:
            stream.write(LINE + LINE[:40])
            assert tail.events() == [Secrets(LINE, growing=True)]
            stream.write(LINE[40:-1])
            assert tail.events() == []
        assert tail.rest() == [Secrets(LINE, growing=True)]
        assert not tail.empty


def test_a_log_that_a_second_library_begins_anew(tmp_path: Path) -> None:
    """What one library of a program wrote is told though another one, as qh3, empties the file first."""
    path = tmp_path / "keys.log"
    path.write_bytes(b"")
    with KeyLogTail(path) as tail:
        tail.events()
        path.write_bytes(LINE + LINE[:40])
        assert tail.events() == [Secrets(LINE, growing=True)]
        path.write_bytes(OTHER)
        assert tail.events() == [Secrets(OTHER, growing=True)]
        path.write_bytes(LINE * 3)
        assert tail.rest() == [Secrets(LINE * 3, growing=True)]


def test_an_endless_line_is_not_kept(tmp_path: Path) -> None:
    """A file that is no key log costs no memory."""
    path = tmp_path / "keys.log"
    path.write_bytes(b"x" * 3_000_000)
    with KeyLogTail(path) as tail:
        tail.events()
        (told,) = tail.rest()
        assert len(told.key_log) <= LONGEST_LINE + 1
