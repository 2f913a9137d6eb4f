import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from .netns import Netns, environment, give_routes, stop
from .parts import ADVERTISED, Lab, RealParts, curl

URL = f"https://localhost:{ADVERTISED}/"
CLOSED = 4499
DRIVER = [sys.executable, "-P", "-m", "tests.real.drive_isolate"]
CHECKOUT = Path(__file__).parents[2]
PASTA, SLIRP = "/usr/bin/pasta", "/usr/bin/slirp4netns"
USER = 1000


@dataclass(frozen=True, slots=True)
class Inside:
    """What a command in an isolation came to.

    Attributes:
        exit: its exit status.
        stdout: lines.
        stderr: lines, without the driver's.
        told: what the driver told.
    """

    exit: int
    stdout: list[str]
    stderr: list[str]
    told: dict[str, Any]


@dataclass(frozen=True, slots=True)
class World:
    """A host of its own: nginx on its loopback, and an ordinary user who isolates commands there."""

    lab: Lab

    @property
    def mark(self) -> str:
        """A setting that everything in an isolation inherits, and nothing else on this machine."""
        return f"ISOLATED_FROM={self.lab.netns.name}"

    def argv(self, argv: Sequence[str], spec: dict[str, Any], **options: Any) -> list[str]:  # noqa: ANN401 - of `as_user`
        """Give the command line of `argv`, isolated."""
        driver = [
            "env",
            "--default-signal",
            self.mark,
            f"PYTHONPATH={CHECKOUT}",
            "PYTHONDONTWRITEBYTECODE=1",
            *DRIVER,
            json.dumps(spec),
            "--",
            *argv,
        ]
        return self.lab.parts.as_user(driver, **options)

    def isolate(self, argv: Sequence[str], spec: dict[str, Any] | None = None, **options: Any) -> Inside:  # noqa: ANN401
        """Run a command in an isolation to its end."""
        ran = self.lab.run_here(self.argv(argv, spec or {}, **options), timeout=60.0)
        told = json.loads(ran.stderr.pop()) if ran.stderr and ran.stderr[-1].startswith("{") else {}
        said = [line for line in ran.stderr if not line.startswith("started ")]
        return Inside(ran.exit, ran.stdout, said, told)

    def start(self, argv: Sequence[str], spec: dict[str, Any] | None = None) -> tuple[subprocess.Popen[str], int]:
        """Start a command in an isolation; give the driver, and the command's process id."""
        driver = subprocess.Popen(
            self.lab.netns.command(self.argv(argv, spec or {})),
            cwd=self.lab.folder,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=environment(),
            start_new_session=True,
        )
        assert driver.stderr is not None
        line = driver.stderr.readline()
        assert line.startswith("started "), line + driver.stderr.read()
        return driver, int(line.split()[1])

    def state(self) -> dict[str, Any]:
        """Everything an isolation could leave behind on this host."""
        run = self.lab.netns.command
        words = {
            "links": [*run(["ip", "-o", "link"])],
            "rules": [*run(["nft", "list", "ruleset"])],
            "routes": [*run(["ip", "route", "show", "table", "all"])],
        }
        state: dict[str, Any] = {
            name: subprocess.run(argv, capture_output=True, text=True, check=True).stdout
            for name, argv in words.items()
        }
        state["processes"] = sorted(processes(self.mark))
        mounts = Path("/proc/self/mountinfo").read_text().splitlines()
        state["mounts"] = [line for line in mounts if " /run/netns/" not in line]  # other tests' come and go
        state["files"] = sorted(str(path) for path in self.lab.folder.rglob("*"))
        return state


def processes(mark: str) -> dict[int, str]:
    """The processes that were started with a setting, and the network namespace of each."""
    found = {}
    for path in Path("/proc").glob("[0-9]*"):
        try:
            if mark.encode() in (path / "environ").read_bytes().split(b"\0"):
                found[int(path.name)] = str((path / "ns/net").readlink())
        except OSError:
            continue
    return found


def namespaces() -> set[str]:
    """The network namespaces that processes are in."""
    found = set()
    for path in Path("/proc").glob("[0-9]*/ns/net"):
        with suppress(OSError):
            found.add(str(path.readlink()))
    return found


@pytest.fixture(scope="module")
def world(parts: RealParts, tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    """Give a host with nginx on its loopback and a route to nowhere."""
    if sys.base_prefix == "/usr":
        pytest.skip("this Python is the system's own, and cannot be shown in another system's root")
    folder = tmp_path_factory.mktemp("isolate")
    with Lab(parts, folder / "lab", "isolate") as lab:
        (folder / "lab").chmod(0o777)
        give_routes(lab.netns)
        lab.start_nginx()
        yield World(lab)


def http(version: str, *more: str) -> list[str]:
    """A curl that is bound to one version."""
    return curl(URL, "--http3-only" if version == "3" else "--http2", "--max-time", "10", *more)


@pytest.mark.parametrize("options", [{}, {"uid": 0}, {"hidden": (PASTA,)}], ids=["user", "root", "slirp4netns"])
@pytest.mark.parametrize("version", ["2", "3"])
def test_a_server_on_the_hosts_loopback_is_reached_as_localhost(
    world: World, version: str, options: dict[str, Any]
) -> None:
    """HTTP/2 and HTTP/3 pass to https://localhost of the host, for an ordinary user, for root, and by slirp4netns."""
    inside = world.isolate(http(version), **options)
    assert inside.stdout[0].startswith(f"{version} 200"), inside
    assert inside.exit == 0
    assert inside.told["frames"] > 5
    assert inside.told["uplink"] == ("slirp4netns" if "hidden" in options else "pasta")


@pytest.mark.parametrize("spec", [{}, {"mtu": 1400}], ids=["direct", "middle"])
def test_a_host_without_routes(parts: RealParts, tmp_path: Path, spec: dict[str, Any]) -> None:
    """A host that is connected to nothing still has its own servers."""
    with Lab(parts, tmp_path / "lab", "isolate-alone") as lab:
        (tmp_path / "lab").chmod(0o777)
        tmp_path.chmod(0o755)
        lab.start_nginx()
        for version in ("2", "3"):
            inside = World(lab).isolate(http(version, "-4"), spec)
            assert inside.stdout[0].startswith(f"{version} 200"), inside


@pytest.mark.parametrize("family", ["-4", "-6"])
@pytest.mark.parametrize("spec", [{}, {"mtu": 1400}], ids=["direct", "middle"])
@pytest.mark.parametrize("version", ["2", "3"])
def test_both_address_families_lead_to_the_host(world: World, version: str, spec: dict[str, Any], family: str) -> None:
    """127.0.0.1 and ::1 are the host's, from the first packet on, with and without a namespace between."""
    inside = world.isolate(http(version, family, "--connect-timeout", "1"), spec)
    assert inside.stdout[0].startswith(f"{version} 200"), inside


UNREACHABLE = f"""
import socket, time
udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
udp.connect(("HOST", {CLOSED}))
udp.settimeout(3)
udp.send(b"x" * 1200)
try:
    udp.recv(1)
except OSError as error:
    print(type(error).__name__)
"""


@pytest.mark.parametrize("spec", [{}, {"mtu": 1400}], ids=["direct", "middle"])
@pytest.mark.parametrize("host", ["127.0.0.1", "198.18.0.9"])
def test_a_closed_udp_port_is_refused(world: World, spec: dict[str, Any], host: str) -> None:
    """ICMP port unreachable comes back, from the command's own loopback and from the host's."""
    inside = world.isolate([sys.executable, "-c", UNREACHABLE.replace("HOST", host)], spec)
    assert inside.stdout == ["ConnectionRefusedError"], inside


OWN_SERVER = """
import socket
for family, host in ((socket.AF_INET, "127.0.0.1"), (socket.AF_INET6, "::1")):
    with socket.create_server((host, 0), family=family) as server:
        client = socket.create_connection(server.getsockname()[:2], timeout=3)
        client.send(b"own")
        print(server.accept()[0].recv(9).decode())
"""


def test_the_commands_own_servers_are_its_own(world: World) -> None:
    """A port that the host does not listen on is the command's own loopback."""
    assert world.isolate([sys.executable, "-c", OWN_SERVER]).stdout == ["own", "own"]


@pytest.mark.parametrize(
    ("spec", "version", "took"),
    [
        ({"block_udp": []}, "2", "blocked"),
        ({"block_udp": [ADVERTISED]}, "2", "blocked"),
        ({"block_udp": [CLOSED]}, "3", "passes"),
        ({"reject_udp": "port"}, "2", "refused"),
        ({"reject_udp": "admin", "reject_ports": [ADVERTISED]}, "2", "refused"),
        ({"reject_udp": "admin", "reject_ports": [CLOSED]}, "3", "passes"),
        ({"mtu": 1200}, "2", "too large"),
        ({"rate_mbit": 50}, "3", "passes"),
        ({"ipv6": False}, "3", "passes"),
        ({"loss": 100}, "0", "lost"),
    ],
    ids=str,
)
def test_what_ifs_decide_the_version(world: World, spec: dict[str, Any], version: str, took: str) -> None:
    """A curl that prefers HTTP/3 gets what the path lets through, and its first datagram is seen all the same."""
    inside = world.isolate(curl(URL, "--http3", "--max-time", "3"), spec)
    assert inside.stdout[0].startswith(version), inside
    seen = any(address.endswith(f":{ADVERTISED}") for address in inside.told["sent_to"])
    assert seen or took == "too large" or spec.get("ipv6", True)


def test_loss_reaches_what_it_should(world: World) -> None:
    """Total loss leaves no request, and the command's own loopback alone."""
    inside = world.isolate([sys.executable, "-c", OWN_SERVER], {"loss": 100})
    assert inside.stdout[0] == "own"


def test_the_kernels_lack_is_said(world: World) -> None:
    """A delay without netem is an error alone, and a note beside something else."""
    alone = world.isolate(["true"], {"delay_ms": 20})
    beside = world.isolate(["true"], {"delay_ms": 20, "mtu": 1400})
    if alone.exit == 0:
        assert beside.told["notes"] == []
    else:
        assert "netem" in alone.stderr[-1]
        assert "netem" in beside.told["notes"][0]


def test_files_and_user_look_the_same(world: World) -> None:
    """The command has the user's own ids and folder, what it writes is the user's, and it has no capabilities."""
    script = "id -u; id -g; pwd; echo new > mine; stat -c %u mine; rm mine; grep CapEff /proc/self/status; cat in.txt"
    (world.lab.folder / "in.txt").write_text("text\n")
    (world.lab.folder / "in.txt").chmod(0o644)
    inside = world.isolate(["sh", "-c", script])
    assert inside.stdout == [str(USER), str(USER), "/lab", str(USER), "CapEff:\t0000000000000000", "text"], inside


def test_the_resolver_keeps_its_search_list(world: World) -> None:
    """resolv.conf names the one server inside, and the rest of it is the host's."""
    outside = Path(world.lab.parts.folder / "root/etc/resolv.conf").read_text().splitlines()
    inside = world.isolate(["cat", "/etc/resolv.conf"]).stdout
    assert inside[0] == "nameserver 198.18.0.10"
    assert inside[1:] == [line for line in outside if line.startswith(("search", "options"))]


@pytest.mark.parametrize(
    ("argv", "status"),
    [
        (["sh", "-c", "exit 7"], 7),
        (["sh", "-c", "kill -9 $$"], 137),
        (["no-such-command"], 127),
        (["/etc/passwd"], 126),
    ],
    ids=str,
)
def test_the_exit_status_is_the_commands(world: World, argv: list[str], status: int) -> None:
    """As a shell has it, with 126 and 127 for what cannot be run."""
    assert world.isolate(argv).exit == status


TRAP = """
import os, signal, time
def end(number, _):
    os.write(1, f"caught {number}\\n".encode())
    os._exit(9)
signal.signal(signal.SIGINT, end)
signal.signal(signal.SIGTERM, end)
os.write(1, b"up\\n")
time.sleep(30)
"""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=str)
def test_signals_reach_the_command(world: World, number: signal.Signals) -> None:
    """What h3probe is sent the command gets, and decides itself."""
    driver, _ = world.start([sys.executable, "-c", TRAP])
    assert driver.stdout is not None
    assert driver.stdout.readline() == "up\n"
    driver.send_signal(number)
    said, complained = driver.communicate(timeout=20)
    assert (said, driver.returncode) == (f"caught {number.value}\n", 9), complained


@pytest.mark.parametrize("spec", [{}, {"block_udp": []}], ids=["direct", "middle"])
@pytest.mark.parametrize("end", ["exit", "interrupt", "kill"])
def test_nothing_is_left(world: World, end: str, spec: dict[str, Any]) -> None:
    """No process, namespace, interface, rule, mount or file outlives h3probe, however it ends."""
    before = world.state()
    host = namespace_of(world.lab.netns)
    driver, pid = world.start(["sh", "-c", "sleep 60 & sleep 60"], spec)
    during, running = world.state(), processes(world.mark)
    isolated = set(running.values()) - {host}
    assert len(running) >= 7  # h3probe, init and its parent, the uplink, and the three of the command
    assert len(isolated) == (2 if spec else 1)
    assert {**during, "processes": 0} == {**before, "processes": 0}
    if end == "exit":
        os.kill(pid, signal.SIGKILL)
    else:
        # Ctrl-C goes to the whole process group; a kill is for h3probe alone.
        (os.kill if end == "kill" else os.killpg)(driver.pid, signal.SIGKILL if end == "kill" else signal.SIGINT)
    driver.communicate(timeout=20)
    deadline = time.monotonic() + 5.0
    while (world.state() != before or isolated & namespaces()) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert world.state() == before
    assert not isolated & namespaces()


def namespace_of(netns: Netns) -> str:
    """A network namespace as /proc has it."""
    done = subprocess.run(netns.command(["readlink", "/proc/self/ns/net"]), capture_output=True, text=True, check=True)
    return done.stdout.strip()


def test_a_server_that_starts_later_is_found(world: World) -> None:
    """The host's listening ports are followed: one that opens while the command runs is reached by it."""
    code = f"""
import socket, time
for attempt in range(100):
    try:
        print(socket.create_connection(("127.0.0.1", {CLOSED}), timeout=3).recv(9).decode())
        break
    except OSError:
        time.sleep(0.05)
"""
    driver, _ = world.start([sys.executable, "-c", code])
    server = world.lab.netns.start(
        [
            sys.executable,
            "-c",
            f"import socket; s = socket.create_server(('127.0.0.1', {CLOSED})); s.accept()[0].send(b'later')",
        ],
        cwd=world.lab.folder,
        stderr=subprocess.DEVNULL,
    )
    said, _ = driver.communicate(timeout=20)
    server.wait(timeout=5)
    assert said == "later\n"


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"tun": "0"}, "modprobe tun"),
        ({"tun": "600"}, "chmod 0666 /dev/net/tun"),
        ({"hidden": (PASTA, SLIRP)}, "install passt"),
        ({"hidden": ("/usr/sbin/nft",)}, "install nftables"),
    ],
    ids=str,
)
def test_obstacles_are_one_line(world: World, options: dict[str, Any], words: str) -> None:
    """What keeps the isolation from being made is named with the way around, and the command does not run."""
    inside = world.isolate(["echo", "ran"], **options)
    assert inside.exit == 2
    assert inside.stdout == []
    (line,) = inside.stderr
    assert words in line
    assert "--relay" in line


def test_slirp4netns_is_said_to_hide_refusals(world: World) -> None:
    """Where pasta is missing, a note says what cannot be told."""
    inside = world.isolate(["true"], hidden=(PASTA,))
    assert "brings no ICMP errors back" in inside.told["notes"][0]


MIDDLE = """
import selectors, socket
waiting = selectors.DefaultSelector()
for host, family in (("198.18.0.1", socket.AF_INET), ("2001:db8:6833::1", socket.AF_INET6)):
    waiting.register(socket.create_server((host, 53080), family=family), selectors.EVENT_READ)
dns = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
dns.bind(("198.18.0.1", 53053))
waiting.register(dns, selectors.EVENT_READ)
print("ready", flush=True)
while True:
    for key, _ in waiting.select():
        if key.fileobj is dns:
            query, peer = dns.recvfrom(512)
            dns.sendto(b"filtered " + query, peer)
            continue
        client, _ = key.fileobj.accept()
        if key.fileobj.family == socket.AF_INET:
            there = client.getsockopt(socket.SOL_IP, 80, 16)  # SO_ORIGINAL_DST
            text = socket.inet_ntoa(there[4:8])
        else:
            there = client.getsockopt(socket.IPPROTO_IPV6, 80, 28)
            text = socket.inet_ntop(socket.AF_INET6, there[8:24])
        client.sendall(f"{text} {int.from_bytes(there[2:4])}".encode())
        client.close()
"""

CALLER = f"""
import socket
for host, port in (("127.0.0.1", {ADVERTISED}), ("::1", {ADVERTISED}), ("192.0.2.9", 443), ("2001:db8:9::9", 443)):
    print(socket.create_connection((host, port), timeout=3).recv(99).decode())
udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
udp.settimeout(3)
udp.sendto(b"query", ("198.18.0.10", 53))
print(udp.recv(99).decode(), udp.getsockname()[0])
"""


def test_the_middle_gets_tcp_and_dns(world: World) -> None:
    """All TCP is redirected to the middle, which learns where it was to go; DNS goes to the filter; as the user."""
    spec = {"intercept": True, "https_rr": False, "middle": [sys.executable, "-c", MIDDLE]}
    inside = world.isolate([sys.executable, "-c", CALLER], spec)
    assert inside.stdout == [
        f"198.18.0.9 {ADVERTISED}",
        f"2001:db8:6833:1::9 {ADVERTISED}",
        "192.0.2.9 443",
        "2001:db8:9::9 443",
        "filtered query 0.0.0.0",
    ], inside


RESOLVER = """
import socket
dns = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
dns.bind(("127.0.0.1", 53))
print("ready", flush=True)
while True:
    query, peer = dns.recvfrom(512)
    name = query[12 : query.index(0, 12) + 5]
    answer = bytes.fromhex("c00c000100010000003c0004c0000209") if name.endswith(bytes([0, 1, 0, 1])) else b""
    dns.sendto(query[:2] + bytes([0x81, 0x80, 0, 1, 0, len(answer) > 0, 0, 0, 0, 0]) + name + answer, peer)
"""

AS_USER_WITH_RESOLVER = """
echo "nameserver 127.0.0.1\nsearch example.test" >/tmp/resolv.conf
mount --bind /tmp/resolv.conf /etc/resolv.conf
exec setpriv --reuid 1000 --regid 1000 --clear-groups --bounding-set=-all --inh-caps=-all "$@"
"""


@pytest.mark.parametrize("spec", [{}, {"block_udp": []}], ids=["direct", "middle"])
def test_names_are_resolved_by_the_hosts_resolver(world: World, spec: dict[str, Any]) -> None:
    """A resolver on the host's loopback answers, through the search list, even where all UDP is blocked."""
    server = world.lab.netns.start(
        [sys.executable, "-c", RESOLVER], cwd=world.lab.folder, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    )
    try:
        assert server.stdout is not None
        assert server.stdout.readline() == "ready\n"
        driver = ["env", f"PYTHONPATH={CHECKOUT}", *DRIVER, json.dumps(spec), "--", "getent", "ahostsv4", "somewhere"]
        argv = world.lab.parts.as_user(["sh", "-euc", AS_USER_WITH_RESOLVER, "sh", *driver], uid=0)
        ran = world.lab.run_here(argv, timeout=30.0)
        assert ran.stdout[0].split()[0] == "192.0.2.9", ran
    finally:
        stop(server)


def test_the_end_of_the_uplink_is_reported(world: World) -> None:
    """Whoever watches is told that the network is gone."""
    driver, pid = world.start(["sleep", "6"])  # long enough for a busy machine to find the uplink meanwhile
    (uplink,) = [path for path in Path("/proc").glob("[0-9]*") if is_uplink_of(path, pid)]
    os.kill(int(uplink.name), signal.SIGKILL)
    _, complained = driver.communicate(timeout=20)
    assert json.loads(complained.splitlines()[-1])["uplink_ended"] == ""


def is_uplink_of(path: Path, pid: int) -> bool:
    """Whether a process is the pasta beside a command."""
    try:
        same = (path / "ns/pid").readlink() == Path(f"/proc/{pid}/ns/pid").readlink()
        return same and (path / "comm").read_text().startswith("pasta")
    except OSError:
        return False


NO_NAMESPACES = """
echo 0 >/proc/sys/user/max_user_namespaces
exec setpriv --ambient-caps=-all --inh-caps=-all "$@"
"""


def test_switched_off_user_namespaces_are_named(world: World) -> None:
    """Where the limit is 0, the line says which setting it is."""
    driver = ["env", f"PYTHONPATH={CHECKOUT}", *DRIVER, "{}", "--", "true"]
    within = ["unshare", "-U", "--map-current-user", "--keep-caps", "sh", "-euc", NO_NAMESPACES, "sh", *driver]
    ran = world.lab.run_here(world.lab.parts.as_user(within), timeout=30.0)
    assert ran.exit == 2
    assert "user.max_user_namespaces=0" in ran.stderr[-1], ran
