"""`h3probe watch` as a program: wrong usage, exit statuses, signals, and the relay with the built-in client."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest

from h3probe.lab.authority import create_authority
from h3probe.lab.ports import open_port
from h3probe.lab.servers import find_server, running

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

PROGRAM = [sys.executable, "-m", "h3probe", "watch"]

WITHOUT_RIGHTS = ["setpriv", "--bounding-set=-all", "--inh-caps=-all"] if os.geteuid() == 0 else []
"""What makes root as powerless as anyone else, without taking its files away."""

needs_setpriv = pytest.mark.skipif(
    bool(WITHOUT_RIGHTS) and shutil.which("setpriv") is None, reason="root needs setpriv to be without rights"
)


def free_port() -> int:
    """A port that is free for TCP and UDP."""
    port = open_port()
    port.close()
    return port.number


def run(*arguments: str, wrapper: list[str] | None = None) -> subprocess.CompletedProcess[str]:
    """Run `h3probe watch` to its end."""
    return subprocess.run(
        [*(wrapper or []), *PROGRAM, *arguments], capture_output=True, text=True, timeout=60, check=False
    )


def relayed(*arguments: str) -> subprocess.CompletedProcess[str]:
    """The same behind a relay to nowhere: it needs no rights."""
    return run("--relay", f"{free_port()}=localhost:9", *arguments)


def complaint(done: subprocess.CompletedProcess[str]) -> str:
    """The one line that a user is shown."""
    assert done.stdout == ""
    (line,) = done.stderr.splitlines()
    assert line.startswith("h3probe: ")
    return line


@needs_setpriv
def test_no_permission_names_what_needs_none() -> None:
    """Without the right to sniff, one line names the ways that need none."""
    done = run(wrapper=WITHOUT_RIGHTS)
    line = complaint(done)
    assert done.returncode == 2
    assert "--relay" in line
    assert "h3probe explain" in line


def test_unknown_interface() -> None:
    """An interface that is not there is named."""
    done = run("-i", "nowhere0")
    assert done.returncode == 2
    assert "nowhere0" in complaint(done)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--relay", "1=localhost:2", "-i", "lo"], "exclude"),
        (["--pid", "1", "--", "true"], "exclude"),
        (["--client-log"], "--client-log is for a command"),
        (["--relay", "1=localhost:2", "--client-log", "--", "true"], "--client-log is for a command"),
        (["--show-log", "--", "true"], "--client-log"),
        (["--full"], "--write"),
        (["--keylog", "keys.log"], "--keylog is for a command"),
        (["--relay", "1=localhost:2", "--keylog", "keys.log", "--", "true"], "--keylog is for a command"),
        (["--force"], "--write"),
        (["--pid", "4194305"], "no process"),
        (["--for", "0"], "--for"),
        (["--relay", "nonsense"], "PORT=HOST:PORT"),
        (["--port", "70000"], "--port"),
        (["--exit-code", "other"], "--exit-code"),
    ],
)
def test_wrong_usage(arguments: list[str], words: str) -> None:
    """Each wrong use is one line that says what is wrong, and status 2."""
    done = run(*arguments)
    assert done.returncode == 2
    assert words in complaint(done)


def test_a_port_in_use() -> None:
    """A relay's port that is taken is named."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        done = run("--relay", f"{port}=localhost:9")
    assert done.returncode == 2
    assert str(port) in complaint(done)


def test_an_existing_file_is_not_touched(tmp_path: Path) -> None:
    """A file that holds something stays, and the command is not even started."""
    file, mark = tmp_path / "trace.pcapng", tmp_path / "mark"
    file.write_text("mine")
    done = relayed("-w", str(file), "--", "touch", str(mark))
    assert done.returncode == 2
    assert "--force" in complaint(done)
    assert file.read_text() == "mine"
    assert not mark.exists()


@pytest.mark.parametrize(("command", "status"), [("no-such-command", 127), ("/", 126)])
def test_a_command_that_cannot_be_started(tmp_path: Path, command: str, status: int) -> None:
    """The status is a shell's, the command is named, and no file is left behind."""
    file = tmp_path / "trace.pcapng"
    done = relayed("-w", str(file), "--json", "--", command)
    assert done.returncode == status
    assert done.stdout == ""
    assert command in done.stderr.splitlines()[-1]
    assert not file.exists()


@pytest.mark.parametrize("status", [0, 1, 7])
def test_the_commands_status_is_passed_on(status: int) -> None:
    """Without another wish the exit status is the command's."""
    assert relayed("--", "sh", "-c", f"exit {status}").returncode == status


def test_the_findings_status() -> None:
    """With `--exit-code findings` the command's status does not count."""
    assert relayed("--exit-code", "findings", "--", "sh", "-c", "exit 7").returncode == 0


@pytest.mark.parametrize(("own", "status"), [(0, 1), (7, 7)])
def test_an_expectation_that_is_not_met(own: int, status: int, tmp_path: Path) -> None:
    """It gives a command that ended well another status, and leaves a failed one its own; the report is written."""
    report = tmp_path / "h3.xml"
    done = relayed("--expect", "h3", "--junit", str(report), "--", "sh", "-c", f"exit {own}")
    assert done.returncode == status
    assert "No request to any origin was seen" in done.stdout
    assert 'failures="1"' in report.read_text()


def test_json_has_standard_output_to_itself() -> None:
    """With `--json` what the command prints goes to standard error; without, it stays where it is."""
    done = relayed("--json", "--", "echo", "hello")
    assert [json.loads(line)["type"] for line in done.stdout.splitlines()] == ["capture", "summary"]
    assert "hello" in done.stderr.splitlines()
    assert "hello" in relayed("--", "echo", "hello").stdout.splitlines()


def test_the_time_ends_a_run() -> None:
    """`--for` ends a run with its summary."""
    done = relayed("--json", "--for", "0.2")
    assert done.returncode == 0
    assert [json.loads(line)["type"] for line in done.stdout.splitlines()] == ["capture", "summary"]


@contextmanager
def started(*arguments: str) -> Iterator[subprocess.Popen[str]]:
    """A relay that runs; it is past the point where signals would still end it as any program."""
    command = [*PROGRAM, "--relay", f"{free_port()}=localhost:9", "--json", *arguments]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        try:
            assert "relaying" in process.stderr.readline()
            yield process
        finally:
            process.kill()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_with_the_summary(number: signal.Signals) -> None:
    """Ctrl-C and SIGTERM end a run in order."""
    with started() as process:
        process.send_signal(number)
        output, _ = process.communicate(timeout=20)
        assert process.returncode == 0
    assert json.loads(output.splitlines()[-1])["type"] == "summary"


DEAF = (
    "import signal, time; signal.signal(15, signal.SIG_IGN); print('up', flush=True); time.sleep(60); "
    "raise SystemExit('late')"
)


def test_a_signal_goes_to_the_command() -> None:
    """SIGTERM is passed on; the command's end is the run's end, and there is a summary."""
    with started("--", sys.executable, "-c", "print('up', flush=True); import time; time.sleep(60)") as process:
        assert process.stderr is not None
        assert process.stderr.readline() == "up\n"
        process.send_signal(signal.SIGTERM)
        output, _ = process.communicate(timeout=20)
        assert process.returncode == 128 + 15
    assert json.loads(output.splitlines()[-1])["type"] == "summary"


def test_a_second_signal_ends_at_once() -> None:
    """A command that does not listen is killed by the second signal, and h3probe ends without a word."""
    with started("--", sys.executable, "-c", DEAF) as process:
        assert process.stderr is not None
        assert process.stderr.readline() == "up\n"
        process.send_signal(signal.SIGTERM)
        with pytest.raises(subprocess.TimeoutExpired):
            process.wait(0.5)
        process.send_signal(signal.SIGTERM)
        # Both ends of the pipes are closed when the command is gone, too.
        output, errors = process.communicate(timeout=20)
        assert process.returncode == 128 + 15
    assert (output, errors) == ("", "")


CLIENT = """
import asyncio, sys
from pathlib import Path
from h3probe.lab.client import Client, Policy, Timeouts

async def main():
    async with Client(Policy(sys.argv[1]), Path(sys.argv[2]), timeouts=Timeouts(direct=10, advertised=10)) as client:
        for _ in range(2):
            print((await client.get(sys.argv[3])).version)

asyncio.run(main())
"""


@needs_setpriv
@pytest.mark.parametrize(
    ("policy", "version", "types"), [("h3-only", "HTTP/3", {"quic"}), ("no-opt-in", "HTTP/2", {"tcp"})]
)
def test_a_relay_needs_no_rights(tmp_path: Path, policy: str, version: str, types: set[str]) -> None:
    """Behind a relay a client reaches its server, and its connections are reported with its process."""
    authority = create_authority(tmp_path)
    port = free_port()

    async def watch() -> tuple[str, str]:
        async with running(find_server("h3"), authority) as server:
            client = [sys.executable, "-c", CLIENT, policy, str(authority.ca_file), f"https://localhost:{port}/"]
            process = await asyncio.create_subprocess_exec(
                *WITHOUT_RIGHTS,
                *PROGRAM,
                *["--relay", f"{port}=localhost:{server.port}", "--json", "-w", str(tmp_path / "trace.pcapng"), "--"],
                *client,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.PIPE,
            )
            output, errors = await process.communicate()
            return output.decode(), errors.decode()

    output, errors = asyncio.run(watch())
    assert errors.splitlines().count(version) == 2, errors
    records = [json.loads(line) for line in output.splitlines()]
    connections = [record for record in records if record["type"] in {"quic", "tcp"}]
    assert {record["type"] for record in connections} == types
    assert {record["outcome"] for record in connections} == {"established"}
    assert {record["process"]["name"][:6] for record in connections} == {"python"}
    explained = subprocess.run(
        [sys.executable, "-m", "h3probe", "explain", "--json", str(tmp_path / "trace.pcapng")],
        capture_output=True,
        text=True,
        check=False,
    )
    again = [json.loads(line) for line in explained.stdout.splitlines()]
    assert [r["history"] for r in again if r["type"] == "quic"] == [
        r["history"] for r in records if r["type"] == "quic"
    ]
