"""The few fields of HTTP/2 and HTTP/3 messages that h3probe looks at; what else a message says goes no further."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from h3probe.errors import DecodeError
from h3probe.wire.urls import is_origin, path_of

if TYPE_CHECKING:
    from collections.abc import Iterable

LONGEST_VALUE: Final = 4096
"""Characters of a value that are kept."""
_LONGEST_METHOD: Final = 64
_ALT_SVC_LINES: Final = 16


@dataclass(frozen=True, slots=True)
class Request:
    """The head of a request.

    Attributes:
        stream: The stream's number.
        method: As sent.
        scheme: `https`, as a rule; None for CONNECT.
        authority: Without user information.
        path: The values of its query left out; empty for CONNECT.
        alt_used: The alternative service that the client says it uses (RFC 7838, 5).
    """

    stream: int
    method: str
    scheme: str | None
    authority: str
    path: str
    alt_used: str | None = None

    @property
    def origin(self) -> str:
        """`https://host:port`, the port always there."""
        scheme = self.scheme or "https"
        _, colon, port = self.authority.rpartition(":")
        named = colon and port.isascii() and port.isdigit()
        host = self.authority.removesuffix(":")
        return f"{scheme}://{host}" if named else f"{scheme}://{host}:{80 if scheme == 'http' else 443}"

    @property
    def url(self) -> str:
        """The whole URL."""
        return self.origin + self.path


@dataclass(frozen=True, slots=True)
class Response:
    """The head of a response, interim ones included.

    Attributes:
        stream: The stream's number.
        status: 100-999.
        alt_svc: Its Alt-Svc lines, in order.
    """

    stream: int
    status: int
    alt_svc: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Reset:
    """A stream that one side gave up.

    Attributes:
        stream: The stream's number.
        code: The error code.
    """

    stream: int
    code: int


def request(stream: int, fields: Iterable[tuple[bytes, bytes]]) -> Request | None:
    """Read the head of a request; None for trailers.

    Raises:
        DecodeError: There is no authority that makes an origin, or more than one of a pseudo-header field.
    """
    found = _wanted(fields, {b":method", b":scheme", b":authority", b":path", b"host", b"alt-used"})
    if b":method" not in found:
        return None
    authority = found.get(b":authority") or found.get(b"host")
    if not authority:
        raise DecodeError("a request without an authority")
    used = found.get(b"alt-used")
    scheme = found.get(b":scheme")
    made = Request(
        stream,
        found[b":method"][0][:_LONGEST_METHOD],
        scheme[0][:_LONGEST_METHOD].lower() if scheme else None,
        authority[0].rpartition("@")[2],
        path_of(found.get(b":path", [""])[0]),
        used[0][:LONGEST_VALUE] if used else None,
    )
    if not is_origin(made.origin):
        raise DecodeError("a request whose scheme and authority make no origin")
    return made


def response(stream: int, fields: Iterable[tuple[bytes, bytes]]) -> Response | None:
    """Read the head of a response; None for trailers.

    Raises:
        DecodeError: Its status is none.
    """
    found = _wanted(fields, {b":status", b"alt-svc"})
    if b":status" not in found:
        return None
    status = found[b":status"][0]
    if len(status) != 3 or not status.isascii() or not status.isdigit() or status < "100":
        raise DecodeError("a status that is none")
    lines = found.get(b"alt-svc", [])[:_ALT_SVC_LINES]
    return Response(stream, int(status), tuple(line[:LONGEST_VALUE] for line in lines))


def _wanted(fields: Iterable[tuple[bytes, bytes]], names: set[bytes]) -> dict[bytes, list[str]]:
    """The values of the fields of these names.

    Raises:
        DecodeError: A pseudo-header field is there twice (RFC 9113, 8.3; RFC 9114, 4.3).
    """
    found: dict[bytes, list[str]] = {}
    for name, value in fields:
        if bytes(name) in names:
            found.setdefault(bytes(name), []).append(bytes(value).decode("latin-1"))
    for name, values in found.items():
        if name.startswith(b":") and len(values) > 1:
            raise DecodeError("a pseudo-header field that is there twice")
    return found
