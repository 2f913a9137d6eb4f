"""The accuracy matrix: clients, scenarios and vantage points, and h3probe's answer in each cell against the client's.

A play is a client in a scenario, watched in one way. What is recorded there is explained from several vantage points,
and each of them is a cell. Whatever the client did is right; wrong is what h3probe says otherwise. So nothing here
waits for an outcome, and plays run side by side.
"""

from __future__ import annotations

import asyncio
import os
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final, Literal, get_args

from h3probe.errors import KeyLogError, UserError
from h3probe.lab import scenario as scenarios
from h3probe.lab.accuracy import compare
from h3probe.lab.article import load_experiments
from h3probe.lab.chromium import find_chromium
from h3probe.lab.clients import BuiltinClient, JavaClient, Place, find_curl, other_client
from h3probe.lab.connect_proxy import connect_proxy
from h3probe.lab.demo import play as play_behind_relay
from h3probe.lab.isolated import play_watched
from h3probe.lab.java import compile_programs, find_java, find_java_before_http3
from h3probe.lab.ports import open_port
from h3probe.lab.servers import running
from h3probe.records import ExpectationRecord, HttpVersion
from h3probe.run.explaining import Asked, explained

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterable, Sequence
    from pathlib import Path

    from h3probe.lab.authority import Authority
    from h3probe.lab.clients import LabClient
    from h3probe.lab.judge import Played
    from h3probe.lab.outcome import Outcome
    from h3probe.lab.scenario import Scenario
    from h3probe.lab.servers import Server
    from h3probe.records import AnyRecord

Way = Literal["isolate", "client-log", "intercept", "relay", "proxy", "proxy-intercept", "reverse"]
"""How a client is watched."""

SCENARIOS: Final[dict[Way, tuple[str, ...]]] = {
    "client-log": ("client-level-race", "udp-refused", "connect-tunnel"),
    "intercept": ("alt-svc", "client-level-race", "http1-only"),
    "relay": ("alt-svc", "client-level-race", "http3-uri-only", "udp-blocked", "udp-refused", "retry", "http1-only"),
    "proxy": ("connect-tunnel", "http1-only"),
    "proxy-intercept": ("connect-tunnel", "http1-only"),
    "reverse": ("alt-svc", "client-level-race", "http3-uri-only"),
}
"""What is played in these ways; in a network of its own, everything is."""

_TERMINATES_TLS: Final = ("intercept", "proxy-intercept", "reverse")

WITHOUT_HTTP3: Final = ("alt-svc", "udp-blocked", "http1-only", "http2-only", "packet-loss", "connect-tunnel")
"""What is played with a client that knows no HTTP/3: the others would be the same again."""

COLD_S: Final = 2.0
"""What a JVM may take to begin with."""


@dataclass(frozen=True, slots=True)
class Cell:
    """A client in a scenario, as h3probe saw it from one vantage point.

    Attributes:
        client: Whose name.
        scenario: Whose name.
        vantage: Where h3probe looked from.
        outcomes: What the client says.
        records: What h3probe says.
        wrong: What of that is wrong, a sentence each.
        untold: What is not told: of `version`, `transport`, `seconds`.
    """

    client: str
    scenario: str
    vantage: str
    outcomes: Sequence[Outcome]
    records: Sequence[AnyRecord]
    wrong: Sequence[str]
    untold: Sequence[str]


@dataclass(frozen=True, slots=True)
class Play:
    """What is played once.

    Attributes:
        client: Who asks.
        scenario: Where.
        way: How it is watched.
    """

    client: LabClient
    scenario: Scenario
    way: Way

    @property
    def name(self) -> str:
        """For a file, and for whoever waits."""
        return f"{self.client.name}-{self.scenario.name}-{self.way}".replace("/", "-")


@dataclass(frozen=True, slots=True)
class JavaBeforeHttp3(JavaClient):
    """A Java from before HTTP/3, with a program that knows nothing of it."""

    name = "java25"

    def obstacle(self, scenario: Scenario) -> str:
        """That it is not there, or that this scenario is about HTTP/3."""
        if isinstance(self.before, str):
            return self.before
        return "" if scenario.name in WITHOUT_HTTP3 else "it is about HTTP/3"

    def argv(self, scenario: Scenario, place: Place) -> list[str]:
        """Plain.java."""
        java = replace(scenario.java, release=25, program="Plain")
        return JavaClient.argv(self, replace(scenario, java=java), place)


def find_clients(names: Sequence[str], java: str | None, java25: str | None) -> list[LabClient]:
    """The clients with these names, or all that are there.

    Args:
        names: `builtin`, `java`, `java25`, `curl`, `chromium`, or commands.
        java: A JDK 26, where it is not found by itself.
        java25: A Java from before HTTP/3, likewise.

    Raises:
        UserError: One that was named is not there.
    """
    found: list[LabClient] = []
    for name in names or (*_FINDERS,):
        try:
            found.append(_FINDERS[name](java, java25) if name in _FINDERS else other_client(name))
        except UserError:
            if names:
                raise
    return found


_FINDERS: Final[dict[str, Callable[[str | None, str | None], LabClient]]] = {
    "builtin": lambda *_: BuiltinClient(),
    "java": lambda java, _: JavaClient(find_java(java)),
    "java25": lambda java, java25: JavaBeforeHttp3(find_java(java), find_java_before_http3(java25)),
    "curl": lambda *_: find_curl(),
    "chromium": lambda *_: find_chromium(),
}


def load_scenarios() -> list[Scenario]:
    """The lab's scenarios, and one run of the articles: the only one here that waits for a timer of 30 s."""
    runs = [run.scenario for experiment in load_experiments() for run in experiment.runs]
    return [*scenarios.load_scenarios(), next(each for each in runs if each.name == _LONG)]


_LONG: Final = "20-advertised-and-blocked/1"


def plan(clients: Iterable[LabClient], scenarios: Sequence[Scenario]) -> list[Play]:
    """What there is to play; what a client cannot play is left out."""
    return [
        Play(client, scenario, way)
        for client in clients
        for way in get_args(Way)
        for scenario in scenarios
        if scenario.name in SCENARIOS.get(way, (scenario.name,))
        and not client.obstacle(scenario)
        # An article's run is Java's, and its log alone is read while it is written.
        and (isinstance(client, JavaClient) or not (scenario.name == _LONG or way == "client-log"))
        and (client.trusts_environment or way not in _TERMINATES_TLS)
    ]


async def fill(plays: Sequence[Play], authority: Authority, told: Callable[[Play], None]) -> list[Cell]:
    """Play all, those that mostly wait beside the others, and compare.

    Args:
        plays: What.
        authority: Whose certificate the servers show.
        told: Called with each one that has ended.
    """
    for client in {play.client.name: play.client for play in plays}.values():
        if isinstance(client, JavaClient):  # now: while others play, it would keep their servers waiting
            compile_programs(client.java, authority)
    # One more than there are processors: most plays wait for a timer now and then.
    processors = asyncio.Semaphore((os.cpu_count() or 1) + 1)

    async def fill_cells(play: Play) -> list[Cell]:
        async with AsyncExitStack() as stack:
            if not play.scenario.patient:
                await stack.enter_async_context(processors)
            try:
                cells = await _WATCHED[play.way](play, authority)
            except UserError as error:  # no answer is no right one
                cells = [Cell(play.client.name, play.scenario.name, play.way, (), (), (str(error),), ())]
        told(play)
        return cells

    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(fill_cells(play)) for play in plays]
    return [cell for task in tasks for cell in task.result()]


def _cell(play: Play, vantage: str, played: Played, records: Sequence[AnyRecord], *, sees_all: bool = False) -> Cell:
    cold_s = COLD_S if isinstance(play.client, JavaClient) else 0.0
    compared = compare(records, played.outcomes, cold_s=cold_s, sees_all=sees_all)
    wrong, untold = tuple(compared.wrong), tuple(compared.untold)
    return Cell(play.client.name, play.scenario.name, vantage, played.outcomes, records, wrong, untold)


@asynccontextmanager
async def _server(
    play: Play, authority: Authority, *, trusts: bool = True, log: Path | None = None
) -> AsyncIterator[tuple[Server, Place]]:
    """The scenario's server and, where it has one, its proxy."""
    async with AsyncExitStack() as stack:
        server = await stack.enter_async_context(running(play.scenario.server, authority))
        proxy_port = await stack.enter_async_context(connect_proxy()) if play.scenario.proxy else 0
        yield server, Place(server.url, proxy_port, authority, trusts, log)


def _free_port() -> int:
    port = open_port()
    port.close()
    return port.number


async def _isolated(play: Play, authority: Authority) -> list[Cell]:
    """A network of its own; what is recorded there is explained afterwards, alone, with a log, and with secrets."""
    folder = authority.ca_file.parent
    capture, log, secrets = (folder / f"{play.name}.{end}" for end in ("pcapng", "log", "keys"))
    options = ("--isolate", *play.scenario.network.options, "--expect", "h3", "-w", str(capture), "--full")
    environment = {"SSLKEYLOGFILE": str(secrets)} if play.client.writes_secrets else None
    async with _server(play, authority, log=log if play.client.logs else None) as (server, place):
        played = await play_watched(play.scenario, server, play.client, place, options, environment)
    cells = [_cell(play, "isolate", played, played.records, sees_all=True)]
    cells.append(_cell(play, "capture", played, await _explained(capture), sees_all=True))
    if play.client.logs:
        if not log.exists():
            log.write_text("\n".join(played.said), "utf-8")
        cells.append(_cell(play, "capture, log", played, await _explained(capture, log=log), sees_all=True))
    with suppress(KeyLogError):  # a client without any handshake has no secrets
        cells.append(_cell(play, "capture, keys", played, await _explained(capture, secrets=secrets), sees_all=True))
    return cells


async def _explained(capture: Path, *, log: Path | None = None, secrets: Path | None = None) -> list[AnyRecord]:
    """What `explain` says, once for each version that may be expected."""
    logs = () if log is None else (str(log),)
    asked = Asked((str(capture),), key_log=None if secrets is None else str(secrets), client_logs=logs)
    found: list[AnyRecord] = []
    for version in get_args(HttpVersion):
        said = await asyncio.to_thread(explained, replace(asked, expects=version))
        found += [each for each in said.all_records if not found or isinstance(each, ExpectationRecord)]
    return found


async def _watched(play: Play, authority: Authority) -> list[Cell]:
    """The same while it happens, with the client's log or with its TLS over TCP terminated."""
    options = ["--isolate", *play.scenario.network.options, "--expect", "h3"]
    intercepts = play.way == "intercept"
    options += ["--intercept", "--server-ca", str(authority.ca_file)] if intercepts else ["--client-log"]
    async with _server(play, authority, trusts=not intercepts) as (server, place):
        played = await play_watched(play.scenario, server, play.client, place, options)
    return [_cell(play, f"isolate, {play.way}", played, played.records, sees_all=True)]


async def _proxied(play: Play, authority: Authority) -> list[Cell]:
    """h3probe is the client's proxy, which it knows of; the scenario's own is not needed."""
    port = _free_port()
    options = ["--proxy", str(port), "--expect", "h3"]
    intercepts = play.way == "proxy-intercept"
    options += ["--intercept", "--server-ca", str(authority.ca_file)] if intercepts else []
    async with running(play.scenario.server, authority) as server:
        place = Place(server.url, port, authority, trusts=not intercepts)
        played = await play_watched(play.scenario, server, play.client, place, options)
    return [_cell(play, play.way.replace("-", ", "), played, played.records)]


async def _reversed(play: Play, authority: Authority) -> list[Cell]:
    """h3probe stands before the server, with both transports."""
    port = _free_port()
    options = ["--intercept", "--server-ca", str(authority.ca_file), "--expect", "h3"]
    async with running(play.scenario.server, authority) as server:
        options += ["--reverse", f"{port}=localhost:{server.port}"]
        server.advertise(port)
        place = Place(f"https://localhost:{port}/", 0, authority, trusts=False)
        played = await play_watched(play.scenario, server, play.client, place, options)
    return [_cell(play, "reverse, intercept", played, played.records)]


async def _relayed(play: Play, authority: Authority) -> list[Cell]:
    played = await play_behind_relay(play.scenario, authority, lambda _: None, play.client, vantage="relay")
    return [_cell(play, "relay", played, played.records)]


_WATCHED: Final = {
    "isolate": _isolated,
    "client-log": _watched,
    "intercept": _watched,
    "relay": _relayed,
    "proxy": _proxied,
    "proxy-intercept": _proxied,
    "reverse": _reversed,
}
