"""Addresses for addresses: of the same family and kind, and with as many digits in each part.

The digits keep an address written as text (`CONNECT 10.1.2.3:443`) as long as it was, so that no byte of a stream
moves.
"""

from __future__ import annotations

import ipaddress
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator

    Draw = Iterator[int]
    """Random numbers of 16 bits that depend on the key and on what is replaced alone."""

IPV4: Final = 4
ETHERNET: Final = 6
_TRIES: Final = 256

# What of an address tells its kind (loopback, private, multicast, ...), and so stays: the network's bits.
_KINDS: Final = {
    IPV4: [
        (int(network.network_address), int(network.netmask))
        for network in map(
            ipaddress.IPv4Network,
            ("0.0.0.0/8", "10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "169.254.0.0/16", "172.16.0.0/12",
             "192.0.2.0/24", "192.88.99.0/24", "192.168.0.0/16", "198.18.0.0/15", "198.51.100.0/24",
             "203.0.113.0/24", "224.0.0.0/24", "224.0.0.0/4", "240.0.0.0/4"),
        )
    ],
    16: [
        (int(network.network_address), int(network.netmask))
        for network in map(
            ipaddress.IPv6Network,
            ("::/96", "::ffff:0:0/96", "64:ff9b::/96", "100::/64", "2001::/32", "2001:db8::/32", "2002::/16",
             "2001::/23", "3fff::/20", "5f00::/16", "64:ff9b:1::/48", "fc00::/7", "fec0::/10", "fe80::/64", "fe80::/10",
             "ff02::1:ff00:0/104"),
        )
    ],
}  # fmt: skip
# Addresses that say nothing about anybody: loopback, unspecified, all ones, and the groups of RFC 5771 and RFC 4291.
_KEPT: Final = (
    ipaddress.ip_network("127.0.0.0/8"),
    ipaddress.ip_network("0.0.0.0/32"),
    ipaddress.ip_network("255.255.255.255/32"),
    ipaddress.ip_network("192.0.0.0/24"),
    ipaddress.ip_network("224.0.0.0/24"),
    ipaddress.ip_network("239.255.255.250/32"),
    ipaddress.ip_network("::/127"),
    *(ipaddress.ip_network(f"ff0{scope:x}::/120") for scope in range(1, 15)),
)
# IPv6 prefixes that an IPv4 address stands behind: mapped (RFC 4291, 2.5.5.2) and translated (RFC 6052, 2.1).
EMBEDDING: Final = (bytes(10) + b"\xff\xff", bytes.fromhex("0064ff9b0000000000000000"))


def is_kept(address: bytes) -> bool:
    """Whether an address stands for no host in particular, or for every host itself."""
    return any(len(address) * 8 == n.max_prefixlen and ipaddress.ip_address(address) in n for n in _KEPT)


def prefix_length(address: bytes) -> int:
    """How many bytes of an address name its network: a /24, or a /64."""
    return 3 if len(address) == IPV4 else 8


def candidates(address: bytes, prefix: bytes | None, draw: Draw) -> Iterator[bytes]:
    """Addresses of the same kind and shape, at most `_TRIES` of them.

    Args:
        address: What is to be replaced.
        prefix: The network's replacement; None where that is what is wanted, and what follows is left as it is.
        draw: Where the digits come from.
    """
    size = 1 if len(address) == IPV4 else 2
    network = prefix_length(address)
    first, last = (network, len(address)) if prefix is not None else (0, network)
    kind = _kind(address)
    kept = kind[1].to_bytes(len(address))
    for _ in range(_TRIES):
        made = bytearray(address if prefix is None else prefix + address[network:])
        for at in range(first, last, size):
            part = _same_shape(int.from_bytes(address[at : at + size]), size, next(draw))
            held = int.from_bytes(kept[at : at + size])
            part = part & ~held | int.from_bytes(address[at : at + size]) & held
            made[at : at + size] = part.to_bytes(size)
        found = bytes(made)
        if shape(found) == shape(address) and _kind(found) == kind:
            yield found


def shape(address: bytes) -> tuple[int, ...]:
    """The number of digits of each part; 0 for a part that is nothing, which IPv6 may leave out."""
    if len(address) == IPV4:
        return tuple(len(str(part)) if 0 < part < 255 else part for part in address)
    return tuple((int.from_bytes(address[at : at + 2]).bit_length() + 3) // 4 for at in range(0, 16, 2))


def mac_candidates(address: bytes, draw: Draw) -> Iterator[bytes]:
    """Link-layer addresses: of one station, locally administered; of a group, in the same range."""
    while True:
        made = b"".join(next(draw).to_bytes(2) for _ in range(-(-len(address) // 2)))[: len(address)]
        if len(address) != ETHERNET:
            yield made
        elif address[:2] == b"\x33\x33":
            yield address[:2] + made[2:]
        elif address[:3] == b"\x01\x00\x5e":
            yield address[:3] + bytes((made[3] & 0x7F,)) + made[4:]
        else:
            yield bytes((made[0] & 0xFC | 0x02 | address[0] & 0x01,)) + made[1:]


def is_kept_mac(address: bytes) -> bool:
    """Whether a link-layer address names no station: all zeros, all ones, or a well-known group."""
    return (
        not any(address)
        or address == b"\xff" * len(address)
        or address[:3] == b"\x01\x80\xc2"
        or address[:5] in (b"\x33\x33\0\0\0", b"\x01\x00\x5e\0\0")
    )


def _kind(address: bytes) -> tuple[int, int]:
    """The bits that tell an address's kind, and which bits those are."""
    number = int.from_bytes(address)
    for base, mask in _KINDS[len(address)]:
        if number & mask == base:
            return base, mask
    if len(address) != IPV4 and address[0] == 0xFF:  # a group: its flags and scope (RFC 4291, 2.7)
        return number >> 112 << 112, 0xFFFF << 112
    return 0, 0


def _same_shape(part: int, size: int, drawn: int) -> int:
    """A number with as many digits: decimal in IPv4, hexadecimal in IPv6; nothing, and all ones, stay."""
    if part == 0 or (size == 1 and part == 255):
        return part
    if size == 1:
        low, high = (1, 10) if part < 10 else (10, 100) if part < 100 else (100, 255)
    else:
        digits = (part.bit_length() + 3) // 4
        low, high = 16 ** (digits - 1), 16**digits
    return low + drawn % (high - low)
