from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from h3probe.errors import CommandError
from h3probe.events import Frame
from h3probe.vantage.isolate.obstacles import IsolateError
from h3probe.vantage.isolate.spec import IsolateSpec
from h3probe.vantage.privileges import User
from h3probe.vantage.sniff import Sniffer
from tests.vantage.isolate.conftest import FAILING_PASTA, put_pasta

if sys.platform != "linux":
    pytest.skip("what only Linux has", allow_module_level=True)

from h3probe.vantage.isolate.isolation import PORTS_INTERVAL_S, Isolation

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.usefixtures("pasta")

SOMEBODY = User(12345, 12345, "somebody")
MIDDLE = IsolateSpec(mtu=1400)


@pytest.fixture
def isolation(pasta: None) -> Iterator[Isolation]:
    """An isolation in which nothing is changed."""
    del pasta
    with Isolation(IsolateSpec()) as made:
        yield made


def output(isolation: Isolation, argv: list[str], env: dict[str, str] | None = None) -> tuple[int | None, str]:
    """Run a command; its status and what it wrote."""
    reading, writing = os.pipe()
    with isolation.command(argv, env=env, stdout=writing) as command:
        os.close(writing)
        text = b"".join(iter(lambda: os.read(reading, 65536), b"")).decode()
        status = command.wait(10)
    os.close(reading)
    return status, text


@pytest.mark.parametrize(
    ("script", "status"), [("exit 0", 0), ("exit 3", 3), ("kill -TERM $$", 143), ("kill -KILL $$", 137)]
)
def test_exit_status(isolation: Isolation, script: str, status: int) -> None:
    """The command's own, as a shell has it."""
    assert output(isolation, ["sh", "-c", script]) == (status, "")


def test_commands_one_after_the_other(isolation: Isolation) -> None:
    """Each has its own status and output."""
    assert [output(isolation, ["sh", "-c", f"echo {n}; exit {n}"]) for n in (1, 2)] == [(1, "1\n"), (2, "2\n")]


def test_nothing_but_the_standard_streams_is_handed_on(isolation: Isolation) -> None:
    """A command finds no descriptor of h3probe's, by which it could speak for process 1 or keep a pipe open."""
    script = 'for each in $(seq 3 40); do if [ -e "/proc/$$/fd/$each" ]; then echo "$each"; fi; done'
    assert output(isolation, ["sh", "-c", script]) == (0, "")


@pytest.mark.parametrize(("argv", "status"), [(["no-such-command"], 127), (["/etc/passwd"], 126), (["/"], 126)])
def test_what_cannot_be_run(isolation: Isolation, argv: list[str], status: int) -> None:
    """It is an error with a shell's status, and the isolation goes on."""
    with pytest.raises(CommandError) as caught:
        isolation.command(argv)
    assert caught.value.exit_status == status
    assert output(isolation, ["true"])[0] == 0


def test_environment_and_arguments_of_any_kind(isolation: Isolation) -> None:
    """Bytes that are no text, and an environment larger than a message, arrive as they are."""
    odd = os.fsdecode(b"\xff\xfe odd")
    env = {"ODD": odd, "PATH": os.environ["PATH"]} | {f"LARGE{n}": "x" * 100_000 for n in range(5)}
    code = "import os, sys; print(sys.argv[1] == os.environ['ODD'], len(os.environ['LARGE4']), ascii(sys.argv[1]))"
    status, text = output(isolation, [sys.executable, "-c", code, odd], env)
    assert (status, text) == (0, "True 100000 '\\udcff\\udcfe odd'\n")


def test_the_pid_is_the_one_outside(isolation: Isolation) -> None:
    """What `pid` names is the command, in this process's own numbering."""
    with isolation.command(["sleep", "60"]) as command:
        assert Path(f"/proc/{command.pid}/cmdline").read_bytes() == b"sleep\x0060\x00"
        assert command.poll() is None
        command.forward(signal.SIGTERM)
        assert command.wait(10) == 143


@pytest.mark.parametrize("spec", [IsolateSpec(), MIDDLE], ids=["direct", "middle"])
def test_packets_are_seen(spec: IsolateSpec) -> None:
    """The packet socket gives what the command sends, and what it sends to itself."""
    code = """
import socket
udp = socket.socket(type=socket.SOCK_DGRAM)
udp.sendto(b"hello", ("192.0.2.9", 443))
udp.sendto(b"myself", ("127.0.0.1", udp.getsockname()[1]))
"""
    with Isolation(spec) as isolation, isolation.packet_sockets()[0] as packets:
        assert output(isolation, [sys.executable, "-c", code])[0] == 0
        packets.settimeout(5)
        missing = {("eth0", b"hello"), ("lo", b"myself")}
        while missing:  # or the socket's time is over
            data, address = packets.recvfrom(65536)
            missing = {(name, word) for name, word in missing if name != address[0] or not data.endswith(word)}


def test_a_sniffer_reads_the_isolations_packets(isolation: Isolation) -> None:
    """The packet sockets are what `Sniffer` takes, narrowed to ports."""
    code = "import socket; u = socket.socket(type=socket.SOCK_DGRAM);"
    code += "[u.sendto(b'hello', ('192.0.2.9', port)) for port in (443, 9999)]"
    with Sniffer(opened=isolation.packet_sockets(), ports=[443]) as sniffer:
        assert output(isolation, [sys.executable, "-c", code])[0] == 0
        time.sleep(0.05)  # until the kernel hands over what it has
        frames = [event for event in sniffer.read() if isinstance(event, Frame) and event.interface == "eth0"]
    assert [frame.data[36:38] for frame in frames if frame.data.endswith(b"hello")] == [(443).to_bytes(2)]


@pytest.mark.parametrize("spec", [IsolateSpec(), MIDDLE], ids=["direct", "middle"])
def test_as_another_user(spec: IsolateSpec) -> None:
    """Under sudo, the command and what enters the middle are the user's, without capabilities."""
    script = ["sh", "-c", "id -u; id -g; grep CapEff /proc/self/status"]
    expected = "12345\n12345\nCapEff:\t0000000000000000\n"
    with Isolation(spec, user=SOMEBODY) as isolation:
        assert output(isolation, script) == (0, expected)
        assert in_the_middle(isolation, script) == expected


def in_the_middle(isolation: Isolation, argv: list[str]) -> str:
    """Run a program in the middle; what it wrote."""
    entering, left_open = isolation.enter_middle(argv), isolation.middle_descriptors
    done = subprocess.run(entering, pass_fds=left_open, capture_output=True, text=True, timeout=10, check=True)
    return done.stdout


def test_the_middle_has_the_other_ends() -> None:
    """What enters the middle finds the client's other end and the uplink there."""
    with Isolation(MIDDLE) as isolation:
        lines = in_the_middle(isolation, ["cat", "/proc/self/net/dev"]).splitlines()
    assert {"client", "tap0"} <= {line.partition(":")[0].strip() for line in lines}


def test_ports_of_the_host_are_followed(isolation: Isolation) -> None:
    """A port that the host opens goes out of C, and one that it closes is C's own again."""
    code = "import socket, sys; s = socket.socket(); s.settimeout(0.3); print(s.connect_ex(('127.0.0.1', {port})))"
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        argv = [sys.executable, "-c", code.format(port=port)]
        assert output(isolation, argv)[1] == f"{111}\n"  # refused, by C's own loopback
        wait_for_ports(isolation)
        assert output(isolation, argv)[1] != f"{111}\n"  # sent out, where nobody is
    wait_for_ports(isolation)
    assert output(isolation, argv)[1] == f"{111}\n"


def wait_for_ports(isolation: Isolation) -> None:
    """Let the ports be looked at again, and the change take effect."""
    time.sleep(PORTS_INTERVAL_S + 0.05)
    isolation.poll()
    time.sleep(0.2)


def test_the_end_leaves_nothing() -> None:
    """When the block is left, commands that still run are killed, their children too, and `poll` says so."""
    with Isolation(IsolateSpec()) as isolation:
        command = isolation.command(["sh", "-c", "sleep 60 & sleep 60"])
        assert command.poll() is None
        init = isolation._init.pid
    assert command.poll() == 137
    assert not Path(f"/proc/{init}").exists()
    assert not Path(f"/proc/{command.pid}").exists()


def test_an_init_that_is_killed_is_the_commands_end(isolation: Isolation) -> None:
    """Whoever kills the isolation's first process ends the command, and nobody waits for ever."""
    with isolation.command(["sleep", "60"]) as command:
        isolation._init.kill()
        assert command.wait(10) == 137


def test_an_uplink_that_fails_is_quoted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The line says what the uplink said, and nothing is left."""
    put_pasta(tmp_path, monkeypatch, FAILING_PASTA)
    isolation = Isolation(IsolateSpec())
    with pytest.raises(IsolateError, match=r"the uplink ended at once \(Nothing works\)"), isolation:
        pass
    assert isolation._init.returncode is not None


def test_the_uplinks_end_is_reported_once(isolation: Isolation) -> None:
    """`poll` says so, and then goes on."""
    with isolation.command(["sleep", "60"]) as command:
        (uplink,) = [
            path
            for path in Path("/proc").glob("[0-9]*")
            if _command_line(path) == b"sleep\x00600\x00" and _is_beside(path, command.pid)
        ]
        os.kill(int(uplink.name), signal.SIGKILL)
        deadline = time.monotonic() + 5
        while (said := isolation.poll()) is None and time.monotonic() < deadline:
            time.sleep(0.01)
        assert said == ""
        assert isolation.poll() is None


def _command_line(path: Path) -> bytes:
    try:
        return (path / "cmdline").read_bytes()
    except OSError:  # another process, which has ended
        return b""


def _is_beside(path: Path, pid: int) -> bool:
    return (path / "ns/pid").readlink() == Path(f"/proc/{pid}/ns/pid").readlink()
