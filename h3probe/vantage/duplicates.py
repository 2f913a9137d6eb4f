"""Recognises one packet that is seen on several interfaces: a bridge and its ports, a bond, both ends of a veth."""

from __future__ import annotations

from dataclasses import dataclass, field

WINDOW_NS = 100_000_000
"""How long a packet is remembered, at least: longer than a queue holds it between two interfaces of one host."""

LIMIT = 65_536
"""Packets remembered, at most."""

_HEAD = 96
_TAIL = 16
_TCP = 6
_UDP = 17


@dataclass(slots=True)
class Duplicates:
    """A bounded table of the packets seen lately. Sans-IO: times come in with the packets.

    A packet that was sent once may be seen once in every place; sent again, it is seen again in a place where it was
    seen before. So it was really sent as often as the place that saw it most often says, and whatever does not raise
    that number is a duplicate. A real retransmission is therefore never taken for one.

    Attributes:
        count: Duplicates recognised so far.
    """

    window_ns: int = WINDOW_NS
    limit: int = LIMIT
    count: int = 0
    # Two generations in place of an order by age: the older one is dropped whole, after a window or half the limit.
    _young: dict[int, dict[object, int]] = field(default_factory=dict)
    _old: dict[int, dict[object, int]] = field(default_factory=dict)
    _since_ns: int = 0

    def seen(self, place: object, time_ns: int, packet: bytes) -> bool:
        """Note a packet, and say whether it is a copy of one that was already counted elsewhere.

        Args:
            place: Where it was seen: anything hashable that tells interfaces (and directions) apart.
            time_ns: When.
            packet: The IP packet, from its first byte on; what cannot be read is compared as it is.
        """
        self._age(time_ns)
        key = fingerprint(packet)
        places = self._young.get(key) or self._old.get(key)
        if places is None:
            self._young[key] = {place: 1}
            return False
        times = places.get(place, 0) + 1
        duplicate = times <= max(places.values())
        places[place] = times
        self.count += duplicate
        return duplicate

    def _age(self, time_ns: int) -> None:
        # Packets of several processors come a little out of order, and a clock that was set makes a leap either way.
        age = abs(time_ns - self._since_ns)
        if age >= self.window_ns or len(self._young) >= self.limit // 2:
            self._old = self._young if age < 2 * self.window_ns else {}
            self._young = {}
            self._since_ns = time_ns


def fingerprint(packet: bytes) -> int:
    """A hash of what no interface changes on a packet's way through one host.

    Left out are the fields that routers rewrite (IPv4: TOS, TTL and checksum; IPv6: traffic class, flow label and hop
    limit) and the checksum of TCP and UDP, which stays unfinished until a network card completes it. Of the payload the
    beginning and the end are enough: QUIC and TLS encrypt both.
    """
    version = packet[0] >> 4 if packet else 0
    if version == 4 and len(packet) >= 20:
        start, end = (packet[0] & 15) * 4, int.from_bytes(packet[2:4])
        fixed, protocol = packet[2:8] + packet[9:10] + packet[12:start], packet[9]
        if packet[6] & 0x1F or packet[7]:
            protocol = 0  # a later fragment: no transport header, so no checksum either
    elif version == 6 and len(packet) >= 40:
        start, end = 40, 40 + int.from_bytes(packet[4:6])
        fixed, protocol = packet[4:7] + packet[8:40], packet[6]
    else:
        return hash(packet)
    # Ethernet pads short packets on one interface and not on another. An aggregate may state no length at all.
    end = min(end, len(packet)) if end > start else len(packet)
    head = packet[start : min(start + _HEAD, end)]
    if protocol == _TCP:
        head = head[:16] + head[18:]
    elif protocol == _UDP:
        head = head[:6] + head[8:]
    return hash((fixed, head, packet[max(start + _HEAD, end - _TAIL) : end]))
