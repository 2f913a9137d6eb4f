"""What each client is known to do, from `clients.toml`, and which one a connection's marks give away."""

from __future__ import annotations

import re
import tomllib
from dataclasses import dataclass, replace
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any, Literal

from h3probe.errors import DecodeError
from h3probe.wire.quic.transport_parameters import parse as parse_parameters

if TYPE_CHECKING:
    from h3probe.track.quic import QuicConnection
    from h3probe.track.tcp import TcpConnection

# A client that nobody has measured: a SYN this close to the first Initial is part of the same try.
HEAD_START_S = 1.0
# How far an observed wait may be from a timer's value and still be that timer: the clock starts before the first
# packet leaves, and ends before the last one does.
TIMER_EARLY = 0.93
TIMER_LATE = 1.06


@dataclass(frozen=True, slots=True)
class Timer:
    """A wait that a client is known for.

    Attributes:
        seconds: Its default.
        waits: What it is, to be read after the client's name.
        leads_to_tcp: Whether the client goes on over TCP when it runs out.
        setting: What changes it; None where nothing does.
        unit: The setting's unit.
        reason: What the client's CONNECTION_CLOSE says then, None when it says nothing; a * is anything short.
    """

    seconds: float
    waits: str
    leads_to_tcp: bool
    setting: str | None = None
    unit: str | None = None
    reason: str | None = None

    @property
    def changed_by(self) -> str | None:
        """The setting and its unit: `-D…` (seconds)."""
        return None if self.setting is None else f"`{self.setting}` ({self.unit})"

    def said_by(self, reason: str) -> Timer | None:
        """Return the timer with the value that a close's reason gives it; None when the reason is another one's."""
        if self.reason is None:
            return None
        pattern = re.escape(self.reason).replace(r"\*", r".{0,40}").replace(r"\{seconds\}", r"([0-9]{1,6})")
        found = re.fullmatch(pattern, reason)
        if found is None:
            return None
        value = found[1]
        if int(value) == self.seconds:
            return self
        if self.setting is None:
            return None  # It cannot have been changed.
        return replace(
            self, seconds=float(value), waits=f"{self.waits.replace(f'{self.seconds:.0f} s ', '')}, set to {value} s"
        )


@dataclass(frozen=True, slots=True)
class Retry:
    """A client's habit to try a failed request once more."""

    text: str
    setting: str


@dataclass(frozen=True, slots=True)
class Habit:
    """What a client is known to do in one situation.

    Attributes:
        text: What it does, to be read after the client's name.
        advice: What helps.
    """

    text: str
    advice: str


@dataclass(frozen=True, slots=True)
class QuicMark:
    """A fingerprint of a first Initial; what is None says nothing."""

    dcid: tuple[int, ...] | None
    client_scid: tuple[int, ...] | None
    datagram: int | None
    alpn: tuple[str, ...] | None
    parameters: tuple[int, ...] | None
    parameters_any: tuple[int, ...] | None

    def fits(self, connection: QuicConnection, order: tuple[int, ...]) -> bool:
        """Whether every line holds for a connection whose transport parameters came in `order`."""
        hello = connection.hello
        if hello is None or connection.dcid is None or connection.client_scid is None:
            return False
        checks = (
            self.dcid is None or len(connection.dcid) in self.dcid,
            self.client_scid is None or len(connection.client_scid) in self.client_scid,
            self.datagram is None or self.datagram == connection.first_size,
            self.alpn is None or self.alpn == hello.alpn,
            self.parameters is None or self.parameters == order,
            self.parameters_any is None or not set(self.parameters_any).isdisjoint(order),
        )
        return all(checks)


@dataclass(frozen=True, slots=True)
class Client:
    """A client and its habits.

    Attributes:
        family: Its key in `clients.toml`.
        name: As printed for a QUIC connection.
        tcp_name: As printed for a TCP connection, where that says less.
        head_start: Seconds within which the two sides of a race leave.
        fallback_within: Seconds after which it would have gone on to TCP if it could; None where not known.
        ignores_icmp: Whether ICMP errors do not end its attempts; None where not known.
        timers: Its waits.
        retry: Its habit to try again.
        quic: Fingerprints.
        tcp_ciphers: JA4 cipher parts of its TCP ClientHellos.
        always_so: Whether it has no other fingerprints, so that another one is somebody else's.
        names_alternatives: Whether it sends a name without a dot over QUIC only after an Alt-Svc record.
        opens_unused: Whether it opens QUIC beside a TCP connection that a request goes over already.
        always_races: Whether it never tries QUIC alone.
        stuck: What it does with an alternative that never answers, where its own timers do not end the attempts.
        joins: What becomes of a request that finds another one's attempt pending.
    """

    family: str
    name: str
    tcp_name: str
    head_start: float
    fallback_within: float | None
    ignores_icmp: bool | None
    timers: tuple[Timer, ...]
    retry: Retry | None
    quic: tuple[QuicMark, ...]
    tcp_ciphers: tuple[str, ...]
    always_so: bool
    names_alternatives: bool
    opens_unused: bool
    always_races: bool
    stuck: Habit | None
    joins: Habit | None

    def timer_for(self, waited: float, reason: str | None = None) -> Timer | None:
        """Return the timer that a wait is, if it is one.

        Args:
            waited: Seconds.
            reason: What the close says that ended it, empty for nothing; None where no close was seen.
        """
        if reason:
            return next((said for said in (timer.said_by(reason) for timer in self.timers) if said is not None), None)
        for timer in self.timers:
            if reason is not None and timer.reason is not None:
                continue
            if TIMER_EARLY * timer.seconds <= waited <= TIMER_LATE * timer.seconds:
                return timer
        return None


def _mark(table: dict[str, Any]) -> QuicMark:
    def maybe(key: str) -> tuple[Any, ...] | None:
        return tuple(table[key]) if key in table else None

    return QuicMark(
        maybe("dcid"),
        maybe("client_scid"),
        table.get("datagram"),
        maybe("alpn"),
        maybe("parameters"),
        maybe("parameters_any"),
    )


def _client(family: str, table: dict[str, Any]) -> Client:
    return Client(
        family=family,
        name=table["name"],
        tcp_name=table.get("tcp_name", table["name"]),
        head_start=table["head_start"],
        fallback_within=table.get("fallback_within"),
        ignores_icmp=table.get("ignores_icmp"),
        timers=tuple(Timer(**timer) for timer in table.get("timers", ())),
        retry=Retry(**table["retry"]) if "retry" in table else None,
        quic=tuple(_mark(mark) for mark in table.get("quic", ())),
        tcp_ciphers=tuple(mark["ja4_ciphers"] for mark in table.get("tcp", ())),
        always_so=table.get("always_so", False),
        names_alternatives=table.get("names_alternatives", False),
        opens_unused=table.get("opens_unused", False),
        always_races=table.get("always_races", False),
        stuck=Habit(**table["stuck"]) if "stuck" in table else None,
        joins=Habit(**table["joins"]) if "joins" in table else None,
    )


@cache
def known_clients() -> tuple[Client, ...]:
    """Return the clients of `clients.toml`."""
    text = files("h3probe.diagnose").joinpath("clients.toml").read_text(encoding="utf-8")
    return tuple(_client(family, table) for family, table in tomllib.loads(text).items())


def recognise_quic(connection: QuicConnection) -> Client | None:
    """Return the client whose fingerprint a QUIC connection has, None when no one's or more than one's fits."""
    if connection.hello is None or connection.hello.transport_parameters is None:
        return None
    try:
        ids = parse_parameters(connection.hello.transport_parameters).order
    except DecodeError:
        return None
    order = tuple(i for i in ids if i % 31 != 27)
    fitting = [c for c in known_clients() if any(mark.fits(connection, order) for mark in c.quic)]
    return fitting[0] if len(fitting) == 1 else None


def recognise_tcp(connection: TcpConnection) -> Client | None:
    """Return the client whose fingerprint a TCP connection's ClientHello has."""
    if connection.ja4 is None:
        return None
    ciphers = connection.ja4.partition("_")[2].partition("_")[0]
    fitting = [c for c in known_clients() if ciphers in c.tcp_ciphers]
    return fitting[0] if len(fitting) == 1 else None


def recognise(connection: QuicConnection | TcpConnection) -> Client | None:
    """Return the client whose fingerprint a connection has."""
    return recognise_quic(connection) if connection.transport == "quic" else recognise_tcp(connection)


def guess_name(connection: QuicConnection | TcpConnection, transport: Literal["quic", "tcp"]) -> str | None:
    """Return the name to print for a connection's client, as far as that transport gives it away."""
    client = recognise(connection)
    if client is None:
        return None
    return client.name if transport == "quic" else client.tcp_name
