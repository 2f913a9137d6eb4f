"""The Alt-Svc header field (RFC 7838, section 3), all of its grammar, and a reason for each part that breaks it."""

from __future__ import annotations

import ipaddress
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Sequence

DEFAULT_MAX_AGE: Final = 24 * 60 * 60
# RFC 9111, section 1.2.2: a larger delta-seconds is taken as this.
_LONGEST: Final = 2**31

_TOKEN: Final = re.compile(r"[!#$%&'*+\-.^_`|~0-9A-Za-z]+")
_PERCENT: Final = re.compile(r"%([0-9A-Fa-f]{2})")
_REG_NAME: Final = re.compile(r"(?:[A-Za-z0-9._~!$&'()*+,;=-]|%[0-9A-Fa-f]{2})*")
_QUOTED_PAIR: Final = re.compile(r"\\(.)", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Alternative:
    """One alternative service.

    Attributes:
        protocol: The ALPN name, percent-decoded (`h3`).
        host: Empty when it is the origin's own; an IPv6 address without its brackets.
        port: 1-65535.
        max_age: In seconds from the response on (`ma`).
        persist: Whether it outlives a change of network.
    """

    protocol: str
    host: str
    port: int
    max_age: int = DEFAULT_MAX_AGE
    persist: bool = False


@dataclass(frozen=True, slots=True)
class AltSvc:
    """What the Alt-Svc lines of one response say together.

    Attributes:
        clear: Whether all alternatives are to be forgotten; then there are none here either (section 3).
        alternatives: In the server's order of preference.
        invalid: For each part that breaks the grammar: that part as sent, and why.
    """

    clear: bool
    alternatives: tuple[Alternative, ...]
    invalid: tuple[str, ...]


class _BrokenError(ValueError):
    """Why a part cannot be used."""


def parse(values: Sequence[str]) -> AltSvc:
    """Read the Alt-Svc field lines of a response, in their order; raises nothing, the result says what is wrong."""
    clear = False
    alternatives = []
    invalid = []
    for value in values:
        for element in _split(value, ","):
            if element == "clear":  # case-sensitive (section 3)
                clear = True
                continue
            try:
                alternatives.append(_alternative(element))
            except _BrokenError as reason:
                invalid.append(f"{element}: {reason}")
    return AltSvc(clear, () if clear else tuple(alternatives), tuple(invalid))


def _split(text: str, separator: str) -> list[str]:
    """The parts between separators that stand outside quotes, stripped; empty ones are left out (RFC 9110, 5.6.1)."""
    parts = []
    begin = 0
    quoted = escaped = False
    for position, character in enumerate(text):
        if escaped:
            escaped = False
        elif quoted:
            escaped = character == "\\"
            quoted = character != '"'
        elif character == '"':
            quoted = True
        elif character == separator:
            parts.append(text[begin:position])
            begin = position + 1
    parts.append(text[begin:])
    return [stripped for part in parts if (stripped := part.strip(" \t"))]


def _alternative(element: str) -> Alternative:
    # Empty parameters, such as a final `;` makes, are no harm: RFC 9110, section 5.6.6, allows them.
    service, *parameters = _split(element, ";") or [""]
    protocol, equals, authority = service.partition("=")
    if not equals or element.startswith(";"):
        raise _BrokenError("no `=` between protocol and authority")
    host, port = _authority(_unquote(authority))
    max_age, persist = DEFAULT_MAX_AGE, False
    for parameter in parameters:
        name, equals, value = parameter.partition("=")
        if not equals or not _TOKEN.fullmatch(name):
            raise _BrokenError(f"no parameter: {parameter}")
        if value.startswith('"'):
            value = _unquote(value)
        elif not _TOKEN.fullmatch(value):
            raise _BrokenError(f"the value of {name} is neither a token nor in quotes")
        if name.lower() == "ma":
            max_age = _seconds(value)
        elif name.lower() == "persist":  # any other value than 1 is to be ignored (section 3.1)
            persist = value == "1"
    return Alternative(_protocol(protocol), host, port, max_age, persist)


def _protocol(text: str) -> str:
    """A protocol name: a token in which any other octet, and `%`, is percent-encoded (section 3)."""
    if not _TOKEN.fullmatch(text):
        raise _BrokenError("the protocol is no token")
    if "%" in _PERCENT.sub("", text):
        raise _BrokenError("a `%` in the protocol that encodes nothing")
    decoded = _PERCENT.sub(lambda match: chr(int(match[1], 16)), text)
    return "".join(c if " " <= c <= "~" else f"\\x{ord(c):02x}" for c in decoded)


def _unquote(text: str) -> str:
    """The inside of a quoted-string (RFC 9110, section 5.6.4)."""
    if not text.startswith('"'):
        raise _BrokenError("the authority is not in quotes")
    inside = text[1:-1]
    bare = _QUOTED_PAIR.sub("", inside)
    if len(text) < 2 or not text.endswith('"') or bare.endswith("\\") or '"' in bare:
        raise _BrokenError("a quoted string that does not end where it should")
    return _QUOTED_PAIR.sub(r"\1", inside)


def _authority(text: str) -> tuple[str, int]:
    host, colon, port = text.rpartition(":")
    if not colon:
        raise _BrokenError("no port")
    if not (port.isascii() and port.isdigit()) or len(port) > 5 or not 1 <= int(port) <= 65535:
        raise _BrokenError("the port is not a number from 1 to 65535")
    if host.startswith("["):
        return _ipv6(host), int(port)
    if not _REG_NAME.fullmatch(host):
        raise _BrokenError("the host is neither a name nor an address; IPv6 needs brackets")
    return host, int(port)


def _ipv6(host: str) -> str:
    try:
        address = ipaddress.IPv6Address(host[1:-1])
    except ValueError:
        raise _BrokenError("the host in brackets is no IPv6 address") from None
    if not host.endswith("]") or address.scope_id is not None:  # RFC 3986 knows no zones
        raise _BrokenError("the host in brackets is no IPv6 address")
    return str(address)


def _seconds(text: str) -> int:
    if not (text.isascii() and text.isdigit()):
        raise _BrokenError("ma is no number of seconds")
    return _LONGEST if len(text) > 10 else min(int(text), _LONGEST)
