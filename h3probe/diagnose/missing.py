"""What connections show to be missing from a capture, counted one by one."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from h3probe.track.mark import Mark
    from h3probe.track.tcp import TcpConnection
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
        one_sided_tcp: The same of TCP.
        unread_tcp: TCP connections that begin in it, and whose ClientHello is not whole in it.
        late_tcp: TCP connections to port 443 that had begun before it.
    """

    connections: int = 0
    late: int = 0
    late_first: list[tuple[Mark, str]] = field(default_factory=list)
    cut: int = 0
    one_sided: int = 0
    one_sided_tcp: int = 0
    unread_tcp: int = 0
    late_tcp: int = 0

    def add(self, connections: Iterable[Connection]) -> None:
        """Look at some more."""
        for connection in connections:
            self.connections += 1
            if connection.transport == "tcp":
                self._add_tcp(connection)
                continue
            if connection.mid_stream:
                self.late += 1
                if len(self.late_first) < SHOWN:
                    self.late_first.append((connection.first, connection.id))
            self.cut += connection.cut > 0
            answered = connection.answer_acked or connection.client_handshake is not None
            # What it sent may stand before the capture.
            self.one_sided += connection.first_answer is None and answered and not connection.server_bytes

    def _add_tcp(self, connection: TcpConnection) -> None:
        # The client's acknowledgement tells that there was an answer.
        answered = connection.connected is not None and not connection.reported
        self.one_sided_tcp += answered and connection.one_sided
        if connection.hello is not None:
            return
        web = connection.server.port == HTTPS
        if connection.mid_stream:
            self.late_tcp += web
        elif connection.cut:
            self.unread_tcp += connection.tls is not None or (connection.undecided and web)
