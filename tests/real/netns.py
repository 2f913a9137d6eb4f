"""A network of its own for each scenario: a namespace, its loopback, and a firewall on the way in.

The namespace's loopback carries that scenario's packets and nothing else, so scenarios run side by side.
"""

import os
import signal
import subprocess
import time
from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from enum import StrEnum
from pathlib import Path
from types import TracebackType
from typing import IO, Self

PATIENCE = 15.0
"""How long anything started here may take to be ready, in seconds."""


class Firewall(StrEnum):
    """What becomes of a UDP datagram that is not let in, as an nftables verdict."""

    DROP = "drop"
    PORT_UNREACHABLE = "reject with icmpx port-unreachable"
    ADMIN_PROHIBITED = "reject with icmpx admin-prohibited"

    def rules(self, udp_ports: Collection[int]) -> str:
        """Give the nftables script that applies this verdict to datagrams for `udp_ports`.

        The rule stands in the input hook: a drop in the output hook would happen before a sniffer sees the datagram.
        """
        ports = ", ".join(str(port) for port in sorted(udp_ports))
        return (
            "add table inet h3probe; "
            "add chain inet h3probe input { type filter hook input priority filter; }; "
            f"add rule inet h3probe input udp dport {{ {ports} }} {self.value}"
        )


class Netns:
    """A network namespace that lives as long as its `with` block, and so does everything started in it."""

    def __init__(self, name: str) -> None:
        # The process id keeps two runs of the same test apart.
        self.name = f"h3probe-{name}-{os.getpid()}"
        self._processes: list[subprocess.Popen[str]] = []

    def __enter__(self) -> Self:
        subprocess.run(["ip", "netns", "add", self.name], check=True)
        try:
            # As on Ethernet: servers that probe for the path's MTU would otherwise go up to 64 KiB.
            subprocess.run(["ip", "-n", self.name, "link", "set", "lo", "mtu", "1500", "up"], check=True)
        except BaseException:
            self._delete()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            for process in reversed(self._processes):
                stop(process)
        finally:
            self._delete()

    def _delete(self) -> None:
        # Whatever still runs in a namespace keeps it alive: the grandchildren that outlived their parents.
        listed = subprocess.run(["ip", "netns", "pids", self.name], capture_output=True, text=True, check=False)
        for pid in listed.stdout.split():
            with suppress(ProcessLookupError):
                os.kill(int(pid), signal.SIGKILL)
        subprocess.run(["ip", "netns", "del", self.name], check=True)

    def command(self, argv: Sequence[str]) -> list[str]:
        """Give the command line that runs `argv` in this namespace (it replaces itself: the process id stays)."""
        return ["ip", "netns", "exec", self.name, *argv]

    def firewall(self, firewall: Firewall, udp_ports: Collection[int]) -> None:
        """Put `firewall` before the namespace's `udp_ports`, on IPv4 and IPv6."""
        subprocess.run(self.command(["nft", "-f", "-"]), input=firewall.rules(udp_ports), text=True, check=True)

    def run(self, argv: Sequence[str], *, cwd: Path, timeout: float) -> subprocess.CompletedProcess[str]:
        """Run `argv` in this namespace to its end; `subprocess.TimeoutExpired` after `timeout` seconds."""
        return subprocess.run(
            self.command(argv), cwd=cwd, timeout=timeout, capture_output=True, text=True, check=False, env=environment()
        )

    def start(
        self, argv: Sequence[str], *, cwd: Path, stdout: IO[str] | int = subprocess.DEVNULL, stderr: IO[str] | int
    ) -> subprocess.Popen[str]:
        """Start `argv` in this namespace; it is ended with the namespace at the latest."""
        process = subprocess.Popen(
            self.command(argv),
            cwd=cwd,
            stdin=subprocess.DEVNULL,
            stdout=stdout,
            stderr=stderr,
            text=True,
            env=environment(),
        )
        self._processes.append(process)
        return process

    @property
    def newest(self) -> subprocess.Popen[str]:
        """The process that was started last."""
        return self._processes[-1]

    def listening(self) -> set[tuple[str, int]]:
        """Give what is listened on, as ("tcp" | "udp", port), without sending a packet."""
        # Lines such as: udp UNCONN 0 0 0.0.0.0:4433 0.0.0.0:*
        sockets = subprocess.run(self.command(["ss", "-Hlntu"]), capture_output=True, text=True, check=True)
        rows = [line.split() for line in sockets.stdout.splitlines()]
        return {(row[0], int(row[4].rpartition(":")[2])) for row in rows}


def give_routes(netns: Netns) -> None:
    """Give a namespace default routes, as a host has them, which lead nowhere."""
    for line in (
        "link add wan type veth peer name far",
        # Addresses that come up a second later would make the host's state another one.
        "link set wan addrgenmode none",
        "link set far addrgenmode none",
        "link set far up",
        "addr add 192.0.2.2/24 dev wan",
        "addr add 2001:db8::2/64 dev wan nodad",
        "link set wan up",
        "route add default via 192.0.2.1",
        "-6 route add default via 2001:db8::1",
    ):
        subprocess.run(["ip", "-n", netns.name, *line.split()], check=True)


def environment() -> dict[str, str]:
    """Give the environment for programs under test: without proxies, Java options and the like of the caller."""
    return {
        name: value
        for name, value in os.environ.items()
        if name in {"HOME", "LANG", "LC_ALL", "PATH", "TMPDIR", "USER"}
    }


def wait_until(ready: Callable[[], bool], what: str, process: subprocess.Popen[str]) -> None:
    """Wait until `ready`, for `PATIENCE` seconds at most.

    Raises:
        RuntimeError: `process` ended before, or the time is over.
    """
    deadline = time.monotonic() + PATIENCE
    while not ready():
        if process.poll() is not None:
            raise RuntimeError(f"{what} ended with status {process.returncode} before it was ready")
        if time.monotonic() > deadline:
            raise RuntimeError(f"{what} was not ready within {PATIENCE:.0f} s")
        time.sleep(0.02)


def stop(process: subprocess.Popen[str], *, by: signal.Signals = signal.SIGTERM) -> None:
    """End `process` by its id, gently first, and wait until it is gone."""
    if process.poll() is None:
        process.send_signal(by)
        try:
            process.wait(timeout=5)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
