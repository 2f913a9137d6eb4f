"""What a command under watch is given to be seen by."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass

import pytest

from h3probe.run.explaining import Explained
from h3probe.run.settings import complain_if_empty, environment_to_add_to, tell_settings
from h3probe.vantage.privileges import User


@dataclass
class Read:
    """A file of which something came, or nothing."""

    empty: bool


def test_an_environment_is_added_to() -> None:
    """What there is already goes on; else it is the user's, and this process's own where there is no user."""
    nobody = User(65534, 65534, "nobody")
    assert environment_to_add_to({"A": "b"}, nobody) == {"A": "b"}
    assert environment_to_add_to(None, None) is None
    users = environment_to_add_to(None, nobody)
    assert users is not None
    assert users["USER"] == "nobody"


def test_each_setting_is_told() -> None:
    """One line for each."""
    output = Explained()
    tell_settings(output, ["A=b", "C=d"])
    assert output.notes == ["set for the command: A=b", "set for the command: C=d"]


@pytest.mark.parametrize(("empty", "notes"), [(True, ["nothing came"]), (False, [])])
def test_what_came_to_nothing_is_told_at_the_end(empty: bool, notes: list[str]) -> None:  # noqa: FBT001
    """Where nothing came, and only then, the end of the run says so."""
    output = Explained()
    with ExitStack() as stack:
        complain_if_empty(stack, Read(empty), output, "nothing came")
        assert output.notes == []
    assert output.notes == notes


def test_a_run_that_went_wrong_has_other_worries() -> None:
    """After an error nothing is said of what did not come."""
    output = Explained()
    stack = ExitStack()
    complain_if_empty(stack, Read(empty=True), output, "nothing came")
    stack.__exit__(ZeroDivisionError, ZeroDivisionError(), None)
    assert output.notes == []
