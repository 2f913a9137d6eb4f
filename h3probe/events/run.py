"""What a run knew that its packets do not tell: noted beside them, so that they are explained once more just so."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from h3probe.events.wire import (  # noqa: TC001 - whoever reads events from lines looks at the annotations
    Endpoint,
    Process,
)


@dataclass(frozen=True, slots=True)
class RunBegan:
    """What was watched, from where, and under which conditions; it comes before everything else.

    Attributes:
        time_ns: When that was settled.
        source: Interfaces or relays.
        format: `live`, or `relay`.
        vantage: From where.
        local: The addresses of the host that was watched on, packed.
        narrowed: Whether only one command's connections, or one process's, were wanted.
        of_command: Whether what was left then is taken to be that command's.
        since_ns: When that was started; 0 where it ran already.
        alone: The command that had a network of its own.
        behind_proxy: The command that was given a proxy.
        is_java: Whether that command is Java; None where its name does not tell.
        conditions: What was changed on purpose on the way, in words.
        swallows_icmp: What was on the way and let no ICMP error come back.
        origins: The origins that were asked for; None for all.
        ports: The server ports that were asked for; None for all.
        expects: The version that every exchange was expected to be of.
    """

    time_ns: int
    source: str
    format: Literal["live", "relay"]
    vantage: Literal["wire", "relay", "proxy"]
    local: tuple[bytes, ...] = ()
    narrowed: bool = False
    of_command: bool = False
    since_ns: int = 0
    alone: str | None = None
    behind_proxy: str | None = None
    is_java: bool | None = None
    conditions: tuple[str, ...] = ()
    swallows_icmp: str | None = None
    origins: tuple[str, ...] | None = None
    ports: tuple[int, ...] | None = None
    expects: Literal["HTTP/1.1", "HTTP/2", "HTTP/3"] | None = None


@dataclass(frozen=True, slots=True)
class ConnectionOwner:
    """Whose a connection was found to be.

    Attributes:
        time_ns: When the connection's first packet came, which tells it from others of the same socket.
        protocol: 6 for TCP, 17 for QUIC.
        local: The client's end.
        process: The owner; None where it has no name, and is known to be none of the command's.
        wanted: Whether it is the command's; True where there was no command.
    """

    time_ns: int
    protocol: int
    local: Endpoint
    process: Process | None
    wanted: bool


@dataclass(frozen=True, slots=True)
class TimePassed:
    """Time went by without a packet, and something was concluded from that.

    Attributes:
        time_ns: The time then.
    """

    time_ns: int


@dataclass(frozen=True, slots=True)
class RunEnded:
    """The run was over; what comes without it was cut off.

    Attributes:
        time_ns: When.
        client_over: Whether the command had ended.
        dropped: Packets that were lost; None where that was not known.
    """

    time_ns: int
    client_over: bool
    dropped: int | None = None


@dataclass(frozen=True, slots=True)
class CaptureEnded:
    """How captures ended, of which only the packets were kept.

    Attributes:
        truncated: Whether one of them ended in the middle of a packet.
        dropped: Packets that their recorder had lost; None where it did not say.
    """

    truncated: bool
    dropped: int | None


RunEvent = RunBegan | ConnectionOwner | TimePassed | RunEnded | CaptureEnded
