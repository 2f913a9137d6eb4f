"""Scenarios: a server, a network, a client, and what h3probe should say about them, as TOML."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal, NoReturn, cast, get_args

from h3probe.errors import UserError
from h3probe.lab.servers import ServerSpec, find_server

Network = Literal["open", "dropped", "refused"]
PolicyName = Literal["no-opt-in", "race", "quic-first", "alt-svc", "h3-only"]
Version = Literal["HTTP/1.1", "HTTP/2", "HTTP/3", "error", "any"]

_FOLDER = Path(__file__).with_name("scenarios")
_MAX_REQUESTS = 20
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
        versions: What the client itself saw, one per request; `error` for none, `any` where it may differ.
        quic: The outcomes that the QUIC attempts should have, in order; None where it does not matter.
        tcp: The same for TCP.
        findings: Rules that must fire.
        absent: Rules that must not.
        verdict: Words that the verdict must hold, all of them, in any case.
    """

    versions: tuple[Version, ...] = ()
    quic: tuple[str, ...] | None = None
    tcp: tuple[str, ...] | None = None
    findings: tuple[str, ...] = ()
    absent: tuple[str, ...] = ()
    verdict: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Java:
    """How a real Java client plays the scenario.

    Attributes:
        where: Who opts in: `none`, `client` or `request`.
        mode: `H3_DISCOVERY`, or `-`.
        properties: System properties, as `name=value`.
        expect: What should come of it.
    """

    where: str
    mode: str
    properties: tuple[str, ...]
    expect: Expectation


@dataclass(frozen=True, slots=True)
class Scenario:
    """One scenario.

    Attributes:
        name: Its file's name.
        title: A few words.
        about: A sentence or two.
        server: What answers.
        network: What the way to the server does to UDP.
        dropped_after: The request after which the client's idle connections end, and UDP is dropped; 0 for never.
        policy: The built-in client's policy.
        requests: How many it sends, one after the other.
        timeout: Seconds that it waits for an alternative, or with no other choice; None for the client's own default.
        proxy: Whether they go through a CONNECT proxy.
        expect: What should come of it.
        java: The same for Java.
    """

    name: str
    title: str
    about: str
    server: ServerSpec
    network: Network
    dropped_after: int
    policy: PolicyName
    requests: int
    timeout: float | None
    proxy: bool
    expect: Expectation
    java: Java


def load_scenarios() -> list[Scenario]:
    """The scenarios of the package, in the order in which they are shown.

    Raises:
        UserError: One of them is not valid.
    """
    scenarios = [parse_scenario(path.stem, path.read_text("utf-8")) for path in sorted(_FOLDER.glob("*.toml"))]
    last = len(_ORDER)
    return sorted(scenarios, key=lambda each: _ORDER.index(each.name) if each.name in _ORDER else last)


def parse_scenario(name: str, text: str) -> Scenario:
    """Read one scenario.

    Args:
        name: What to call it.
        text: TOML.

    Raises:
        UserError: It is no TOML, or says what a scenario cannot say.
    """
    try:
        data = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise UserError(f"scenario {name}: {error}") from None
    top = _Table(data, f"scenario {name}", "")
    network, client, java = top.table("network"), top.table("client"), top.table("java")
    requests = client.number("requests", 1, most=_MAX_REQUESTS)
    expect = _expectation(top.table("expect"), requests, Expectation())
    scenario = Scenario(
        name=name,
        title=top.text("title"),
        about=top.text("about"),
        server=_server(top.table("server")),
        network=cast("Network", network.choice("udp", get_args(Network)) or "open"),
        dropped_after=network.number("dropped_after", 0, most=requests - 1, least=0),
        policy=cast("PolicyName", client.choice("policy", get_args(PolicyName)) or "no-opt-in"),
        requests=requests,
        timeout=client.number("timeout_ms", 0, most=10_000, least=0) / 1000 or None,
        proxy=client.flag("proxy"),
        expect=expect,
        java=Java(
            where=java.choice("where", ("none", "client", "request")) or "none",
            mode=java.choice("mode", ("ANY", "ALT_SVC", "HTTP_3_URI_ONLY")) or "-",
            properties=java.texts("properties") or (),
            expect=_expectation(java.table("expect"), requests, expect),
        ),
    )
    for table in (network, client, java, top):
        table.finish()
    return scenario


def _server(table: _Table) -> ServerSpec:
    spec = find_server(table.text("kind"))
    delay = table.number("delay_ms", 0, most=10_000, least=0)
    table.finish()
    return replace(spec, delay=delay / 1000) if delay else spec


def _expectation(table: _Table, requests: int, otherwise: Expectation) -> Expectation:
    """What the table says, and `otherwise` where it says nothing."""
    versions = table.texts("versions")
    if versions is not None:
        wrong = next((version for version in versions if version not in get_args(Version)), None)
        if wrong is not None or len(versions) != requests:
            table.refuse("versions", f"a list of {requests} of {', '.join(get_args(Version))}")
    read = {name: table.texts(name) for name in ("quic", "tcp", "findings", "absent", "verdict")}
    table.finish()
    given = {name: value for name, value in {"versions": versions, **read}.items() if value is not None}
    return replace(otherwise, **cast("dict[str, Any]", given))


class _Table:
    """A TOML table whose keys are asked for once each, so that an unknown one is noticed."""

    def __init__(self, data: dict[str, Any], scenario: str, name: str) -> None:
        self._data = dict(data)
        self._scenario = scenario
        self._name = name

    def refuse(self, key: str, wanted: str) -> NoReturn:
        """Raise the error for a key that is not what it should be."""
        where = f"{self._name}.{key}" if self._name else key
        raise UserError(f"{self._scenario}: {where} must be {wanted}")

    def table(self, key: str) -> _Table:
        value = self._data.pop(key, {})
        if not isinstance(value, dict):
            self.refuse(key, "a table")
        return _Table(value, self._scenario, f"{self._name}.{key}" if self._name else key)

    def text(self, key: str) -> str:
        value = self._data.pop(key, None)
        if not isinstance(value, str) or not value.strip():
            self.refuse(key, "a text")
        return " ".join(value.split())

    def texts(self, key: str) -> tuple[str, ...] | None:
        value = self._data.pop(key, None)
        if value is None:
            return None
        if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
            self.refuse(key, "a list of texts")
        return tuple(value)

    def choice(self, key: str, among: tuple[str, ...]) -> str | None:
        """One of several words, None when the key is not there."""
        value = self._data.pop(key, None)
        if value is None:
            return None
        if value not in among:
            self.refuse(key, f"one of {', '.join(among)}")
        return str(value)

    def number(self, key: str, otherwise: int, *, most: int, least: int = 1) -> int:
        value = self._data.pop(key, otherwise)
        if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= most:
            self.refuse(key, f"a whole number from {least} to {most}")
        return value

    def flag(self, key: str) -> bool:
        value = self._data.pop(key, False)
        if not isinstance(value, bool):
            self.refuse(key, "true or false")
        return value

    def finish(self) -> None:
        """Refuse what nobody asked for.

        Raises:
            UserError: There is a key with no meaning.
        """
        for key in self._data:
            where = f"{self._name}.{key}" if self._name else key
            raise UserError(f"{self._scenario}: {where} has no meaning")
