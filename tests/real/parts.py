"""The real programs that `scripts/real-parts` sets up, and a lab of them in a network namespace."""

import os
import shlex
import shutil
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from h3probe.lab.java import PROBE

from .netns import Firewall, Netns, wait_until

ADVERTISED = 4433
"""HTTP/1.1, HTTP/2 and HTTP/3, with an Alt-Svc header that says so."""
STALE = 4434
"""HTTP/1.1 and HTTP/2, with an Alt-Svc header for an HTTP/3 that nobody answers."""
PLAIN = 4436
"""HTTP/1.1 and HTTP/2, no Alt-Svc, nothing on UDP."""
RETRY = 4437
"""As `ADVERTISED`, and the QUIC server asks for address validation with a Retry packet."""
HTTP1 = 4438
"""HTTP/1.1 alone."""
PROXY = 8888
"""tinyproxy."""
SQUID = 3128
"""squid, which wants a name and a password."""

QUIC_PORTS = (ADVERTISED, RETRY)
FIREWALLED = (ADVERTISED, STALE, RETRY)
"""The UDP ports a firewall scenario closes: all that are served or advertised."""

SET_UP = "the real programs are missing or out of date: sudo scripts/real-parts"
NOT_ROOT = "network namespaces need root: run the tests with sudo"

_FIXTURES = Path(__file__).parent / "fixtures"
_CHECKOUT = Path(__file__).parents[2]


@dataclass(frozen=True, slots=True)
class Ran:
    """One command and what came of it, as the truth files of `captures/` tell it.

    Attributes:
        command: as a reader would type it in the lab's folder.
        started: seconds since the epoch.
        took_s: seconds.
        exit: the exit status.
        stdout: the lines it printed.
        stderr: the lines it complained in.
    """

    command: str
    started: float
    took_s: float
    exit: int
    stdout: list[str]
    stderr: list[str]

    def as_json(self) -> dict[str, Any]:
        """Give the fields as `json.dumps` takes them."""
        return asdict(self)


@dataclass(frozen=True, slots=True)
class RealParts:
    """The folder that `scripts/real-parts` filled."""

    folder: Path

    @classmethod
    def find(cls) -> Self | None:
        """Give the parts, or None where they are not completely set up, or hold another `Probe.java` than this one."""
        default = _CHECKOUT / ".cache" / "real-parts"
        folder = Path(os.environ.get("H3PROBE_REAL_PARTS", default))
        compiled = folder / "lab" / "Probe.java"
        ready = (folder / "stamp").exists() and compiled.read_bytes() == PROBE.read_bytes()
        return cls(folder.resolve()) if ready else None

    def versions(self) -> dict[str, str]:
        """Give the Debian version of every package in the root, by name."""
        lines = (self.folder / "versions").read_text().splitlines()
        return dict(line.split(" ", 1) for line in lines)

    def command(self, argv: Sequence[str]) -> list[str]:
        """Give the command line that runs one of the real programs, with the current folder as `/lab`."""
        return [str(self.folder / "enter"), *argv]

    def as_user(
        self, argv: Sequence[str], *, uid: int = 1000, tun: str = "666", hidden: Sequence[str] = ()
    ) -> list[str]:
        """Give the command line that runs a program there as an ordinary user who may make namespaces.

        The checkout and this Python are in place, at their own paths.

        Args:
            argv: The program.
            uid: The user, and the group; 0 keeps root's rights.
            tun: The mode of /dev/net/tun, in octal; "0" takes it away.
            hidden: Programs that are not to be had there.
        """
        folders = [str(_CHECKOUT), *{sys.base_prefix, sys.prefix}]
        options = [f"-b{folder}" for folder in folders] + [f"-h{path}" for path in hidden]
        return [str(self.folder / "as-user"), *options, f"-t{tun}", f"-u{uid}", *argv]


class Lab:
    """A network namespace with servers in it, and a folder with their certificates, for the length of a `with` block.

    Programs run in `folder`, where they find `ca.pem`, `trust.p12` and `Probe.class`. `firewall_rules` is the nftables
    script in force, None without a firewall.
    """

    def __init__(self, parts: RealParts, folder: Path, name: str) -> None:
        self.parts = parts
        self.folder = folder
        self.netns = Netns(name)
        self.firewall_rules: str | None = None
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            stack.enter_context(self.netns)
            shutil.copytree(self.parts.folder / "lab", self.folder, dirs_exist_ok=True)
            self._stack = stack.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.close()

    def start_nginx(self) -> None:
        """Start nginx on the ports of `fixtures/nginx.conf`, ready when this returns."""
        expected = {("tcp", port) for port in (ADVERTISED, STALE, PLAIN, RETRY, HTTP1)}
        expected |= {("udp", port) for port in QUIC_PORTS}
        self._serve("nginx.conf", ["nginx", "-p", "/lab", "-e", "stderr", "-c", "nginx.conf"], expected)

    def start_tinyproxy(self) -> None:
        """Start tinyproxy on `PROXY`, open for CONNECT to the ports of nginx, ready when this returns."""
        self._serve("tinyproxy.conf", ["tinyproxy", "-d", "-c", "tinyproxy.conf"], {("tcp", PROXY)})

    def start_squid(self) -> subprocess.Popen[str]:
        """Start squid on `SQUID`, ready when this returns; give its process, for tests that stop it."""
        self._serve("squid.conf", ["squid", "-N", "-d", "1", "-f", "squid.conf"], {("tcp", SQUID)})
        return self.netns.newest

    def firewall(self, firewall: Firewall) -> None:
        """Close `FIREWALLED`, and keep the rules in `firewall_rules`."""
        self.netns.firewall(firewall, FIREWALLED)
        self.firewall_rules = firewall.rules(FIREWALLED)

    def run(self, argv: Sequence[str], *, timeout: float = 100.0) -> Ran:
        """Run one of the real programs to its end, `subprocess.TimeoutExpired` after `timeout` seconds."""
        return self._ran(argv, self.parts.command(argv), timeout)

    def run_here(self, argv: Sequence[str], *, timeout: float = 100.0) -> Ran:
        """Run a program of this machine in the lab's network and folder, as h3probe."""
        return self._ran(argv, argv, timeout)

    def _ran(self, shown: Sequence[str], argv: Sequence[str], timeout: float) -> Ran:
        started, began = time.time(), time.monotonic()
        done = self.netns.run(argv, cwd=self.folder, timeout=timeout)
        took = time.monotonic() - began
        return Ran(
            command=shlex.join(shown),
            started=round(started, 6),
            took_s=round(took, 3),
            exit=done.returncode,
            stdout=done.stdout.splitlines(),
            stderr=done.stderr.splitlines(),
        )

    def _serve(self, configuration: str, argv: Sequence[str], expected: set[tuple[str, int]]) -> None:
        shutil.copy(_FIXTURES / configuration, self.folder)
        log = self.folder / f"{argv[0]}.log"
        with log.open("w") as complaints:
            server = self.netns.start(self.parts.command(argv), cwd=self.folder, stdout=complaints, stderr=complaints)
        try:
            wait_until(lambda: expected <= self.netns.listening(), argv[0], server)
        except RuntimeError as error:
            error.add_note(log.read_text()[-2000:])
            raise


def java(
    url: str,
    where: str = "none",
    mode: str = "-",
    count: int = 1,
    *,
    proxy: int = 0,
    pause_ms: int = 0,
    linger_ms: int = 0,
    options: Sequence[str] = (),
) -> list[str]:
    """Give the command line of the JDK's client; `h3probe/lab/Probe.java` says what the arguments mean.

    `options` are for the JVM, such as `-Djdk.httpclient.quic.maxInitialTimeout=3`.
    """
    probe = ["Probe", url, where, mode, str(count), str(proxy)]
    if pause_ms or linger_ms:
        probe += [str(pause_ms), str(linger_ms)]
    return ["java", "-Djavax.net.ssl.trustStore=trust.p12", *options, *probe]


def curl(url: str, *options: str) -> list[str]:
    """Give the command line of a curl that prints the HTTP version, the status and the seconds it took."""
    written = r"%{http_version} %{http_code} %{time_total}\n"
    return ["curl", "-sS", "--cacert", "ca.pem", "-o", "/dev/null", "-w", written, *options, url]
