"""Connections as qlog 0.3, which qvis reads: draft-ietf-quic-qlog-main-schema-02 and -quic-events-02.

The vantage point is the network, with the client's flow: what the client sends is `packet_sent`. What an observer
cannot know is in no event: nothing of recovery, no keys, no stream.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from h3probe import __version__
from h3probe.show.qlog_packet import PacketReader
from h3probe.text import clean

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from h3probe.events import Endpoint
    from h3probe.records import Moment
    from h3probe.track.mark import Mark
    from h3probe.track.quic import QuicConnection
    from h3probe.track.tcp import TcpConnection
    from h3probe.track.tracker import Connection
    from h3probe.wire.quic.packets import LongPacket, ShortPacket

VERSION = "0.3"
EVENTS_LIMIT = 20_000
"""Packets and remarks of one connection that are kept, the first ones; how many are left out is said."""
ALL_LIMIT = 500_000
"""Events and the frames in them, of all connections together: what bounds the memory, whatever a packet holds."""
TRACES_LIMIT = 20_000
Event = tuple[int, str, dict[str, Any], int | None]
"""Time in nanoseconds, name, data and frame number."""
VANTAGE = {"name": "h3probe, a passive observer near the client", "type": "network", "flow": "client"}


@dataclass(slots=True)
class Trace:
    """What is kept of one connection.

    Attributes:
        connection: The connection.
        reader: Reads its packets; None for TCP.
        events: In the order in which they became known.
        left_out: Events beyond the limit.
    """

    connection: Connection
    reader: PacketReader | None
    events: list[Event] = field(default_factory=list)
    left_out: int = 0


class QlogBuilder:
    """Collects what connections show, and tells it as qlog."""

    def __init__(self) -> None:
        self._traces: dict[str, Trace] = {}
        self._kept = 0
        self._left_out = 0

    def opened(self, connection: Connection) -> None:
        """Begin a trace."""
        if connection.id in self._traces:
            return
        if len(self._traces) >= TRACES_LIMIT:
            self._left_out += 1
            return
        reader = PacketReader(connection) if connection.transport == "quic" else None
        self._traces[connection.id] = Trace(connection, reader)

    def packet(
        self,
        connection: QuicConnection,
        packet: LongPacket | ShortPacket,
        mark: Mark,
        *,
        from_client: bool,
        cut: int | None,
    ) -> None:
        """Take a QUIC packet of a connection that was opened.

        Args:
            connection: Whose it is.
            packet: The packet.
            mark: Its frame.
            from_client: Who sent it.
            cut: Bytes of it that a snaplen left out; None where that is not known.
        """
        trace = self._traces.get(connection.id)
        if trace is not None and trace.reader is not None and self._has_room(trace):
            data = trace.reader.read(packet, mark, from_client=from_client, cut=cut)
            self._kept += len(data.get("frames", ()))
            name = f"transport:packet_{'sent' if from_client else 'received'}"
            trace.events.append((mark.time_ns, name, data, mark.frame))

    def moments(self, moments: Iterable[Moment]) -> None:
        """Take what happened; it stands in the traces as remarks."""
        for moment in moments:
            trace = self._traces.get(moment.connection or "")
            if trace is not None and self._has_room(trace):
                trace.events.append((moment.time_ns, "generic:info", {"message": moment.text}, moment.frame))

    def _has_room(self, trace: Trace) -> bool:
        """Whether one more event is kept; where it is not, it is counted."""
        if len(trace.events) >= EVENTS_LIMIT or self._kept >= ALL_LIMIT:
            trace.left_out += 1
            return False
        self._kept += 1
        return True

    def keep(self, wanted: Callable[[Connection], bool]) -> None:
        """Keep the traces of these connections alone."""
        self._traces = {name: trace for name, trace in self._traces.items() if wanted(trace.connection)}

    def texts(self, source: str, start_ns: int | None) -> Iterator[str]:
        """The file, a piece at a time.

        Args:
            source: What it was made from.
            start_ns: Time of the first packet: what all times are relative to.
        """
        more = f" {self._left_out} connections more are left out." if self._left_out else ""
        head = {
            "qlog_version": VERSION,
            "qlog_format": "JSON",
            "title": f"h3probe {__version__}: {source}",
            "description": "Seen from outside, without keys: frames of Initial packets alone are readable." + more,
        }
        yield _json(head)[:-1] + ',"traces":['
        for number, trace in enumerate(self._traces.values()):
            yield ("," if number else "") + "\n" + _json(_trace(trace, start_ns or 0))
        yield "\n]}\n"

    @property
    def count(self) -> int:
        """How many traces there are."""
        return len(self._traces)


def _trace(trace: Trace, start_ns: int) -> dict[str, Any]:
    connection = trace.connection
    events = [*_begun(connection), *trace.events, *_closed(connection)]
    events.sort(key=lambda event: event[0])
    described = f"{connection.id}, {connection.client} to {connection.server}"
    if trace.left_out:
        described += f"; {trace.left_out} events more are left out"
    common: dict[str, Any] = {"protocol_type": [connection.transport.upper()], "time_format": "relative"}
    common["reference_time"] = start_ns / 1e6
    if connection.transport == "quic" and connection.dcid is not None:
        common["ODCID"] = common["group_id"] = connection.dcid.hex()
    return {
        "title": f"{connection.transport.upper()} {_name(connection)}",
        "description": described,
        "vantage_point": VANTAGE,
        "common_fields": common,
        "events": [_event(event, start_ns) for event in events],
    }


def _name(connection: Connection) -> str:
    hello = connection.hello
    return f"{clean(hello.sni)}:{connection.server.port}" if hello is not None and hello.sni else str(connection.server)


def _event(event: Event, start_ns: int) -> dict[str, Any]:
    time_ns, name, data, frame = event
    told: dict[str, Any] = {"time": (time_ns - start_ns) / 1e6, "name": name, "data": data}
    return told if frame is None else {**told, "frame": frame}


def _begun(connection: Connection) -> Iterator[Event]:
    """What stands at a connection's beginning."""
    first = connection.first
    started = _started(connection.client, connection.server, connection.transport)
    if connection.transport == "quic":
        if connection.client_scid is not None:
            started["src_cid"] = connection.client_scid.hex()
        if connection.dcid is not None:
            started["dst_cid"] = connection.dcid.hex()
    yield first.time_ns, "connectivity:connection_started", started, first.frame
    if connection.transport == "quic":
        yield from _versions(connection)
    if connection.hello is not None and connection.hello.alpn:
        offered: dict[str, Any] = {"client_alpns": [clean(name) for name in connection.hello.alpn]}
        yield first.time_ns, "transport:alpn_information", offered, None


def _closed(connection: Connection) -> Iterator[Event]:
    """How a connection was seen to end."""
    closed = _quic_closed(connection) if connection.transport == "quic" else _tcp_closed(connection)
    if closed is not None:
        mark, data = closed
        yield mark.time_ns, "connectivity:connection_closed", data, mark.frame


def _started(client: Endpoint, server: Endpoint, transport: str) -> dict[str, Any]:
    return {
        "ip_version": "v6" if len(client.host) == 16 else "v4",
        "src_ip": client.address,
        "dst_ip": server.address,
        "protocol": transport.upper(),
        "src_port": client.port,
        "dst_port": server.port,
    }


def _versions(connection: QuicConnection) -> Iterator[Event]:
    """The version that the client chose, and the server's list where there is one."""
    if connection.nameless or connection.gquic is not None:
        return
    chosen = f"{connection.version:08x}"
    if connection.version_negotiation is None:
        yield connection.first.time_ns, "transport:version_information", {"chosen_version": chosen}, None
        return
    mark, versions = connection.version_negotiation
    listed = {"server_versions": [f"{version:08x}" for version in versions]}
    yield mark.time_ns, "transport:version_information", listed, mark.frame


def _quic_closed(connection: QuicConnection) -> tuple[Mark, dict[str, Any]] | None:
    close = connection.close
    if close is None:
        return None
    mark, frame, side = close
    kind = "application_code" if frame.application else "connection_code"
    data = {"owner": "local" if side == "client" else "remote", kind: frame.code, "reason": clean(frame.reason)}
    return mark, data


def _tcp_closed(connection: TcpConnection) -> tuple[Mark, dict[str, Any]] | None:
    if connection.ended is None:
        return None
    mark, side = connection.ended
    return mark, {"owner": "local" if side == "client" else "remote"}


def _json(value: object) -> str:
    return json.dumps(value, ensure_ascii=True, separators=(",", ":"), allow_nan=False)
