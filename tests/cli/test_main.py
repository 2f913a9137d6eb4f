import json
import os
import subprocess
import sys

import pytest

from h3probe import __version__
from h3probe.cli import COMMANDS, main

PROGRAM = [sys.executable, "-m", "h3probe"]
HEAVY = ("scapy", "mitmproxy", "aioquic", "numpy", "rich", "structlog", "cryptography", "psutil", "hypercorn", "h2")


INTERNAL = (
    "h3probe: internal error: ZeroDivisionError: division by zero; please report it; "
    "H3PROBE_DEBUG=1 shows the traceback\n"
)


@pytest.fixture
def _finish(monkeypatch: pytest.MonkeyPatch) -> None:
    """Add the command that ends as told."""
    monkeypatch.setitem(COMMANDS, "finish", ("tests.cli.commands:finish", "End as told."))


def test_version_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    """`--version` names program and version and succeeds."""
    assert main(["--version"]) == 0
    assert capsys.readouterr().out == f"h3probe {__version__}\n"


@pytest.mark.parametrize("option", ["--version", "--help"])
def test_the_entrance_imports_nothing_heavy(option: str) -> None:
    """Version and help answer without importing any library that a command may need, or any command."""
    code = f"import sys; from h3probe.cli import main; main(['{option}']); print(*sys.modules, file=sys.stderr)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = done.stderr.split()
    assert "click" in loaded
    assert not [name for name in loaded if name.partition(".")[0] in HEAVY or name.startswith("h3probe.cli.")]


@pytest.mark.parametrize("option", ["-h", "--help"])
def test_help_lists_all_commands(option: str, capsys: pytest.CaptureFixture[str]) -> None:
    """The group's help names every command with its short help, and ends with examples."""
    assert main([option]) == 0
    output = capsys.readouterr().out
    for name, (_, text) in COMMANDS.items():
        assert f"  {name} " in output
        assert text in output
    assert output.index("Commands:") < output.index("Examples:")


@pytest.mark.parametrize("command", [[], *([name] for name in COMMANDS)], ids=" ".join)
@pytest.mark.parametrize("option", ["-h", "--help"])
def test_help_of_every_command_fits_80_columns(
    command: list[str], option: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each command answers -h and --help in at most 80 columns, with an example."""
    monkeypatch.setenv("COLUMNS", "80")
    assert main([*command, option]) == 0
    output = capsys.readouterr().out
    assert max(map(len, output.splitlines())) <= 80
    assert "Example" in output


def test_nothing_asked_for_shows_the_help(capsys: pytest.CaptureFixture[str]) -> None:
    """Without arguments the help goes to stderr and the status says wrong usage."""
    assert main([]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith("Usage: h3probe")


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (["wacth"], "h3probe: no command 'wacth'; did you mean watch? (h3probe --help)\n"),
        (["capture.pcap"], "h3probe: no command 'capture.pcap' (h3probe --help)\n"),
        (["--isolate"], "h3probe: No such option '--isolate'; there is h3probe watch --isolate (h3probe --help)\n"),
        (["--nothing-like-it"], "h3probe: No such option '--nothing-like-it' (h3probe --help)\n"),
        (["schema", "extra"], "h3probe: Got unexpected extra argument (extra) (h3probe schema --help)\n"),
        (["\x1b[31m"], "h3probe: no command '\\x1b[31m' (h3probe --help)\n"),
    ],
)
def test_wrong_usage_is_one_line(arguments: list[str], line: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Wrong usage gets status 2 and one line that says where the help is."""
    assert main(arguments) == 2
    assert capsys.readouterr() == ("", line)


@pytest.mark.usefixtures("_finish")
@pytest.mark.parametrize(
    ("end", "status", "line"),
    [
        ("user", 2, "h3probe: no right to capture; run it with sudo \\x1b[31m\n"),
        ("own-status", 5, "h3probe: no\n"),
        ("usage", 2, "h3probe: --a and --b exclude each other (h3probe finish --help)\n"),
        ("interrupt", 130, ""),
        ("abort", 130, ""),
        ("disk-full", 74, "h3probe: No space left on device\n"),
        ("exit", 1, ""),
        ("return", 3, ""),
        (
            "internal",
            70,
            INTERNAL,
        ),
    ],
)
def test_every_end_has_its_status_and_its_line(
    end: str, status: int, line: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """However a command ends, its status is the documented one and stderr has one line or none."""
    monkeypatch.delenv("H3PROBE_DEBUG", raising=False)
    assert main(["finish", end]) == status
    assert capsys.readouterr() == ("", line)


@pytest.mark.usefixtures("_finish")
def test_the_traceback_is_there_for_who_asks(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """H3PROBE_DEBUG=1 shows where an internal error came from."""
    monkeypatch.setenv("H3PROBE_DEBUG", "1")
    assert main(["finish", "internal"]) == 70
    assert "Traceback (most recent call last)" in capsys.readouterr().err


def test_a_reader_that_goes_away_is_no_error() -> None:
    """Into a closed pipe the program ends quietly, as one that SIGPIPE ended."""
    reader, writer = os.pipe()
    os.close(reader)
    done = subprocess.run([*PROGRAM, "schema"], stdout=writer, stderr=subprocess.PIPE, check=False)
    os.close(writer)
    assert (done.returncode, done.stderr) == (141, b"")


@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-", "<&- >&- 2>&-"])
def test_closed_standard_streams_are_no_error(closed: str) -> None:
    """They are opened on nothing, so that no file or socket takes their place."""
    script = f'exec "$0" -P -m h3probe rule {closed}'
    assert subprocess.run(["sh", "-c", script, sys.executable], capture_output=True, check=False).returncode == 0


def test_python_m_runs_the_same_program() -> None:
    """`python -m h3probe` passes arguments and the exit status on."""
    done = subprocess.run([*PROGRAM, "no-such"], capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert done.stderr.startswith("h3probe: no command 'no-such'")


def test_a_shell_gets_completions() -> None:
    """Completion lists the commands of the group."""
    environ = {**os.environ, "_H3PROBE_COMPLETE": "bash_complete", "COMP_WORDS": "h3probe sch", "COMP_CWORD": "1"}
    done = subprocess.run(PROGRAM, capture_output=True, text=True, check=False, env=environ)
    assert "schema" in done.stdout


def test_schema_prints_the_schema(capsys: pytest.CaptureFixture[str]) -> None:
    """`h3probe schema` prints one JSON document that describes all records."""
    assert main(["schema"]) == 0
    assert len(json.loads(capsys.readouterr().out)["oneOf"]) == 14
