from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from h3probe.run.client_log import ask_for_log
from h3probe.run.end import Plan
from h3probe.vantage.clientlog.tail import NetLogTail

if TYPE_CHECKING:
    from collections.abc import Iterable

    from h3probe.records import AnyRecord, Moment


@dataclass
class Notes:
    """An output that keeps the remarks."""

    said: list[str] = field(default_factory=list)

    wants_moments = True

    def moments(self, moments: Iterable[Moment]) -> None:
        """None are made here."""

    def records(self, records: Iterable[AnyRecord]) -> None:
        """None are made here."""

    def note(self, text: str) -> None:
        """Keep it."""
        self.said.append(text)

    def close(self) -> None:
        """Nothing is held back."""


def asked(
    *command: str, environment: dict[str, str] | None = None, client_log: bool = True, show: bool = False
) -> tuple[bool, dict[str, str] | None, list[str]]:
    """Whether there is a log to read, the command's environment, and what was said."""
    notes = Notes()
    plan = Plan((), None, command, None, client_log=client_log, show_log=show)
    with ExitStack() as stack:
        made = ask_for_log(stack, plan, notes, environment, None)
        return made.log is not None, made.environment, notes.said


@pytest.mark.parametrize("program", ["java", "./run-tests.sh"])
def test_a_jvm_is_asked_by_its_environment(program: str) -> None:
    """The option comes after what is there already, and that it was set is said."""
    there, environment, said = asked(program, environment={"JAVA_TOOL_OPTIONS": "-Xmx64m", "A": "b"})
    assert there
    assert environment is not None
    assert environment["A"] == "b"
    before, option = environment["JAVA_TOOL_OPTIONS"].split()
    assert (before, option.partition("=")[0]) == ("-Xmx64m", "-Djdk.httpclient.HttpClient.log")
    assert said[0].startswith("set for the command: JAVA_TOOL_OPTIONS=-Djdk.httpclient.HttpClient.log=")
    assert "--show-log" in said[1]
    assert len(asked(program, show=True)[2]) == 1


@pytest.mark.parametrize(
    ("command", "words"),
    [
        (("curl", "-sv", "https://h/"), "curl's log is read"),
        (("curl", "--verbose", "https://h/"), "curl's log is read"),
        (("curl", "https://h/"), "curl -v --trace-ids --trace-time"),
        (("wget", "https://h/"), "no log of wget is known"),
    ],
)
def test_others_are_left_as_they_are(command: tuple[str, ...], words: str) -> None:
    """Nothing is changed for a program that is no JVM, and one line says what there is to read."""
    there, environment, said = asked(*command, environment={"A": "b"})
    assert there
    assert environment == {"A": "b"}
    (line,) = said
    assert words in line
    assert asked(*command)[1] is None


def test_without_the_wish_nothing_happens() -> None:
    """No pipe, no environment, no word."""
    assert asked("java", client_log=False) == (False, None, [])


def netlog(*command: str) -> tuple[Plan, list[str], bool]:
    """What becomes of a browser's command line, what was said, and whether its folder is gone afterwards."""
    notes = Notes()
    with ExitStack() as stack:
        made = ask_for_log(stack, Plan((), None, command, None, client_log=True), notes, None, None)
        assert isinstance(made.log, NetLogTail)
        assert made.stderr is None
        (option,) = [argument for argument in made.plan.command if argument.startswith("--log-net-log=")]
        folder = Path(option.partition("=")[2]).parent
        assert folder.is_dir()
    return made.plan, notes.said, not folder.exists()


@pytest.mark.parametrize("program", ["chromium", "/usr/bin/google-chrome-stable", "msedge"])
def test_a_browser_writes_its_netlog_where_it_is_removed(program: str) -> None:
    """The option comes first, what is added is said, and that nothing came is said at the end."""
    plan, said, gone = netlog(program, "https://h/")
    assert plan.command[0] == program
    assert plan.command[1].startswith("--log-net-log=")
    assert plan.command[2:] == ("https://h/",)
    assert said[0].startswith(f"added to the command: {plan.command[1]}")
    assert "--user-data-dir" in said[1]
    assert gone


def test_a_netlog_that_the_command_names_is_read_there(tmp_path: Path) -> None:
    """Whatever starts the browser: the command line stays as it is, and so does the file's folder."""
    command = ("./start-browser.sh", f"--log-net-log={tmp_path}/netlog.json")
    plan, said, gone = netlog(*command)
    assert plan.command == command
    assert said[0] == f"the NetLog that the command writes is read: {tmp_path}/netlog.json"
    assert not gone
