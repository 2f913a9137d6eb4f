"""Heads of HTTP/1.x messages (RFC 9112), seen in plain text on their way to a proxy or an origin.

Only what names the parties and the outcome is kept. Credentials are replaced before anything else
sees them.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final
from urllib.parse import unquote_to_bytes

from h3probe.errors import DecodeError

Headers = tuple[tuple[str, str], ...]
"""Names in lower case, and values, in the order sent."""

MAX_HEAD: Final = 64 << 10
REDACTED: Final = "…"
_CREDENTIALS: Final = frozenset({"authorization", "proxy-authorization", "cookie", "set-cookie"})

_METHODS: Final = (
    b"GET ",
    b"CONNECT ",
    b"POST ",
    b"HEAD ",
    b"PUT ",
    b"DELETE ",
    b"OPTIONS ",
    b"PATCH ",
    b"TRACE ",
)
_LONGEST_METHOD: Final = max(map(len, _METHODS))

_TOKEN: Final = rb"[!#$%&'*+\-.^_`|~0-9A-Za-z]+"
_REQUEST_LINE: Final = re.compile(rb"(" + _TOKEN + rb") ([\x21-\x7e\x80-\xff]+) HTTP/(1\.[0-9])")
_STATUS_LINE: Final = re.compile(rb"HTTP/(1\.[0-9]) ([1-9][0-9]{2})(?: ([^\r\n]*))?")
# Every proper prefix of a request line is a token, then a target, then the version.
_REQUEST_PREFIX: Final = re.compile(_TOKEN + rb"(?: (?:[\x21-\x7e\x80-\xff]+(?: [HTP/1.0-9]{0,8}\r?)?)?)?")
_HEAD_END: Final = re.compile(rb"\n\r?\n")
_FIELD_NAME: Final = re.compile(_TOKEN)
_HOST: Final = re.compile(r"[A-Za-z0-9._~!$&'()*+,;=%-]{1,255}")
_IPV6: Final = re.compile(r"[0-9A-Fa-f:.]{2,45}")
_MASQUE_UDP: Final = re.compile(r"(?:https?://[^/?#]*)?/\.well-known/masque/udp/([^/?#]{1,1024})/([0-9]{1,5})/?")
_USER_INFO: Final = re.compile(r"^([A-Za-z][A-Za-z0-9+.-]*://)?[^/?#]*@")


@dataclass(frozen=True, slots=True)
class RequestHead:
    """A request line and its header fields.

    Attributes:
        method: As sent.
        target: As sent, in any of the four forms of RFC 9112, section 3.2; user information replaced.
        version: `HTTP/1.1` or `HTTP/1.0`.
        headers: Credentials replaced.
        head_length: Bytes up to and with the empty line.
    """

    method: str
    target: str
    version: str
    headers: Headers
    head_length: int


@dataclass(frozen=True, slots=True)
class ResponseHead:
    """A status line and its header fields.

    Attributes:
        status: 100-999.
        reason: As sent, possibly empty.
        version: `HTTP/1.1` or `HTTP/1.0`.
        headers: Credentials replaced.
        head_length: Bytes up to and with the empty line.
    """

    status: int
    reason: str
    version: str
    headers: Headers
    head_length: int


def looks_like_request(data: bytes) -> bool:
    """Whether `data` begins as a request with a usual method does, or could once more of it has come."""
    start = data[:_LONGEST_METHOD].lstrip(b"\r\n")
    return start.startswith(_METHODS) or (
        0 < len(start) < _LONGEST_METHOD and any(method.startswith(start) for method in _METHODS)
    )


def parse_request_head(data: bytes) -> RequestHead | None:
    """Read the head of a request from the first bytes of a stream; None when more of it must come first.

    Raises:
        DecodeError: This cannot be an HTTP/1 request, or its head is longer than `MAX_HEAD`.
    """
    found = _split_head(data, _REQUEST_PREFIX)
    if found is None:
        return None
    line, fields, length = found
    match = _REQUEST_LINE.fullmatch(line)
    if match is None:
        raise DecodeError("no HTTP/1 request line")
    method, target, version = (part.decode("latin-1") for part in match.groups())
    return RequestHead(method, _USER_INFO.sub(rf"\1{REDACTED}@", target), f"HTTP/{version}", _headers(fields), length)


def parse_response_head(data: bytes) -> ResponseHead | None:
    """Read the head of a response from the first bytes of a stream; None when more of it must come first.

    Raises:
        DecodeError: This cannot be an HTTP/1 response, or its head is longer than `MAX_HEAD`.
    """
    if not data.startswith(b"HTTP/1."[: len(data)]):
        raise DecodeError("no HTTP/1 status line")
    found = _split_head(data, None)
    if found is None:
        return None
    line, fields, length = found
    match = _STATUS_LINE.fullmatch(line)
    if match is None:
        raise DecodeError("no HTTP/1 status line")
    version, status, reason = match.groups()
    text = (reason or b"").decode("latin-1")
    return ResponseHead(int(status), text, f"HTTP/{version.decode('ascii')}", _headers(fields), length)


def connect_target(head: RequestHead) -> tuple[str, int] | None:
    """Host and port of a CONNECT request (RFC 9110, section 9.3.6), or None.

    An IPv6 address comes without its brackets, a name in lower case.
    """
    if head.method != "CONNECT":
        return None
    host, colon, port = head.target.rpartition(":")
    if not colon:
        return None
    if host.startswith("[") and host.endswith("]"):
        host = host[1:-1]
        if not _IPV6.fullmatch(host):
            return None
    elif not _HOST.fullmatch(host):
        return None
    return _with_port(host, port)


def connect_udp_target(head: RequestHead) -> tuple[str, int] | None:
    """Host and port of a request to proxy UDP (RFC 9298, sections 2 and 3.2), or None.

    An IPv6 address comes without percent-encoding or brackets, a name in lower case.
    """
    match = _MASQUE_UDP.fullmatch(head.target)
    if head.method != "GET" or match is None:
        return None
    upgrades = [value for name, value in head.headers if name == "upgrade"]
    if "connect-udp" not in (token.strip().lower() for value in upgrades for token in value.split(",")):
        return None
    host = unquote_to_bytes(match[1]).decode("latin-1")
    if not _HOST.fullmatch(host) and not _IPV6.fullmatch(host):
        return None
    return _with_port(host, match[2])


def _with_port(host: str, port: str) -> tuple[str, int] | None:
    if not (port.isascii() and port.isdigit() and len(port) <= 5 and 0 < int(port) <= 65535):
        return None
    return host.lower(), int(port)


def _split_head(data: bytes, prefix: re.Pattern[bytes] | None) -> tuple[bytes, list[bytes], int] | None:
    """First line, other lines, and length of a head; None when it is not complete.

    An empty line before the first one is skipped (RFC 9112, section 2.2), a bare LF ends a line too.
    """
    start = 0
    while data[start : start + 1] in (b"\r", b"\n") and start < 4:
        start += 1
    end = _HEAD_END.search(data, start, MAX_HEAD)
    if end is None:
        if len(data) >= MAX_HEAD:
            raise DecodeError(f"an HTTP/1 head of more than {MAX_HEAD} bytes")
        if prefix is not None:
            line = data[start:].split(b"\n", 1)[0]
            if line and not prefix.fullmatch(line):
                raise DecodeError("no HTTP/1 request line")
        return None
    lines = [line.removesuffix(b"\r") for line in data[start : end.start()].split(b"\n")]
    return lines[0], lines[1:], end.end()


def _headers(lines: list[bytes]) -> Headers:
    """Header fields: a folded line continues the one before (RFC 9112, section 5.2), one without a name is none."""
    fields: list[tuple[str, list[bytes]]] = []
    for line in lines:
        if line[:1] in (b" ", b"\t"):
            if fields:
                fields[-1][1].append(line.strip(b" \t"))
            continue
        name, colon, value = line.partition(b":")
        name = name.strip(b" \t")
        if colon and _FIELD_NAME.fullmatch(name):
            fields.append((name.decode("ascii").lower(), [value.strip(b" \t")]))
        else:
            fields.append(("", []))  # so that what is folded onto it goes with it
    return tuple(
        (name, REDACTED if name in _CREDENTIALS else b" ".join(value).decode("latin-1"))
        for name, value in fields
        if name
    )
