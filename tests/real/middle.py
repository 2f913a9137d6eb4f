"""A client's network whose only way out is a middle, with a transparent proxy there and a sniffer before it."""

import os
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from h3probe.engine import Engine
from h3probe.events import Block, Dropped, ProxyEvent, Unreadable
from h3probe.records import AnyRecord, FindingRecord
from h3probe.run.proxying import Races
from h3probe.vantage.proxy import Proxy
from h3probe.vantage.proxy_settings import kind_of, proxy_environment
from h3probe.vantage.proxy_spec import Listen, ProxySpec
from h3probe.vantage.proxy_trust import Trust, make_trust
from h3probe.vantage.sniff import Sniffer

from .netns import Netns, environment
from .parts import Lab

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

    def __enter__(self) -> Self:
        self.client.__enter__()
        middle = self.lab.netns
        (self.lab.folder / "hosts").write_text(f"{MIDDLE} h3.test\n")
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
            aliases=((MIDDLE, "127.0.0.1"),),
        )
        with Proxy(spec, folder=self.lab.folder / "proxy", wrap=self.lab.netns.command) as proxy:
            yield proxy

    @contextmanager
    def sniffer(self) -> Iterator[Sniffer]:
        """Sniff at the client."""
        with Path("/proc/self/ns/net").open() as here, Path(f"/run/netns/{self.client.name}").open() as there:
            os.setns(there.fileno(), os.CLONE_NEWNET)
            try:
                sniffer = Sniffer()  # no names: they would be looked up again, here
            finally:
                os.setns(here.fileno(), os.CLONE_NEWNET)
        with sniffer:
            sniffer.keep_order(in_blocks=False)
            yield sniffer

    def trusted(self, proxy: Proxy, argv: Sequence[str]) -> dict[str, str]:
        """The environment in which one of the real programs trusts the proxy: its own root has the lab's folder."""
        trust = make_trust(proxy.folder, self.lab.folder / "ca.pem")
        inside = Trust(
            *(INSIDE / path.relative_to(self.lab.folder) for path in (trust.ca_file, trust.bundle, trust.trust_store))
        )
        return proxy_environment(kind_of(argv), None, trust=inside, environment=environment())[0]

    def run(
        self,
        proxy: Proxy,
        sniffer: Sniffer,
        argv: Sequence[str],
        *,
        env: dict[str, str] | None = None,
        linger: float = 0.3,
    ) -> "Seen":
        """Run a program at the client, as `h3probe watch` does, until a little after its end."""
        engine, records = Engine("test", "live"), list[AnyRecord]()
        races, events = Races(proxy, engine), list[ProxyEvent]()
        child = subprocess.Popen(
            self.client.command(argv),
            cwd=self.lab.folder,
            env=environment() if env is None else env,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        deadline = time.monotonic() + PATIENCE_S
        while time.monotonic() < deadline:
            batch = proxy.events()
            for event in (*sniffer.read(), *batch):
                if not isinstance(event, Block):  # which there is none of: every packet is a frame
                    records += engine.feed(event)
            events += [event for event in batch if not isinstance(event, Dropped | Unreadable)]
            races(engine.take_moments())
            if child.poll() is not None:
                deadline = min(deadline, time.monotonic() + linger)
                linger = PATIENCE_S
            time.sleep(0.005)
        child.kill()
        said, complained = child.communicate()
        return Seen(said.splitlines(), complained.splitlines(), events, records + engine.finish())


@dataclass(frozen=True, slots=True)
class Seen:
    """What came of a program.

    Attributes:
        said: The lines it printed.
        complained: The lines it complained in.
        events: What the proxy reported.
        records: What the engine made of that, and of the packets at the client.
    """

    said: list[str]
    complained: list[str]
    events: list[ProxyEvent]
    records: list[AnyRecord]

    def all[T](self, kind: type[T]) -> list[T]:
        """Give the events and records of a type, in order."""
        return [each for each in (*self.events, *self.records) if isinstance(each, kind)]

    def one[T](self, kind: type[T]) -> T:
        """Give the only one of its type."""
        (found,) = self.all(kind)
        return found

    @property
    def rules(self) -> set[str]:
        """The rules that found something."""
        return {finding.rule for finding in self.all(FindingRecord)}
