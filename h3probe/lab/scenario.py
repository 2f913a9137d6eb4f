"""Scenarios: a server, a network, a client, and what h3probe should say about them, as TOML."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal, cast, get_args

from h3probe.errors import UserError
from h3probe.lab.network import Network, read_network
from h3probe.lab.servers import ServerSpec, find_server
from h3probe.lab.toml_table import Table

PolicyName = Literal["no-opt-in", "race", "quic-first", "alt-svc", "h3-only"]
Version = Literal["HTTP/1.1", "HTTP/2", "HTTP/3", "error", "any"]

_FOLDER = Path(__file__).with_name("scenarios")
_MAX_REQUESTS = 200
_ORDER = (
    "http2-without-opt-in",
    "client-level-race",
    "alt-svc",
    "http3-uri-only",
    "udp-blocked",
    "udp-refused",
    "http3-only-blocked",
    "stale-alt-svc",
    "connect-tunnel",
)


@dataclass(frozen=True, slots=True)
class Expectation:
    """What should come of a scenario.

    Attributes:
        versions: What the client itself saw, one per request, or one for all; `error` for none, `any` where it may
            differ.
        seconds: The least and the most that each request may take, or one pair for all; empty where it does not matter.
        errors: Words that the errors must hold, each in one of them.
        quic: The outcomes that the QUIC attempts should have, in order; None where it does not matter.
        tcp: The same for TCP.
        udp_sockets: The least and the most UDP sockets that the client may have at once; None where it does not matter.
        findings: Rules that must fire.
        log_findings: Rules that must fire where h3probe reads the client's log too.
        absent: Rules that must not.
        verdict: Words that the verdict must hold, all of them, in any case.
    """

    versions: tuple[Version, ...] = ()
    seconds: tuple[tuple[float, float], ...] = ()
    errors: tuple[str, ...] = ()
    quic: tuple[str, ...] | None = None
    tcp: tuple[str, ...] | None = None
    udp_sockets: tuple[float, float] | None = None
    findings: tuple[str, ...] = ()
    log_findings: tuple[str, ...] = ()
    absent: tuple[str, ...] = ()
    verdict: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Java:
    """How a real Java client plays the scenario.

    Attributes:
        release: The Java it takes: 26, or 25 for what was there before HTTP/3.
        program: `Probe`, or `Plain`, which was written for Java 11.
        where: Who opts in: `none`, `client` or `request`.
        mode: `H3_DISCOVERY`, or `-`.
        properties: System properties, as `name=value`.
        connect_timeout_ms: The client's `connectTimeout`; 0 for none.
        pause_ms: Between two requests.
        linger_ms: After the last one, before the JVM ends.
        clients: So many HttpClients share all requests, which are sent at once; 0 for one after the other.
        fresh: In so many JVMs, one after the other.
        expect: What should come of it.
    """

    release: int
    program: str
    where: str
    mode: str
    properties: tuple[str, ...]
    connect_timeout_ms: int
    pause_ms: int
    linger_ms: int
    clients: int
    fresh: int
    expect: Expectation


@dataclass(frozen=True, slots=True)
class Curl:
    """How curl plays the scenario.

    Attributes:
        options: Its options.
        expect: What should come of it.
    """

    options: tuple[str, ...]
    expect: Expectation


@dataclass(frozen=True, slots=True)
class Scenario:
    """One scenario.

    Attributes:
        name: Its file's name.
        title: A few words.
        about: A sentence or two.
        server: What answers.
        clears_after: The request after which the server's responses say `Alt-Svc: clear`; 0 for never.
        network: What the way to the server does.
        policy: The built-in client's policy.
        requests: How many it sends, one after the other.
        timeout: Seconds that it waits for an alternative, or with no other choice; None for the client's own default.
        proxy: Whether they go through a CONNECT proxy.
        expect: What should come of it.
        java: The same for Java.
        curl: The same for curl; None where it is not for curl.
        patient: Whether it mostly waits, and others may run beside it.
    """

    name: str
    title: str
    about: str
    server: ServerSpec
    clears_after: int
    network: Network
    policy: PolicyName
    requests: int
    timeout: float | None
    proxy: bool
    expect: Expectation
    java: Java
    curl: Curl | None = None
    patient: bool = False

    @property
    def beyond_relay(self) -> str:
        """What of it a relay cannot do, in words; empty where it can do all: it is one port, of one server."""
        elsewhere = ["HTTP/3 on another port"] if self.server.other_port else []
        return ", ".join([*elsewhere, *filter(None, [self.network.beyond_relay])])


def load_scenarios() -> list[Scenario]:
    """The scenarios of the package, in the order in which they are shown.

    Raises:
        UserError: One of them is not valid.
    """
    scenarios = [parse_scenario(path.stem, path.read_text("utf-8")) for path in sorted(_FOLDER.glob("*.toml"))]
    last = len(_ORDER)
    return sorted(scenarios, key=lambda each: _ORDER.index(each.name) if each.name in _ORDER else last)


def demo_scenarios() -> list[Scenario]:
    """Those that `h3probe demo` plays: a relay can do what their networks do.

    Raises:
        UserError: One of them is not valid.
    """
    return [scenario for scenario in load_scenarios() if scenario.name in _ORDER]


def parse_scenario(name: str, text: str) -> Scenario:
    """Read one scenario.

    Args:
        name: What to call it.
        text: TOML.

    Raises:
        UserError: It is no TOML, or says what a scenario cannot say.
    """
    top = Table(read_toml(f"scenario {name}", text), f"scenario {name}")
    scenario = read_scenario(name, top, title=top.text("title"), about=top.text("about"))
    top.finish()
    return scenario


def read_toml(file: str, text: str) -> dict[str, Any]:
    """The file as tables.

    Raises:
        UserError: It is no TOML.
    """
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise UserError(f"{file}: {error}") from None
    except RecursionError:
        raise UserError(f"{file}: lists or tables within each other, too many of them") from None


def read_scenario(name: str, top: Table, *, title: str, about: str) -> Scenario:
    """Read what a scenario says of its server, network, clients and end; `top` may hold more.

    Raises:
        UserError: It says what a scenario cannot say.
    """
    server, network, client = top.table("server"), top.table("network"), top.table("client")
    requests = client.number("requests", 1, most=_MAX_REQUESTS)
    expect = _expectation(top.table("expect"), requests, Expectation())
    scenario = Scenario(
        name=name,
        title=title,
        about=about,
        clears_after=server.number("clears_after", 0, most=requests - 1, least=0),
        server=_server(server),
        network=read_network(network, requests),
        policy=cast("PolicyName", client.choice("policy", get_args(PolicyName)) or "no-opt-in"),
        requests=requests,
        timeout=client.number("timeout_ms", 0, most=10_000, least=0) / 1000 or None,
        proxy=client.flag("proxy"),
        expect=expect,
        java=_java(top.table("java"), requests, expect),
        curl=_curl(top.table("curl"), requests, expect),
        patient=top.flag("patient"),
    )
    client.finish()
    return scenario


def _server(table: Table) -> ServerSpec:
    spec = find_server(table.text("kind"))
    delay = table.number("delay_ms", 0, most=10_000, least=0)
    table.finish()
    return replace(spec, delay=delay / 1000) if delay else spec


def _java(table: Table, requests: int, expect: Expectation) -> Java:
    java = Java(
        release=table.number("release", 26, most=26, least=25),
        program=table.choice("program", ("Probe", "Plain")) or "Probe",
        where=table.choice("where", ("none", "client", "request")) or "none",
        mode=table.choice("mode", ("ANY", "ALT_SVC", "HTTP_3_URI_ONLY")) or "-",
        properties=table.texts("properties") or (),
        connect_timeout_ms=table.number("connect_timeout_ms", 0, most=60_000, least=0),
        pause_ms=table.number("pause_ms", 0, most=60_000, least=0),
        linger_ms=table.number("linger_ms", 0, most=60_000, least=0),
        clients=table.number("clients", 0, most=_MAX_REQUESTS, least=0),
        fresh=table.number("fresh", 1, most=20),
        expect=_expectation(table.table("expect"), requests, expect),
    )
    table.finish()
    return java


def _curl(table: Table, requests: int, expect: Expectation) -> Curl | None:
    options = table.texts("options")
    curl = None if options is None else Curl(options, _expectation(table.table("expect"), requests, expect))
    table.finish()
    return curl


def _expectation(table: Table, requests: int, otherwise: Expectation) -> Expectation:
    """What the table says, and `otherwise` where it says nothing."""
    versions, seconds = table.texts("versions"), table.ranges("seconds")
    if versions is not None:
        wrong = next((version for version in versions if version not in get_args(Version)), None)
        if wrong is not None or len(versions) not in {1, requests}:
            table.refuse("versions", f"a list of {requests} of {', '.join(get_args(Version))}, or of one for all")
    if seconds is not None and len(seconds) not in {1, requests}:
        table.refuse("seconds", f"a list of {requests} pairs, or of one for all")
    sockets = table.ranges("udp_sockets")
    if sockets is not None and len(sockets) != 1:
        table.refuse("udp_sockets", "a list of one pair")
    read: dict[str, Any] = {"versions": versions, "seconds": seconds, "udp_sockets": sockets[0] if sockets else None}
    read |= {
        name: table.texts(name) for name in ("errors", "quic", "tcp", "findings", "log_findings", "absent", "verdict")
    }
    table.finish()
    return replace(otherwise, **{name: value for name, value in read.items() if value is not None})
