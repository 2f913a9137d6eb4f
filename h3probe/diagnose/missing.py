"""What connections show to be missing from a capture, counted one by one."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from h3probe.track.mark import Mark
    from h3probe.track.tracker import Connection

SHOWN = 3
HTTPS = 443


@dataclass(slots=True)
class Missing:
    """Sums over connections.

    Attributes:
        connections: How many were looked at.
        late: QUIC connections that had begun before the capture.
        late_first: The first few of those, by id, and where each begins.
        cut: QUIC connections of which a snaplen cut Initials.
        one_sided: Those that were answered, by what their client sent, and of which no answer was captured.
        late_tcp: TCP connections to port 443 that had begun before it.
    """

    connections: int = 0
    late: int = 0
    late_first: list[tuple[Mark, str]] = field(default_factory=list)
    cut: int = 0
    one_sided: int = 0
    late_tcp: int = 0

    def add(self, connections: Iterable[Connection]) -> None:
        """Look at some more."""
        for connection in connections:
            self.connections += 1
            if connection.transport == "tcp":
                late = connection.mid_stream and connection.hello is None
                self.late_tcp += late and connection.server.port == HTTPS
                continue
            if connection.mid_stream:
                self.late += 1
                if len(self.late_first) < SHOWN:
                    self.late_first.append((connection.first, connection.id))
            self.cut += connection.cut > 0
            answered = connection.answer_acked or connection.client_handshake is not None
            self.one_sided += connection.first_answer is None and answered
