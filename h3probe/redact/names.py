"""Names for names: letters, as many as there were, label by label."""

from __future__ import annotations

import ipaddress
import re
from typing import TYPE_CHECKING, Final

from h3probe.diagnose.grouping import ECH_PUBLIC_NAMES

if TYPE_CHECKING:
    from collections.abc import Iterator

LETTERS: Final = b"abcdefghijklmnopqrstuvwxyz"

# Ends of names that name nobody: special-use domains (RFC 6761, 6762, 7686, 8375, 9476, 9462). And names that ECH puts
# in front of others: who reads them must know that they are not the origin's.
RESERVED: Final = frozenset(
    {name[at:] for name in ECH_PUBLIC_NAMES for at in range(len(name)) if at == 0 or name[at - 1] == "."}
) | frozenset(
    {"localhost", "local", "test", "example", "invalid", "internal", "onion", "alt", "arpa", "home.arpa",
     "in-addr.arpa", "ip6.arpa", "resolver.arpa"}
)  # fmt: skip
# Labels of protocols (RFC 8552), and ports in front of them (RFC 9460, 2.3).
_ATTRLEAF: Final = re.compile(r"_(?:\d{1,5}|https?|tcp|udp|dns|dns-sd|services|quic)")
_WORD: Final = re.compile(rb"[^\s]+")
# Letters and numbers with what stands around them; nothing with a dot, a slash, an @ or two colons within.
_PLAIN_WORD: Final = re.compile(rb"[\"'(\[{]*(?:\w{1,32}:)?\w{1,32}[\"')\]},;:!?=]*\.?|\W+", re.ASCII)


def letter_candidates(length: int, draw: Iterator[int]) -> Iterator[bytes]:
    """Words of so many letters."""
    while True:
        yield bytes(LETTERS[next(draw) % 26] for _ in range(length))


def suffixes(name: str) -> Iterator[str]:
    """A name, and each name that it ends in."""
    while name:
        yield name
        name = name.partition(".")[2]


def is_attrleaf(label: str) -> bool:
    """Whether a label names a protocol or a port."""
    return _ATTRLEAF.fullmatch(label) is not None


def literal(host: bytes) -> bytes | None:
    """The address that a host is written as, packed; an IPv6 address may stand in brackets."""
    try:
        return ipaddress.ip_address(host.decode("ascii").removeprefix("[").removesuffix("]")).packed
    except (ValueError, UnicodeDecodeError):
        return None


def words(text: bytes) -> Iterator[tuple[int, int, bool]]:
    """The words of a sentence: where each begins and ends, and whether it is an ordinary word or a small number."""
    for match in _WORD.finditer(text):
        yield match.start(), match.end(), _PLAIN_WORD.fullmatch(match.group()) is not None
