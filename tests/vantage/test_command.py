from __future__ import annotations

import signal
import subprocess
import sys
import time
from typing import TYPE_CHECKING

import pytest

from h3probe.errors import CommandError, UserError
from h3probe.vantage.command import Command
from h3probe.vantage.privileges import User
from tests.vantage.conftest import needs_root

if TYPE_CHECKING:
    from pathlib import Path

SLEEP = "import time; print('up', flush=True); time.sleep(60)"
DEAF = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('up', flush=True); time.sleep(60)"


def python(code: str) -> list[str]:
    """A command that runs a line of Python."""
    return [sys.executable, "-c", code]


def wait_until_up(path: Path) -> None:
    """Wait until a command has written its first line."""
    while not path.exists() or not path.read_text():
        time.sleep(0.01)


def writing(code: str, path: Path) -> list[str]:
    """The same, with its standard output in a file."""
    return python(f"import sys; sys.stdout = open({str(path)!r}, 'w'); {code}")


@pytest.mark.parametrize("status", [0, 1, 3, 255])
def test_exit_status_is_passed_on(status: int) -> None:
    """The command's own status is given, and None before its end."""
    command = Command(python(f"import sys; sys.exit({status})"))
    assert command.wait() == status
    assert command.poll() == status


def test_end_by_signal_as_a_shell_has_it() -> None:
    """A command that a signal ended has 128 and the signal's number."""
    command = Command(python("import os, signal; os.kill(os.getpid(), signal.SIGKILL)"))
    assert command.wait() == 128 + 9


def test_running(tmp_path: Path) -> None:
    """A running command has no status, and a process number."""
    command = Command(writing(SLEEP, tmp_path / "out"))
    wait_until_up(tmp_path / "out")
    assert command.poll() is None
    assert command.wait(timeout=0) is None
    assert command.pid > 0
    command.forward(signal.SIGTERM)
    assert command.wait() == 128 + signal.SIGTERM


def test_second_signal_ends_at_once(tmp_path: Path) -> None:
    """A command that ignores the first signal is killed by the second one."""
    command = Command(writing(DEAF, tmp_path / "out"))
    wait_until_up(tmp_path / "out")
    command.forward(signal.SIGTERM)
    command.forward(signal.SIGTERM)
    assert command.wait() == 128 + signal.SIGKILL


def test_interrupt_from_elsewhere_is_passed_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A SIGINT that no terminal sent to the whole group reaches the command."""
    monkeypatch.setattr("h3probe.vantage.command._terminal_has_sent_it", lambda: False)
    # Shells start what runs in the background with SIGINT ignored, and children inherit that.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        command = Command(writing(SLEEP, tmp_path / "out"))
    finally:
        signal.signal(signal.SIGINT, before)
    wait_until_up(tmp_path / "out")
    command.forward(signal.SIGINT)
    assert command.wait() in {1, 128 + signal.SIGINT}  # Python turns it into KeyboardInterrupt


def test_interrupt_from_the_terminal_is_not_doubled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A SIGINT that the terminal sent to the whole group is not sent again; a second one kills."""
    monkeypatch.setattr("h3probe.vantage.command._terminal_has_sent_it", lambda: True)
    command = Command(writing(SLEEP, tmp_path / "out"))
    wait_until_up(tmp_path / "out")
    command.forward(signal.SIGINT)
    assert command.wait(timeout=0.2) is None
    command.forward(signal.SIGINT)
    assert command.wait() == 128 + signal.SIGKILL


def test_signal_after_the_end() -> None:
    """A signal for a command that has ended goes nowhere."""
    command = Command(python(""))
    command.wait()
    command.forward(signal.SIGTERM)
    assert command.poll() == 0


def test_streams_are_untouched() -> None:
    """What the command reads and writes passes by without a copy or a change."""
    code = (
        "from h3probe.vantage.command import Command; import sys;"
        "sys.exit(Command([sys.executable, '-c', 'import sys; print(sys.stdin.read()[::-1], end=chr(0));"
        " print(1, file=sys.stderr)']).wait())"
    )
    done = subprocess.run(python(code), input=b"abc", capture_output=True, check=True)
    assert (done.stdout, done.stderr) == (b"cba\0", b"1\n")


def test_no_such_command() -> None:
    """A command that does not exist is one line, and status 127."""
    with pytest.raises(CommandError, match=r"^no-such-command-here: command not found$") as caught:
        Command(["no-such-command-here", "argument"])
    assert caught.value.exit_status == 127
    assert isinstance(caught.value, UserError)


def test_not_executable(tmp_path: Path) -> None:
    """A file that cannot be executed is one line, and status 126."""
    path = tmp_path / "text"
    path.write_text("no program")
    with pytest.raises(CommandError, match="Permission denied") as caught:
        Command([str(path)])
    assert caught.value.exit_status == 126


def test_no_program_inside(tmp_path: Path) -> None:
    """An executable file that is no program is one line, and status 126."""
    path = tmp_path / "text"
    path.write_bytes(b"\0\1\2\3")
    path.chmod(0o755)
    with pytest.raises(CommandError, match="Exec format error") as caught:
        Command([str(path)])
    assert caught.value.exit_status == 126


def test_missing_interpreter(tmp_path: Path) -> None:
    """A script whose interpreter is missing is not called missing itself."""
    path = tmp_path / "script"
    path.write_text("#!/no/such/interpreter\n")
    path.chmod(0o755)
    with pytest.raises(CommandError, match="interpreter") as caught:
        Command([str(path)])
    assert caught.value.exit_status == 127


def test_unusable_argument() -> None:
    """A name that no system call takes is an error of one line, without its control characters."""
    with pytest.raises(CommandError, match=r"'a\\x00b'") as caught:
        Command(["a\0b"])
    assert caught.value.exit_status == 126


@needs_root
def test_runs_as_the_user_who_called_sudo() -> None:
    """Under sudo the command is not root: user, groups and home are those of the user."""
    code = (
        "from h3probe.vantage.command import Command; from h3probe.vantage.privileges import User; import sys;"
        "shell = 'id -u; id -g; id -G; echo $HOME $USER';"
        "sys.exit(Command(['/bin/sh', '-c', shell], user=User(1, 1, 'daemon')).wait())"
    )
    done = subprocess.run(python(code), capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["1", "1", "1", "/usr/sbin", "daemon"]


@needs_root
def test_hint_about_the_path_of_sudo() -> None:
    """Under sudo, a command that is not found may be on the user's PATH only, and the line says so."""
    with pytest.raises(CommandError, match="sudo has a PATH of its own"):
        Command(["no-such-command-here"], user=User(1, 1, "daemon"))


def test_standard_error_may_go_elsewhere(tmp_path: Path) -> None:
    """What is given as standard error is what the command writes its complaints to."""
    with (tmp_path / "err").open("wb") as stream:
        command = Command(python("import sys; sys.stderr.write('no')"), stderr=stream.fileno())
        assert command.wait() == 0
    assert (tmp_path / "err").read_text() == "no"
