from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING

import pytest

from h3probe.errors import UserError
from h3probe.run.end import Plan
from h3probe.run.key_log import ask_for_keys
from tests.run.test_client_log import Notes

if TYPE_CHECKING:
    from pathlib import Path


def test_a_command_is_asked_for_its_secrets(tmp_path: Path) -> None:
    """The file is made, for its owner alone, what was set is said, and that nothing came is said at the end."""
    notes, path = Notes(), tmp_path / "keys.log"
    with ExitStack() as stack:
        plan = Plan((), None, ("curl", "https://h/"), None, keylog=str(path))
        tail, environment = ask_for_keys(stack, plan, notes, {"A": "b"}, None)
        assert tail is not None
        assert environment == {"A": "b", "SSLKEYLOGFILE": str(path)}
        assert notes.said == [f"set for the command: SSLKEYLOGFILE={path}"]
        assert path.stat().st_mode & 0o777 == 0o600
    assert "wrote no TLS secrets" in notes.said[-1]
    assert notes.said[-1].endswith("or it could not write there (another root, container or user)")


def test_what_came_is_not_complained_of(tmp_path: Path) -> None:
    """One line for what was set, and no other."""
    notes, path = Notes(), tmp_path / "keys.log"
    with ExitStack() as stack:
        plan = Plan((), None, ("curl", "https://h/"), None, keylog=str(path))
        tail, _ = ask_for_keys(stack, plan, notes, None, None)
        assert tail is not None
        path.write_bytes(b"# a line\n")
        tail.rest()
    assert len(notes.said) == 1


def test_java_has_none(tmp_path: Path) -> None:
    """It is said, with what helps instead, and no file is made."""
    notes, path = Notes(), tmp_path / "keys.log"
    with ExitStack() as stack:
        plan = Plan((), None, ("java", "-jar", "app.jar"), None, keylog=str(path))
        assert ask_for_keys(stack, plan, notes, None, None) == (None, None)
    (line,) = notes.said
    assert "--client-log" in line
    assert not path.exists()


def test_without_the_wish_nothing_happens() -> None:
    """No file, no environment, no word."""
    notes = Notes()
    with ExitStack() as stack:
        assert ask_for_keys(stack, Plan((), None, ("curl",), None), notes, None, None) == (None, None)
    assert notes.said == []


def test_a_file_that_holds_something_is_kept(tmp_path: Path) -> None:
    """Secrets of an earlier run are not replaced unasked."""
    path = tmp_path / "keys.log"
    path.write_text("secrets")
    with ExitStack() as stack, pytest.raises(UserError, match="--force"):
        ask_for_keys(stack, Plan((), None, ("curl",), None, keylog=str(path)), Notes(), None, None)
