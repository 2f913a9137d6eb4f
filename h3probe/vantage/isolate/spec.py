"""What `--isolate` is asked to change on the way out: the "what if" flags."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

IPV6_MINIMUM_MTU = 1280
"""Bytes; a link that carries less has no IPv6 (RFC 8200, section 5)."""


@dataclass(frozen=True, slots=True)
class IsolateSpec:
    """The flags in force; the default changes nothing.

    Attributes:
        block_udp: Ports whose datagrams vanish; empty means every port, None none. DNS is never blocked.
        reject_udp: Datagrams are refused at once: with ICMP port unreachable, or administratively prohibited.
        reject_ports: Which ports' datagrams are refused; empty means every port.
        loss: Percent of the packets, in each direction, that vanish.
        mtu: Bytes an IP packet may have; None leaves the uplink's.
        delay_ms: Milliseconds added to the round trip, half of it on each way.
        rate_mbit: Megabits a second, in each direction.
        ipv6: Whether there is IPv6, where the host has it.
        https_rr: Whether DNS answers keep their HTTPS and SVCB records.
    """

    block_udp: frozenset[int] | None = None
    reject_udp: Literal["port", "admin"] | None = None
    reject_ports: frozenset[int] = frozenset()
    loss: float = 0.0
    mtu: int | None = None
    delay_ms: float = 0.0
    rate_mbit: float = 0.0
    ipv6: bool = True
    https_rr: bool = True

    def words(self) -> list[str]:
        """Name the flags in force, in the order of the options; empty when nothing is changed."""
        words = []
        if self.block_udp is not None:
            words.append(f"{_udp(self.block_udp)} blocked silently")
        if self.reject_udp is not None:
            how = "port unreachable" if self.reject_udp == "port" else "administratively prohibited"
            words.append(f"{_udp(self.reject_ports)} refused with ICMP {how}")
        if self.loss:
            words.append(f"{self.loss:g} % of the packets lost each way")
        if self.mtu is not None:
            words.append(f"MTU {self.mtu}")
        if self.delay_ms:
            words.append(f"{self.delay_ms:g} ms added to the round trip")
        if self.rate_mbit:
            words.append(f"{self.rate_mbit:g} Mbit/s each way")
        if not self.ipv6:
            words.append("no IPv6")
        if not self.https_rr:
            words.append("no HTTPS records in DNS answers")
        return words

    @property
    def needs_middle(self) -> bool:
        """Whether something stands between the client and the uplink."""
        return self != IsolateSpec(ipv6=self.ipv6)

    @property
    def counts_packets(self) -> bool:
        """Whether packets must have the size they have on a wire, because each is lost or delayed by itself."""
        return bool(self.loss or self.rate_mbit)


def _udp(ports: frozenset[int]) -> str:
    return f"UDP port {', '.join(map(str, sorted(ports)))}" if ports else "UDP"
