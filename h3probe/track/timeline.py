"""What happened, a line at a time, for whoever watches."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, Protocol

from h3probe.records import Moment, ProcessInfo
from h3probe.text import clean, seconds
from h3probe.track.clock import NS

if TYPE_CHECKING:
    from collections.abc import Callable

    from h3probe.events import Endpoint, Process
    from h3probe.track.clock import Clock
    from h3probe.track.mark import Mark
    from h3probe.wire.tls_hello import ClientHello


type Weight = Literal["start", "progress", "good", "bad"]
"""How a line is shown."""


class Subject(Protocol):
    """What a moment can be about: a connection of either kind."""

    id: str
    client: Endpoint
    server: Endpoint
    process: Process | None


def process_info(process: Process | None) -> ProcessInfo | None:
    """The output contract's form of a process."""
    return None if process is None else ProcessInfo(process.pid, process.name)


def between(began: Mark, mark: Mark) -> str:
    """The time from one mark to another, in words."""
    return seconds((mark.time_ns - began.time_ns) / NS)


def offer(hello: ClientHello) -> str:
    """What a ClientHello asks for, in words."""
    name = f"SNI {clean(hello.sni, 64)}" if hello.sni else "no SNI"
    offered = clean(",".join(hello.alpn), 40) or "no ALPN"
    return f"{name}, {offered}{', ECH' if hello.ech else ''}"


class Timeline:
    """Collects moments until they are taken.

    Attributes:
        muted: Whether nobody takes them.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self.muted = False
        self._moments: list[Moment] = []

    def say(  # noqa: PLR0913 - a line has these parts
        self,
        subject: Subject,
        mark: Mark,
        text: str | Callable[[], str],
        *,
        transport: Literal["quic", "tcp", "icmp", "dns", "proxy"],
        outgoing: bool | None,
        weight: Weight = "progress",
    ) -> None:
        """Add a line about a connection.

        Args:
            subject: The connection.
            mark: The packet that shows it.
            text: Free of control characters; or what makes it, called where somebody takes lines.
            transport: What the line is about.
            outgoing: Whether the client did it; None for neither side.
            weight: How it is shown.
        """
        if self.muted:
            return
        self._moments.append(
            Moment(
                time_ns=mark.time_ns,
                at=self._clock.at(mark.time_ns),
                frame=mark.frame,
                connection=subject.id,
                transport=transport,
                process=process_info(subject.process),
                client=str(subject.client),
                server=str(subject.server),
                outgoing=outgoing,
                text=text if isinstance(text, str) else text(),
                weight=weight,
            )
        )

    def take(self) -> list[Moment]:
        """Return what has collected, and start anew."""
        moments, self._moments = self._moments, []
        return moments
