from __future__ import annotations

import errno
import os
import sys
from typing import TYPE_CHECKING

import pytest

if sys.platform != "linux":
    pytest.skip("what only Linux has", allow_module_level=True)

from h3probe.vantage.isolate.kernel import Failed
from h3probe.vantage.isolate.programs import execute_command, finish, start

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize(
    ("made", "name", "error"),
    [
        ({"b/tool": 0o755}, b"tool", None),
        ({"a/tool": 0o644, "b/tool": 0o755}, b"tool", None),
        ({"a/tool": 0o644}, b"tool", PermissionError),
        ({}, b"tool", FileNotFoundError),
        ({"a/tool": 0o755}, b"./tool", FileNotFoundError),
    ],
    ids=str,
)
def test_a_command_is_looked_for_as_a_shell_does(
    tmp_path: Path, made: dict[str, int], name: bytes, error: type[OSError] | None
) -> None:
    """In the folders of its own PATH, in order; one that cannot be run counts more than one that is not there."""
    for folder in ("a", "b"):
        (tmp_path / folder).mkdir()
    for path, mode in made.items():
        (tmp_path / path).write_text("#!/bin/sh\nexit 42\n")
        (tmp_path / path).chmod(mode)
    path_variable = os.fsencode(f"{tmp_path}/a:{tmp_path}/missing:{tmp_path}/b")
    pid = os.fork()
    if pid == 0:
        status = 1
        try:
            execute_command([name], {b"PATH": path_variable})
        except OSError as failure:
            status = 2 if type(failure) is error else 3
        finally:
            os._exit(status)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == (42 if error is None else 2)


def test_a_program_of_the_setup_reads_its_script() -> None:
    """A script of any size comes in on standard input, and what is said in the error of a step that fails."""
    size = 1 << 20
    finish("links", start(["/usr/bin/env", "grep", "-q", "end"], "x\n" * size + "end\n"))
    with pytest.raises(Failed) as caught:
        finish("links", start(["/bin/sh"], "echo something is wrong >&2; exit 1\n"))
    assert (caught.value.step, caught.value.number, caught.value.said) == ("links", 0, "something is wrong")


def test_a_preparation_that_fails_is_told_by_its_own_name() -> None:
    """What a child could not do before its program is a step with an errno, not the program's failure."""

    def prepare() -> None:
        raise Failed("/proc/sys/net/something", errno.EROFS)

    with pytest.raises(Failed) as caught:
        finish("links", start(["/bin/true"], "", prepare))
    assert (caught.value.step, caught.value.number, caught.value.said) == ("/proc/sys/net/something", errno.EROFS, "")
