"""Who has which address in the two namespaces.

IPv4 is 198.18.0.0/15, set aside for tests of network devices (RFC 2544, RFC 6890), which nobody's own network uses.
IPv6 is documentation space (RFC 3849): unlike a unique local address it counts as global when addresses are selected
(RFC 6724), so that clients prefer IPv6 as they do outside.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

CLIENT_INTERFACE: Final = "eth0"
"""The command's one interface beside its loopback, in C."""
MIDDLE_INTERFACE: Final = "client"
"""The other end of it, in M."""
TAP: Final = "tap0"
"""The uplink's interface, in M."""

CLIENT_MAC: Final = "02:68:33:00:00:02"
MIDDLE_MAC: Final = "02:68:33:00:00:01"
"""Locally administered, and known to both ends, so that neither has to ask."""

DNS_FILTER_PORT: Final = 53053
"""Where C's DNS queries arrive in M, on `Addresses.middle`, when HTTPS records are to be stripped."""
INTERCEPT_PORT: Final = 53080
"""Where C's TCP connections arrive in M, on `Addresses.middle`, when they are intercepted."""


@dataclass(frozen=True, slots=True)
class Addresses:
    """The addresses of one isolation, as text.

    Attributes:
        tap: M's own on the uplink, with the length of its prefix in `tap_prefix`.
        host: The host's loopback, as seen from inside.
        dns: Whatever resolves names on the host.
        client, middle: The two ends of the veth pair, a /30.
        tap6, host6, client6, middle6: The same in IPv6; used where there is IPv6.
    """

    tap: str
    tap_prefix: int
    host: str
    dns: str
    client: str = "198.18.0.2"
    middle: str = "198.18.0.1"
    tap6: str = "2001:db8:6833:1::2"
    host6: str = "2001:db8:6833:1::9"
    client6: str = "2001:db8:6833::2"
    middle6: str = "2001:db8:6833::1"

    def without_middle(self) -> Addresses:
        """Give them for a client that is on the uplink itself."""
        return replace(self, client=self.tap, client6=self.tap6)


PASTA: Final = Addresses(tap="198.18.0.14", tap_prefix=29, host="198.18.0.9", dns="198.18.0.10")
SLIRP: Final = Addresses(tap="198.18.1.100", tap_prefix=24, host="198.18.1.2", dns="198.18.1.3")
"""slirp4netns takes the second, third and hundredth address of its network and lets nobody choose."""
