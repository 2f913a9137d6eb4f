"""What DNS answers said: which name an address belongs to, and which names advertise HTTP/3."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from h3probe.errors import DecodeError
from h3probe.track.mark import Mark
from h3probe.track.table import BoundedTable
from h3probe.wire.dns import HTTPS, AddressRecord, AliasRecord, ServiceBinding, parse_message

if TYPE_CHECKING:
    from h3probe.events import Endpoint
    from h3probe.wire.packet import UdpDatagram

DNS_PORTS = frozenset({53, 5353})
NAMES_PER_ADDRESS = 8
# Resolvers give up on longer chains of CNAMEs; without a limit a hostile answer costs quadratic time.
ALIASES_FOLLOWED = 16


@dataclass(frozen=True, slots=True)
class DnsSighting:
    """An HTTPS or SVCB record in an answer.

    Attributes:
        mark: The answer's packet.
        binding: The record.
        client: Who had asked.
        server: Who answered.
    """

    mark: Mark
    binding: ServiceBinding
    client: Endpoint
    server: Endpoint


class Names:
    """Bounded memory of DNS answers.

    Args:
        limit: The most addresses, and the most names, remembered.

    Attributes:
        asked: Questions seen.
        answered: Answers seen.
    """

    def __init__(self, limit: int = 20_000) -> None:
        self.asked = self.answered = 0
        self._by_address: BoundedTable[bytes, set[str]] = BoundedTable(limit)
        self._bindings: BoundedTable[str, DnsSighting] = BoundedTable(limit)

    def feed(self, datagram: UdpDatagram) -> list[DnsSighting]:
        """Take a datagram from or to a DNS port; return the service bindings in it."""
        if datagram.source.port not in DNS_PORTS:
            self.asked += 1
            return []
        self.answered += 1
        try:
            message = parse_message(datagram.payload)
        except DecodeError:
            return []
        if not message.is_response:
            return []
        asked = {name for name, _ in message.questions}
        aliases = {a.target: a.name for a in message.answers if isinstance(a, AliasRecord)}
        mark = Mark(datagram.frame, datagram.time_ns)
        found: list[DnsSighting] = []
        for answer in message.answers:
            if isinstance(answer, AddressRecord):
                self._address(answer.address, _asked_name(answer.name, aliases, asked))
            elif isinstance(answer, ServiceBinding):
                sighting = DnsSighting(mark, answer, datagram.destination, datagram.source)
                self._binding(_asked_name(answer.name, aliases, asked), sighting)
                found.append(sighting)
        return found

    def _binding(self, name: str, sighting: DnsSighting) -> None:
        """Keep a record about a name's https:// (RFC 9460, 9); of several in one answer one that offers HTTP/3."""
        known = self._bindings.peek(name)
        offered = known is not None and known.mark == sighting.mark and "h3" in known.binding.alpn
        if sighting.binding.qtype == HTTPS and not offered:
            self._bindings.put(name, sighting)

    def _address(self, address: bytes, name: str) -> None:
        names = self._by_address.get(address)
        if names is None:
            names = set()
            self._by_address.put(address, names)
        if len(names) < NAMES_PER_ADDRESS:
            names.add(name)

    def name_of(self, address: bytes) -> str | None:
        """Return the one name that was looked up for an address; None when there are several or none."""
        names = self._by_address.get(address)
        return next(iter(names)) if names is not None and len(names) == 1 else None

    def binding(self, name: str) -> DnsSighting | None:
        """Return the latest HTTPS record seen for a name, or for what it is an alias of (RFC 9460, 2.4.2)."""
        found = self._bindings.get(name)
        for _ in range(ALIASES_FOLLOWED):
            if found is None or found.binding.priority:
                break
            found = self._bindings.get(found.binding.target) or found
        return found


def _asked_name(name: str, aliases: dict[str, str], asked: set[str]) -> str:
    """Follow a chain of aliases back to the name that was asked for."""
    for _ in range(min(len(aliases), ALIASES_FOLLOWED)):
        if name in asked or name not in aliases:
            break
        name = aliases[name]
    return name
