"""Names for names: letters, as many as there were, label by label."""

from __future__ import annotations

import ipaddress
import re
from typing import TYPE_CHECKING, Final

from h3probe.diagnose.origin import ECH_PUBLIC_NAMES

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

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
# Letters and numbers with what stands around them; nothing with a dot, a slash, an @ or two colons within, but for
# versions, rates, parts of numbers, and the classes of Java's exceptions.
_PLAIN_WORD: Final = re.compile(
    rb"[\"'(\[{]*(?:(?:\w{1,32}:)?\w{1,32}|HTTP/\d(?:\.\d)?|\d{1,6}\.\d{1,6}|[GMk]bit/s"
    rb"|(?:javax?|jdk|sun)(?:\.\w{1,32}){1,6}(?:Exception|Error))[\"')\]},;:!?=]*\.?|[^\w\x80-\xff]+",
    re.ASCII,
)
_DOMAIN: Final = re.compile(r"(?:[A-Za-z0-9_-]{1,63}\.)+[A-Za-z][A-Za-z0-9-]{1,62}")
# Processes that tell what software is used, and not whose it is.
PROGRAMS: Final = frozenset(
    {b"java", b"curl", b"chromium", b"chrome", b"firefox", b"python", b"python3", b"node", b"nginx", b"squid",
     b"tinyproxy", b"mitmproxy", b"mitmdump", b"h3probe", b"wget", b"mvn", b"gradle"}
)  # fmt: skip


def letter_candidates(length: int, draw: Iterator[int]) -> Iterator[bytes]:
    """Words of so many letters."""
    while True:
        yield bytes(LETTERS[next(draw) % 26] for _ in range(length))


def suffixes(name: str) -> Iterator[str]:
    """A name, and each name that it ends in."""
    while name:
        yield name
        name = name.partition(".")[2]


def reversed_address(labels: Sequence[bytes]) -> tuple[int, bytes] | None:
    """The address that a name in in-addr.arpa or ip6.arpa spells backwards (RFC 1035, 3.5; RFC 3596, 2.5).

    Returns:
        Where in the labels it begins, and the address, with zeros for the parts that a zone's name leaves out; None
        where it is no such name.
    """
    for zone, most, is_part in ((b"in-addr", 4, _is_octet), (b"ip6", 32, _is_nibble)):
        if list(labels[-2:]) != [zone, b"arpa"]:
            continue
        start = end = len(labels) - 2
        while start > 0 and end - start < most and is_part(labels[start - 1]):
            start -= 1
        parts = [labels[at] for at in range(end - 1, start - 1, -1)]
        if not parts:
            return None
        parts += [b"0"] * (most - len(parts))
        return start, bytes(map(int, parts)) if most == 4 else bytes.fromhex(b"".join(parts).decode())
    return None


def reversed_labels(address: bytes) -> list[bytes]:
    """The labels that an address is spelled in, all of them, the last part first."""
    if len(address) == 4:
        return [str(part).encode() for part in reversed(address)]
    return [digit.encode() for digit in reversed(address.hex())]


def _is_octet(label: bytes) -> bool:
    return label.isdigit() and len(label) <= 3 and int(label) < 256 and str(int(label)).encode() == label


def _is_nibble(label: bytes) -> bool:
    return len(label) == 1 and label in b"0123456789abcdef"


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
        yield match.start(), match.end(), is_plain(match.group())


def is_plain(word: bytes) -> bool:
    """Whether a word is an ordinary one, or a number."""
    return _PLAIN_WORD.fullmatch(word) is not None


def is_domain(text: str) -> bool:
    """Whether a word is written as a domain name with a dot in it is."""
    return _DOMAIN.fullmatch(text) is not None and not is_plain(text.encode())
