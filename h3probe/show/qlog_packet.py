"""QUIC packets as qlog events have them: header, length, and the frames of those whose keys anyone can derive."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from h3probe.errors import DecodeError
from h3probe.text import clean
from h3probe.track.quic_initial import open_initial
from h3probe.wire.quic.frames import Ack, ConnectionClose, Crypto, Other, Padding, Ping, parse_frames
from h3probe.wire.quic.packets import LongPacket

if TYPE_CHECKING:
    from collections.abc import Mapping

    from h3probe.track.mark import Mark
    from h3probe.track.quic import QuicConnection
    from h3probe.wire.quic.frames import Frame
    from h3probe.wire.quic.packets import ShortPacket
    from h3probe.wire.quic.versions import Kind

TYPES: Mapping[Kind, str] = {
    "initial": "initial",
    "zero-rtt": "0RTT",
    "handshake": "handshake",
    "retry": "retry",
    "version-negotiation": "version_negotiation",
    "unknown": "unknown",
}
ACK_DELAY_EXPONENT = 3
"""Of Initial and Handshake packets, whatever the endpoints agree on (RFC 9000, 18.2 and 19.3)."""


@dataclass(slots=True)
class PacketReader:
    """Reads the packets of one connection, in their order.

    Attributes:
        connection: The connection.
    """

    connection: QuicConnection
    _largest: dict[bool, int] = field(default_factory=lambda: {True: -1, False: -1})
    _last: tuple[Mark, bool, dict[str, Any]] | None = None

    def read(
        self, packet: LongPacket | ShortPacket, mark: Mark, *, from_client: bool, cut: int | None
    ) -> dict[str, Any]:
        """The data of a packet's event; `cut` is how much a snaplen left out, None where that is not known."""
        data: dict[str, Any] = {"header": self._header(packet)}
        if isinstance(packet, LongPacket):
            if packet.kind == "initial":
                self._open(packet, data, from_client=from_client)
            elif packet.kind == "version-negotiation":
                data["supported_versions"] = [f"{version:08x}" for version in packet.supported_versions]
            elif packet.kind == "retry":
                data["retry_token"] = {"type": "retry", "length": len(packet.token)}
        size = self._size(packet, cut)
        if size is not None:
            data["raw"] = {"length": size}
        self._coalesced(packet, mark, data, from_client=from_client)
        return data

    @staticmethod
    def _header(packet: LongPacket | ShortPacket) -> dict[str, Any]:
        if not isinstance(packet, LongPacket):
            return {"packet_type": "1RTT"}
        header: dict[str, Any] = {"packet_type": TYPES[packet.kind]}
        if packet.kind == "initial" and packet.token:
            header["token"] = {"length": len(packet.token)}
        if packet.pn_offset and not packet.truncated:
            header["length"] = len(packet.data) - packet.pn_offset
        return header | {
            "version": f"{packet.version:08x}",
            "scil": len(packet.scid),
            "dcil": len(packet.dcid),
            "scid": packet.scid.hex(),
            "dcid": packet.dcid.hex(),
        }

    def _open(self, packet: LongPacket, data: dict[str, Any], *, from_client: bool) -> None:
        opened = open_initial(self.connection, packet, self._largest[from_client], from_client=from_client)
        if opened is None:
            return
        self._largest[from_client] = max(self._largest[from_client], opened.packet_number)
        header = data["header"]
        data["header"] = {"packet_type": "initial", "packet_number": opened.packet_number} | header
        try:
            data["frames"] = [_frame(frame) for frame in parse_frames(opened.payload)]
        except DecodeError:
            return

    @staticmethod
    def _size(packet: LongPacket | ShortPacket, cut: int | None) -> int | None:
        if isinstance(packet, LongPacket):
            # Its own Length says how long it is, but of what has none.
            return None if packet.truncated or (cut != 0 and not packet.pn_offset) else len(packet.data)
        return None if cut is None else len(packet.data) + cut

    def _coalesced(
        self, packet: LongPacket | ShortPacket, mark: Mark, data: dict[str, Any], *, from_client: bool
    ) -> None:
        """Mark a packet that shares its datagram with the one before it, and that one."""
        if packet.offset and self._last is not None and self._last[:2] == (mark, from_client):
            self._last[2]["is_coalesced"] = data["is_coalesced"] = True
        self._last = (mark, from_client, data)


def _frame(frame: Frame) -> dict[str, Any]:
    match frame:
        case Padding(count):
            return {"frame_type": "padding", "length": count, "payload_length": count}
        case Ping():
            return {"frame_type": "ping"}
        case Ack(_, delay, ranges):
            return {
                "frame_type": "ack",
                "ack_delay": (delay << ACK_DELAY_EXPONENT) / 1000,
                "acked_ranges": [[first] if first == last else [first, last] for first, last in ranges],
            }
        case Crypto(offset, data):
            return {"frame_type": "crypto", "offset": offset, "length": len(data)}
        case ConnectionClose():
            return _close(frame)
        case Other(frame_type):
            return {"frame_type": "unknown", "raw_frame_type": frame_type}


def _close(frame: ConnectionClose) -> dict[str, Any]:
    return {
        "frame_type": "connection_close",
        "error_space": "application" if frame.application else "transport",
        "error_code": frame.code,
        "raw_error_code": frame.code,
        "reason": clean(frame.reason),
    }
