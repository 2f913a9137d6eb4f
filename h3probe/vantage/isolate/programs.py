"""How `init.py` starts programs: those of the set-up, with their scripts, and the command."""

from __future__ import annotations

import errno
import os
from typing import TYPE_CHECKING

from h3probe.vantage.isolate.kernel import Failed

if TYPE_CHECKING:
    from collections.abc import Callable

_NUMBER_AFTER = "\0errno "
"""Between a step of the preparation that failed and its errno, where a program's words are expected."""


def fork(run: Callable[[], None]) -> int:
    """Do something in a process of its own, which ends with it; its number."""
    pid = os.fork()
    if pid == 0:
        try:
            run()
        finally:
            os._exit(127)
    return pid


def execute(argv: list[str], prepare: Callable[[], None]) -> None:
    """Become a program of the set-up, which is named by its whole path, after some preparation."""
    prepare()
    os.execv(argv[0], argv)  # noqa: S606 - programs of the set-up, by their whole paths


def execute_command(arguments: list[bytes], environment: dict[bytes, bytes]) -> None:
    """Do as `os.execvpe`, which imports modules: another user may not be able to read this Python."""
    name = arguments[0]
    path = environment.get(b"PATH", os.defpath.encode())
    failure: OSError = FileNotFoundError(errno.ENOENT, "")
    for folder in [b""] if b"/" in name else path.split(b":"):
        try:
            os.execve(os.path.join(folder, name), arguments, environment)  # noqa: S606, PTH118 - the command to be watched
        except (FileNotFoundError, NotADirectoryError):
            continue
        except OSError as error:  # one that is there and cannot be run counts more than one that is not there
            failure = error
    raise failure


def start(argv: list[str], script: str, prepare: Callable[[], None] | None = None) -> tuple[int, int]:
    """Start a program that reads a script from its standard input; give its number, and where it writes."""
    source, said = os.memfd_create("script"), os.memfd_create("said")
    os.write(source, script.encode())
    os.lseek(source, 0, os.SEEK_SET)

    def connect() -> None:
        if prepare is not None:
            try:
                prepare()
            except Failed as failure:
                os.write(said, f"{failure.step}{_NUMBER_AFTER}{failure.number}".encode())
                raise
        os.dup2(source, 0)
        os.dup2(said, 1)
        os.dup2(said, 2)

    pid = fork(lambda: execute(argv, connect))
    os.close(source)
    return pid, said


def finish(step: str, started: tuple[int, int]) -> None:
    """Wait for a program that `start` gave; `Failed` with the step and its words where it was not content."""
    pid, said = started
    _, status = os.waitpid(pid, 0)
    text = contents(said)
    os.close(said)
    if status:
        prepared, mark, number = text.partition(_NUMBER_AFTER)
        raise Failed(prepared, int(number)) if mark else Failed(step, 0, text)


def contents(descriptor: int, size: int = 4096) -> str:
    """Give what a file holds, from its beginning, without the white space around it."""
    return os.pread(descriptor, size, 0).decode(errors="replace").strip()
