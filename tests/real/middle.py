"""A client's network whose only way out is a middle, with a transparent proxy there and a sniffer before it."""

import os
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Self

from h3probe.engine import Engine
from h3probe.events import Event, ProxyEvent
from h3probe.records import AnyRecord
from h3probe.vantage.proxy import Proxy
from h3probe.vantage.proxy_settings import kind_of, trust_environment
from h3probe.vantage.proxy_spec import Listen, ProxySpec
from h3probe.vantage.proxy_trust import Trust, make_trust
from h3probe.vantage.sniff import Sniffer

from .netns import Netns, environment
from .parts import Lab, Ran

CLIENT, MIDDLE = "198.18.0.2", "198.18.0.1"
CLIENT_6, MIDDLE_6 = "2001:db8:6833::2", "2001:db8:6833::1"
PORT = 53080
PATIENCE_S = 30.0
INSIDE = Path("/lab")

RULES = f"""
table inet h3probe {{
    chain prerouting {{
        type nat hook prerouting priority dstnat
        iifname "to-client" meta l4proto tcp redirect to :{PORT}
    }}
}}
"""


class Middle:
    """The client's namespace, joined to a lab's, where TCP that comes from it is redirected to `PORT`."""

    def __init__(self, lab: Lab) -> None:
        self.lab = lab
        self.client = Netns("client")
        self.events: list[Event] = []

    def __enter__(self) -> Self:
        self.client.__enter__()
        middle = self.lab.netns
        hosts = f"{MIDDLE} h3.test\n{MIDDLE_6} h3.test\n{MIDDLE_6} six.test\n"
        (self.lab.folder / "hosts").write_text(hosts)
        for line in (
            f"ip -n {middle.name} link add to-client type veth peer name eth0 netns {self.client.name}",
            f"ip -n {middle.name} addr add {MIDDLE}/30 dev to-client",
            f"ip -n {middle.name} addr add {MIDDLE_6}/64 dev to-client nodad",
            f"ip -n {middle.name} link set to-client up",
            f"ip -n {self.client.name} addr add {CLIENT}/30 dev eth0",
            f"ip -n {self.client.name} addr add {CLIENT_6}/64 dev eth0 nodad",
            f"ip -n {self.client.name} link set eth0 up",
            f"ip -n {self.client.name} route add default via {MIDDLE}",
        ):
            subprocess.run(line.split(), check=True)
        subprocess.run(middle.command(["nft", "-f", "-"]), input=RULES, text=True, check=True)
        return self

    def __exit__(self, *what: object) -> None:
        self.client.__exit__(None, None, None)

    @contextmanager
    def proxy(self, intercept: tuple[str, ...] | None) -> Iterator[Proxy]:
        """Run the proxy in the middle, from here."""
        spec = ProxySpec(
            transparent=(Listen(PORT, MIDDLE), Listen(PORT, MIDDLE_6)),
            intercept=intercept,
            upstream_ca=self.lab.folder / "ca.pem",
        )
        with Proxy(spec, folder=self.lab.folder / "proxy", wrap=self.lab.netns.command) as proxy:
            yield proxy

    @contextmanager
    def sniffer(self) -> Iterator[Sniffer]:
        """Sniff at the client."""
        with Path("/proc/self/ns/net").open() as here, Path(f"/run/netns/{self.client.name}").open() as there:
            os.setns(there.fileno(), os.CLONE_NEWNET)
            try:
                sniffer = Sniffer(["eth0"])
            finally:
                os.setns(here.fileno(), os.CLONE_NEWNET)
        with sniffer:
            yield sniffer

    def trusted(self, proxy: Proxy, argv: Sequence[str]) -> dict[str, str]:
        """The environment in which one of the real programs trusts the proxy: its own root has the lab's folder."""
        trust = make_trust(proxy.folder, self.lab.folder / "ca.pem")
        inside = Trust(
            *(INSIDE / path.relative_to(self.lab.folder) for path in (trust.ca_file, trust.bundle, trust.trust_store))
        )
        return trust_environment(kind_of(argv), inside, environment=environment())[0]

    def run(self, argv: Sequence[str], env: dict[str, str] | None = None) -> Ran:
        """Run one of the real programs at the client, to its end."""
        return self.run_here(self.lab.parts.command(argv), env)

    def run_here(self, argv: Sequence[str], env: dict[str, str] | None = None) -> Ran:
        """Run a program of this machine at the client, to its end."""
        began, started = time.monotonic(), time.time()
        done = subprocess.run(
            self.client.command(argv),
            cwd=self.lab.folder,
            env=environment() if env is None else env,
            capture_output=True,
            text=True,
            timeout=PATIENCE_S,
            check=False,
        )
        lines, complaints = done.stdout.splitlines(), done.stderr.splitlines()
        return Ran(argv[0], started, time.monotonic() - began, done.returncode, lines, complaints)

    def until(self, proxy: Proxy, done: Callable[[list[Any]], bool]) -> list[Any]:
        """Read the proxy's events until it is enough, and take them."""
        found: list[Any] = []
        deadline = time.monotonic() + PATIENCE_S
        while not done(found):
            assert time.monotonic() < deadline, found
            found += proxy.events()
            time.sleep(0.01)
        return found


def explained(sniffer: Sniffer, events: Sequence[ProxyEvent]) -> list[AnyRecord]:
    """What the engine makes of what was sniffed, and of what the proxy reported."""
    engine = Engine("test", "live")
    records: list[AnyRecord] = []
    while batch := sniffer.read():
        for frame in batch:
            records += engine.feed(frame)
    for event in events:
        records += engine.feed(event)
    return records + engine.finish()
