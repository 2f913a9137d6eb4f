"""Which addresses belong to one host, as far as that is certain."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from h3probe.events import Endpoint

LOOPBACK = "loopback"
IPV6 = 16
# A station behind which more addresses than these are seen is a router, or a host that cannot be told from one.
ADDRESSES_OF_A_HOST = 8
STATIONS_LIMIT = 4096
LINK_LOCAL = b"\xfe\x80"


class Hosts:
    """Joins a host's IPv4 and IPv6 addresses by the link-layer station that sends from both.

    A station is taken for one host only while all that it was ever seen to send comes from one IPv4 address and
    from IPv6 addresses of one /64 (and of the link): behind a router there would be strangers' addresses too.

    Attributes:
        local: This host's own addresses, packed, where they are known; they are one host.
    """

    def __init__(self) -> None:
        self.local: frozenset[bytes] = frozenset()
        self._sent: dict[bytes, set[bytes]] = {}
        self._station: dict[bytes, bytes] = {}

    def see(self, station: bytes | None, source: bytes) -> None:
        """Take note of a packet's link-layer and network-layer source."""
        if station is None:
            return
        sent = self._sent.get(station)
        if sent is None:
            if len(self._sent) >= STATIONS_LIMIT:
                return
            sent = self._sent[station] = set()
        if len(sent) <= ADDRESSES_OF_A_HOST and source not in sent:
            sent.add(source)
            self._station[source] = station

    def identity(self, endpoint: Endpoint) -> str:
        """Return the same text for two addresses that are certainly one host's."""
        if endpoint.is_loopback:
            return LOOPBACK
        if endpoint.host in self.local:
            return "this host"
        station = self._station.get(endpoint.host)
        if station is not None and any(station) and _is_one_host(self._sent[station]):
            return f"station {station.hex(':')}"
        return endpoint.address


def _is_one_host(addresses: set[bytes]) -> bool:
    if len(addresses) > ADDRESSES_OF_A_HOST:
        return False
    v4 = [a for a in addresses if len(a) != IPV6]
    networks = {a[:8] for a in addresses if len(a) == IPV6 and not a.startswith(LINK_LOCAL)}
    return len(v4) <= 1 and len(networks) <= 1
