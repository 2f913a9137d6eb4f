"""The versions of QUIC and what differs between them before the handshake is done."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

Kind = Literal["initial", "zero-rtt", "handshake", "retry", "version-negotiation", "unknown"]

NEGOTIATION = 0
V1 = 0x00000001
V2 = 0x6B3343CF

_DRAFT = 0xFF000000
_GQUIC = re.compile(rb"[QT]\d{3}")


@dataclass(frozen=True, slots=True)
class Version:
    """A version whose Initial packets can be opened by anyone.

    Attributes:
        number: As in the long header.
        name: `v1`, `v2`, `draft-29`, or the number where it has no name.
        salt: 20 bytes for the Initial secret (RFC 9001, 5.2).
        label_prefix: What the labels `key`, `iv` and `hp` begin with (RFC 9001, 5.1; RFC 9369, 3.3.2).
        long_types: The kind of packet for each value of the two type bits.
        retry_key: 16 bytes for the integrity tag of Retry, None in drafts that had no tag.
        retry_nonce: 12 bytes for the same.
    """

    number: int
    name: str
    salt: bytes
    label_prefix: bytes
    long_types: tuple[Kind, Kind, Kind, Kind]
    retry_key: bytes | None
    retry_nonce: bytes | None


_TYPES_V1: tuple[Kind, Kind, Kind, Kind] = ("initial", "zero-rtt", "handshake", "retry")
_TYPES_V2: tuple[Kind, Kind, Kind, Kind] = ("retry", "initial", "zero-rtt", "handshake")

_SALT_22 = bytes.fromhex("7fbcdb0e7c66bbe9193a96cd21519ebd7a02644a")
_SALT_23 = bytes.fromhex("c3eef712c72ebb5a11a7d2432bb46365bef9f502")
_SALT_29 = bytes.fromhex("afbfec289993d24c9e9786f19c6111e04390a899")
_SALT_V1 = bytes.fromhex("38762cf7f55934b34d179ae6a4c80cadccbb7f0a")
_SALT_V2 = bytes.fromhex("0dede3def700a6db819381be6e269dcbf9bd2ed9")

_RETRY_25 = (bytes.fromhex("4d32ecdb2a2133c841e4043df27d4430"), bytes.fromhex("4d1611d05513a552c587d575"))
_RETRY_29 = (bytes.fromhex("ccce187ed09a09d05728155a6cb96be1"), bytes.fromhex("e54930f97f2136f0530a8c1c"))
_RETRY_V1 = (bytes.fromhex("be0c690b9f66575a1d766b54e368c84e"), bytes.fromhex("461599d35d632bf2239825bb"))
_RETRY_V2 = (bytes.fromhex("8fb4b01b56ac48e260fbcbcead7ccc92"), bytes.fromhex("d86969bc2d7c6d9990efb04a"))


def _like_v1(number: int, salt: bytes, retry: tuple[bytes | None, bytes | None]) -> Version:
    return Version(number, version_name(number), salt, b"quic ", _TYPES_V1, *retry)


def _draft(draft: int) -> Version:
    """A draft of QUIC version 1, from 23 to 34: the salt and the Retry key changed now and then."""
    salt = _SALT_23 if draft < 29 else _SALT_29 if draft < 33 else _SALT_V1
    retry: tuple[bytes | None, bytes | None] = (None, None)
    if draft >= 25:
        retry = _RETRY_25 if draft < 29 else _RETRY_29 if draft < 33 else _RETRY_V1
    return _like_v1(_DRAFT | draft, salt, retry)


def is_gquic(number: int) -> bool:
    """Whether it is one of Google's own versions before the IETF's (`Q043`, `Q050`, `T051`)."""
    return _GQUIC.fullmatch(number.to_bytes(4)) is not None


def is_reserved(number: int) -> bool:
    """Whether it is of the form 0x?a?a?a?a, sent to exercise version negotiation (RFC 9000, 15)."""
    return number & 0x0F0F0F0F == 0x0A0A0A0A


def version_name(number: int) -> str:
    """`v1`, `v2`, `draft-29`, `Q046`, and the number in hex for the rest."""
    if number == V1:
        return "v1"
    if number == V2:
        return "v2"
    if number >> 8 == _DRAFT >> 8 and number & 0xFF:
        return f"draft-{number & 0xFF:02}"
    if is_gquic(number):
        return number.to_bytes(4).decode("ascii")
    return f"0x{number:08x}"


_KNOWN = {
    version.number: version
    for version in (
        _like_v1(V1, _SALT_V1, _RETRY_V1),
        Version(V2, "v2", _SALT_V2, b"quicv2 ", _TYPES_V2, *_RETRY_V2),
        *(_draft(draft) for draft in range(23, 35)),
        # Facebook's mvfst before it took the IETF's numbers: draft 22, draft 27, and that one for experiments.
        _like_v1(0xFACEB001, _SALT_22, (None, None)),
        _like_v1(0xFACEB002, _SALT_23, _RETRY_25),
        _like_v1(0xFACEB00E, _SALT_23, _RETRY_25),
    )
}


def known(number: int) -> Version | None:
    """The version with that number, None if its Initial packets cannot be read."""
    return _KNOWN.get(number)
