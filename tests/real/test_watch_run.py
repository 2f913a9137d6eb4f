"""`h3probe watch` as it is run: through sudo, behind a relay, without a command, and ended in every way."""

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

from .netns import environment, wait_until
from .parts import ADVERTISED, PLAIN, Lab, RealParts, curl, java
from .watching import H3PROBE, Record, Watched

URL = f"https://localhost:{ADVERTISED}/"
USER = 65534

WATCH = [*H3PROBE, "watch", "--json"]

# Lets other users execute programs below a folder that they may not enter, in a mount namespace of its own.
OPENED = """
hidden=$1; shift
keep=$(mktemp -d)
mount --rbind "$hidden" "$keep"
mount -t tmpfs -o mode=755 tmpfs "$hidden"
while [ "$1" != -- ]; do
    mkdir -p "$1"
    mount --rbind "$keep${1#"$hidden"}" "$1"
    shift
done
shift
umount -l "$keep"
rmdir "$keep"
exec "$@"
"""


@pytest.fixture(scope="module")
def lab(parts: RealParts, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    """A lab with nginx for all tests here: none of them changes it."""
    with Lab(parts, tmp_path_factory.mktemp("run") / "lab", "watch-run") as made:
        made.start_nginx()
        yield made


@pytest.fixture
def users_folder() -> Iterator[Path]:
    """A folder that belongs to `USER`."""
    with tempfile.TemporaryDirectory(prefix="h3probe-user-") as name:
        os.chown(name, USER, USER)
        yield Path(name)


def opened(command: Sequence[str]) -> list[str]:
    """The command line that runs this with an interpreter that everybody may execute."""
    needed = {Path(sys.base_prefix).resolve(), Path(sys.prefix).resolve(), Path(__file__).resolve().parents[2]}
    closed = {above for path in needed for above in path.parents if not above.stat().st_mode & 0o001}
    if not closed:
        return [*command]
    (hidden,) = [above for above in closed if not closed & set(above.parents)]
    below = sorted(str(path) for path in needed if hidden in path.parents)
    return ["unshare", "--mount", "sh", "-euc", OPENED, "sh", str(hidden), *below, "--", *command]


def records(output: str) -> list[Record]:
    """The NDJSON of a run."""
    return [json.loads(line) for line in output.splitlines()]


@contextmanager
def running(lab: Lab, *arguments: str, ready: str = "watching") -> Iterator[subprocess.Popen[str]]:
    """`h3probe watch` in the lab, from the moment when it watches."""
    process = subprocess.Popen(
        lab.netns.command([*WATCH, *arguments]),
        cwd=lab.folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment(),
    )
    with process:
        try:
            assert process.stderr is not None
            line = process.stderr.readline()
            assert ready in line, line + process.stderr.read()
            yield process
        finally:
            process.kill()


def until(lab: Lab, ready: Callable[[], bool], what: str, process: subprocess.Popen[str]) -> None:
    """Let curl ask again and again until something is there."""

    def asked() -> bool:
        lab.run(curl(URL, "--http3-only"))
        return ready()

    wait_until(asked, what, process)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_without_a_command(lab: Lab, number: signal.Signals) -> None:
    """All traffic is reported until a signal comes, and then what was still open, and the summary."""
    with running(lab) as process:
        assert lab.run(curl(URL, "--http3-only")).exit == 0
        assert lab.run(curl(f"https://localhost:{PLAIN}/")).exit == 0
        process.send_signal(number)
        output, errors = process.communicate(timeout=20)
    assert process.returncode == 0, errors
    told = records(output)
    assert {r["server"].rpartition(":")[2] for r in told if r["type"] in {"quic", "tcp"}} == {
        str(ADVERTISED),
        str(PLAIN),
    }
    assert [r["type"] for r in told][-1] == "summary"
    assert {r["process"]["name"] for r in told if r["type"] in {"quic", "tcp"} and r["process"]} <= {"curl"}


@pytest.mark.parametrize(
    ("option", "value", "servers"),
    [
        ("--port", str(PLAIN), {PLAIN}),
        ("--port", str(ADVERTISED), {ADVERTISED}),
        ("--origin", f"localhost:{PLAIN}", {PLAIN}),
        ("--origin", "localhost", {PLAIN, ADVERTISED}),
        ("--origin", "elsewhere.example", set()),
    ],
)
def test_filters(lab: Lab, option: str, value: str, servers: set[int]) -> None:
    """A port or an origin narrows connections, verdicts and findings alike."""
    with running(lab, option, value) as process:
        lab.run(curl(URL, "--http3-only"))
        lab.run(curl(f"https://localhost:{PLAIN}/"))
        lab.run(curl(f"https://localhost:{PLAIN}/", "--http3-only"))
        process.send_signal(signal.SIGINT)
        output, errors = process.communicate(timeout=20)
    told = records(output)
    assert process.returncode in {0, 1}, errors
    assert {int(r["server"].rpartition(":")[2]) for r in told if r["type"] in {"quic", "tcp"}} == servers
    origins = {r["origin"] for r in told if r["type"] in {"finding", "verdict"}}
    if servers:
        assert {int(origin.rpartition(":")[2]) for origin in origins} == servers
    else:
        assert origins == {"elsewhere.example"}


def test_a_process_that_already_runs(lab: Lab) -> None:
    """With `--pid` the traffic of that process is reported, and another client's is not."""
    client = lab.netns.start(
        lab.parts.command(java(URL, "request", "ANY", 200, pause_ms=30)), cwd=lab.folder, stderr=subprocess.DEVNULL
    )
    wait_until(lambda: "java" in Path(f"/proc/{client.pid}/comm").read_text(), "java", client)
    with running(lab, "--pid", str(client.pid), "--for", "3") as process:
        lab.run(java(URL, "client", "ALT_SVC", 2))
        output, errors = process.communicate(timeout=20)
    client.kill()
    told = [r for r in records(output) if r["type"] in {"quic", "tcp"}]
    assert told, errors
    assert {r["process"]["pid"] for r in told if r["process"]} <= {client.pid}
    assert {r["type"] for r in told} == {"quic"}


def test_a_command_that_sends_nothing(lab: Lab) -> None:
    """What others sent meanwhile is left out, and that it is left out is said."""
    with running(lab, "--", "sleep", "2") as process:
        lab.run(java(URL, "request", "ANY", 2))
        output, errors = process.communicate(timeout=20)
    assert not [r for r in records(output) if r["type"] in {"quic", "tcp", "icmp", "finding"}]
    assert "left out: 1" in errors


def test_killed_in_the_middle(lab: Lab) -> None:
    """After SIGKILL the file is whole, tshark reads it, and at most a second is missing."""
    path = lab.folder / "killed.pcapng"
    with running(lab, "-w", str(path)) as process:
        until(lab, lambda: path.stat().st_size > 20_000, "the file", process)
        process.kill()
        killed = time.time()
        process.wait()
    read = subprocess.run(
        ["tshark", "-r", str(path), "-T", "fields", "-e", "frame.time_epoch"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert read.returncode == 0, read.stderr
    assert not [line for line in read.stderr.splitlines() if not line.startswith("Running as user")]
    assert killed - float(read.stdout.split()[-1]) < 1.5
    explained = subprocess.run([*H3PROBE, "explain", str(path)], capture_output=True, text=True, check=False)
    assert explained.returncode == 0, explained.stderr


def test_a_relay_with_curl(lab: Lab) -> None:
    """Without any rights, behind a relay, curl reaches nginx over HTTP/3 and HTTP/2, and both are reported."""
    powerless = ["setpriv", "--bounding-set=-all", "--inh-caps=-all"]
    with subprocess.Popen(
        lab.netns.command([*powerless, *WATCH, "--relay", f"5433=localhost:{ADVERTISED}"]),
        cwd=lab.folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment(),
    ) as process:
        assert process.stderr is not None
        assert "relaying" in process.stderr.readline()
        http3 = lab.run(curl("https://localhost:5433/", "--http3-only"))
        http2 = lab.run(curl("https://localhost:5433/", "--http2"))
        process.send_signal(signal.SIGINT)
        output, errors = process.communicate(timeout=20)
    assert [http3.stdout[0].split()[:2], http2.stdout[0].split()[:2]] == [["3", "200"], ["2", "200"]]
    told = records(output)
    assert process.returncode == 0, errors
    established = [r for r in told if r["type"] in {"quic", "tcp"} and r["outcome"] == "established"]
    assert [r["type"] for r in sorted(established, key=lambda r: r["at"])] == ["quic", "tcp"]
    assert {r["server"].rpartition(":")[2] for r in established} == {"5433"}


ASK_ABOUT_THE_PARENT = 'sleep 0.3; id -u; grep -E "^(Uid|Gid|CapEff|CapPrm|CapBnd|NoNewPrivs)" /proc/$PPID/status'


@pytest.mark.parametrize("way", ["sniffing", "relay"])
def test_through_sudo(lab: Lab, users_folder: Path, way: str) -> None:
    """Root is given up once everything is open; the command is the user's, and so is the file."""
    path = users_folder / "trace.pcapng"
    where = ["--relay", f"5434=localhost:{ADVERTISED}"] if way == "relay" else []
    marks = [f"SUDO_UID={USER}", f"SUDO_GID={USER}", "SUDO_USER=nobody"]
    command = ["sh", "-c", ASK_ABOUT_THE_PARENT]
    ran = lab.run_here(opened(["env", *marks, *WATCH, *where, "-w", str(path), "--", *command]))
    assert ran.exit == 0, ran
    assert str(USER) in ran.stderr
    status = dict(line.split(":\t") for line in ran.stderr if ":\t" in line)
    assert status["Uid"].split() == [str(USER)] * 4
    assert status["Gid"].split() == [str(USER)] * 4
    assert {int(status[name], 16) for name in ("CapEff", "CapPrm", "CapBnd")} == {0}
    assert status["NoNewPrivs"] == "1"
    assert (path.stat().st_uid, path.stat().st_gid, path.stat().st_mode & 0o777) == (USER, USER, 0o600)
    assert Watched.of(ran, users_folder).one("summary")["exit_status"] == 0


def test_through_sudo_a_file_is_only_made_where_the_user_may(lab: Lab) -> None:
    """What the user may not write is not written for them, and the command is not started."""
    path = lab.folder / "root-only" / "trace.pcapng"
    path.parent.mkdir(mode=0o700)
    marks = [f"SUDO_UID={USER}", f"SUDO_GID={USER}", "SUDO_USER=nobody"]
    ran = lab.run_here(opened(["env", *marks, *WATCH, "-w", str(path), "--", "echo", "started"]))
    assert ran.exit == 2
    assert "cannot be written" in ran.stderr[-1]
    assert "started" not in ran.stderr
    assert not path.exists()
