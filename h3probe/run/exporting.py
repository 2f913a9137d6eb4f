"""Captures in the formats of other tools."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING

from h3probe.events import Frame, SocketOwner
from h3probe.run.explaining import events as read
from h3probe.run.explaining import explained
from h3probe.track.tracker import Tracker
from h3probe.wire.packet import UdpDatagram
from h3probe.wire.quic.aggregate import LARGEST_PLAIN

if TYPE_CHECKING:
    from collections.abc import Iterator

    from h3probe.run.explaining import Asked
    from h3probe.show.qlog import QlogBuilder
    from h3probe.track.mark import Mark
    from h3probe.track.quic import QuicConnection
    from h3probe.wire.quic.packets import LongPacket, ShortPacket

NO_EXCHANGE = (
    "no exchange is known, and the HAR is empty: packets alone do not tell requests; --client-log FILE or "
    "--keylog FILE does"
)
NO_CONNECTION = "no QUIC and no TCP connection is in it, and the qlog is empty"


def as_har(asked: Asked) -> tuple[Iterator[str], str | None]:
    """The exchanges of captures as HAR.

    Returns:
        The file's text in pieces, and a remark where there is something to be said about it.

    Raises:
        CaptureError, KeyLogError, UserError: As `explained`.
    """
    from h3probe.show.har import har  # noqa: PLC0415 - one format is asked for

    made = har(explained(asked).all_records)
    text = json.dumps(made, ensure_ascii=False, indent=1, allow_nan=False) + "\n"
    return iter((text,)), None if made["log"]["entries"] else NO_EXCHANGE


def as_qlog(asked: Asked) -> tuple[Iterator[str], str | None]:
    """The connections of captures as qlog; nothing is decrypted for it but Initials.

    Returns:
        The file's text in pieces, and a remark where there is something to be said about it.

    Raises:
        CaptureError, UserError: As `explained`.
    """
    from h3probe.show.qlog import QlogBuilder  # noqa: PLC0415 - one format is asked for

    builder = QlogBuilder()
    tracker = Tracker()
    tracker.quic.on_packet = _Packets(tracker, builder)
    for event in read(asked):
        match event:
            case Frame():
                tracker.feed(event)
            case SocketOwner():
                tracker.attribute(event)
            case _:
                continue  # What secrets, logs and the proxy tell has no place in it.
        _take(tracker, builder)
    tracker.finish()
    _take(tracker, builder)
    filters = asked.filters
    builder.keep(lambda c: filters.connection(c) and filters.origin(c) is not False)
    return builder.texts(asked.source, tracker.clock.start_ns), None if builder.count else NO_CONNECTION


def _take(tracker: Tracker, builder: QlogBuilder) -> None:
    for connection in tracker.take().opened:
        builder.opened(connection)
    builder.moments(tracker.timeline.take())


@dataclass(slots=True)
class _Packets:
    """Hands the packets of QUIC connections on, and how much of each the capture lacks."""

    tracker: Tracker
    builder: QlogBuilder

    def __call__(
        self, connection: QuicConnection, packet: LongPacket | ShortPacket, mark: Mark, *, from_client: bool
    ) -> None:
        """Take a packet of the datagram that the tracker is at."""
        fact = self.tracker.fact
        cut: int | None = 0
        if isinstance(fact, UdpDatagram) and fact.length > len(fact.payload):
            # Of datagrams that the kernel joined it is not known which of them lacks how much.
            cut = fact.length - len(fact.payload) if fact.length <= LARGEST_PLAIN else None
        self.builder.opened(connection)
        self.builder.packet(connection, packet, mark, from_client=from_client, cut=cut)
