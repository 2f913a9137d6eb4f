"""The transport parameters that a QUIC endpoint puts into its TLS hello (RFC 9000, 18)."""

from __future__ import annotations

from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING

from h3probe.errors import DecodeError
from h3probe.wire.buffer import Reader

if TYPE_CHECKING:
    from collections.abc import Mapping

VERSION_INFORMATION = 0x11
# The number it had until RFC 9368, which Chrome sent for years.
VERSION_INFORMATION_DRAFT = 0xFF73DB

# RFC 9000, 18.2; then RFC 9368, 9221, 9287, and what Google's and other implementations send.
NAMES = MappingProxyType(
    {
        0x00: "original_destination_connection_id",
        0x01: "max_idle_timeout",
        0x02: "stateless_reset_token",
        0x03: "max_udp_payload_size",
        0x04: "initial_max_data",
        0x05: "initial_max_stream_data_bidi_local",
        0x06: "initial_max_stream_data_bidi_remote",
        0x07: "initial_max_stream_data_uni",
        0x08: "initial_max_streams_bidi",
        0x09: "initial_max_streams_uni",
        0x0A: "ack_delay_exponent",
        0x0B: "max_ack_delay",
        0x0C: "disable_active_migration",
        0x0D: "preferred_address",
        0x0E: "active_connection_id_limit",
        0x0F: "initial_source_connection_id",
        0x10: "retry_source_connection_id",
        VERSION_INFORMATION: "version_information",
        0x20: "max_datagram_frame_size",
        0x2AB2: "grease_quic_bit",
        0x3127: "initial_rtt",
        0x3128: "google_connection_options",
        0x3129: "user_agent",
        0x4752: "google_version",
        0x7158: "enable_timestamp",
        VERSION_INFORMATION_DRAFT: "version_information",
        0xFF04DE1B: "min_ack_delay",
    }
)

_INTEGERS = frozenset((0x01, *range(0x03, 0x0C), 0x0E, 0x20, 0x3127, 0x7158, 0xFF04DE1B))


@dataclass(frozen=True, slots=True)
class VersionInformation:
    """What an endpoint says of the versions it speaks (RFC 9368, 3).

    Attributes:
        chosen: The version of the packets it sends.
        available: Those it offers, the best first.
    """

    chosen: int
    available: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class TransportParameters:
    """The parameters of one endpoint.

    Attributes:
        order: The numbers as sent: the order tells implementations apart.
        values: By number: an int where the parameter is one and is well-formed, else the bytes.
    """

    order: tuple[int, ...]
    values: Mapping[int, int | bytes]

    @property
    def names(self) -> tuple[str, ...]:
        """The names, in the order sent."""
        return tuple(parameter_name(number) for number in self.order)

    @property
    def max_idle_timeout(self) -> int | None:
        """Milliseconds; None or 0 for no timeout of its own."""
        return self._integer(0x01)

    @property
    def max_udp_payload_size(self) -> int | None:
        """The largest UDP payload it accepts, bytes."""
        return self._integer(0x03)

    @property
    def initial_max_data(self) -> int | None:
        """Bytes that may be sent to it on all streams before it says more."""
        return self._integer(0x04)

    @property
    def initial_max_stream_data_bidi_local(self) -> int | None:
        """Bytes on a stream that it opened."""
        return self._integer(0x05)

    @property
    def initial_max_stream_data_bidi_remote(self) -> int | None:
        """Bytes on a two-way stream that its peer opened."""
        return self._integer(0x06)

    @property
    def initial_max_stream_data_uni(self) -> int | None:
        """Bytes on a one-way stream."""
        return self._integer(0x07)

    @property
    def initial_max_streams_bidi(self) -> int | None:
        """Two-way streams that its peer may open."""
        return self._integer(0x08)

    @property
    def initial_max_streams_uni(self) -> int | None:
        """One-way streams that its peer may open."""
        return self._integer(0x09)

    @property
    def active_connection_id_limit(self) -> int | None:
        """Connection IDs of its peer that it stores."""
        return self._integer(0x0E)

    @property
    def max_datagram_frame_size(self) -> int | None:
        """The largest DATAGRAM frame it accepts (RFC 9221), bytes."""
        return self._integer(0x20)

    @property
    def version_information(self) -> VersionInformation | None:
        """The versions it speaks; None if not sent or malformed."""
        value = self.values.get(VERSION_INFORMATION, self.values.get(VERSION_INFORMATION_DRAFT))
        if not isinstance(value, bytes) or not value or len(value) % 4:
            return None
        numbers = [int.from_bytes(value[at : at + 4]) for at in range(0, len(value), 4)]
        return VersionInformation(numbers[0], tuple(numbers[1:]))

    def _integer(self, number: int) -> int | None:
        value = self.values.get(number)
        return value if isinstance(value, int) else None


def parse(data: bytes) -> TransportParameters:
    """Decode the contents of the quic_transport_parameters extension.

    Only the encoding of draft 27 and later; of a parameter that is there twice the first counts.

    Raises:
        DecodeError: The parameters do not fill the extension exactly.
    """
    reader = Reader(data)
    order: list[int] = []
    values: dict[int, int | bytes] = {}
    while reader.remaining:
        number = reader.varint()
        value = reader.take(reader.varint())
        order.append(number)
        values.setdefault(number, _value(number, value))
    return TransportParameters(tuple(order), values)


def parameter_name(number: int) -> str:
    """A parameter's name: `reserved` for those that mean nothing (RFC 9000, 18.1), the number for the unknown."""
    if number in NAMES:
        return NAMES[number]
    return "reserved" if number % 31 == 27 else f"0x{number:x}"


def _value(number: int, value: bytes) -> int | bytes:
    if number not in _INTEGERS:
        return value
    reader = Reader(value)
    try:
        integer = reader.varint()
    except DecodeError:
        return value
    return value if reader.remaining else integer
