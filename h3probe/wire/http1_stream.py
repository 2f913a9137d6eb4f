"""One direction of an HTTP/1.1 connection, read for the heads of its messages (RFC 9112)."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final, Literal

from h3probe.errors import DecodeError
from h3probe.wire.http1 import parse_request_head, parse_response_head
from h3probe.wire.http_fields import Request, Response, request, response

if TYPE_CHECKING:
    from collections import deque

    from h3probe.wire.http1 import Headers

Where = Literal["head", "body", "chunk", "trailers", "rest"]

LONGEST_LINE: Final = 8 << 10
REQUESTS_LIMIT: Final = 1024
"""Requests that may wait for their response at the same time."""
_CHUNK_SIZE: Final = re.compile(rb"([0-9A-Fa-f]{1,15})[ \t]*(?:;.*)?")
_ORIGIN: Final = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://([^/?#]*)(.*)", re.DOTALL)
_LENGTH: Final = re.compile(r"[0-9]{1,18}")


class Http1Reader:
    """Reads one direction, from its first byte on; messages are numbered from 0, responses as their requests.

    Args:
        from_client: Which one.
        asked: The methods of the requests whose responses have not come: the client's reader fills it, the server's
            empties it, as the method says whether a response has a body.

    Attributes:
        held: Bytes that wait for the rest of a head or a line.
    """

    __slots__ = ("_asked", "_buffer", "_from_client", "_number", "_skip", "_where")

    def __init__(self, *, from_client: bool, asked: deque[str]) -> None:
        self._from_client = from_client
        self._asked = asked
        self._buffer = bytearray()
        self._where: Where = "head"
        self._skip = 0
        self._number = 0

    @property
    def held(self) -> int:
        """Bytes that wait for the rest of a head or a line."""
        return len(self._buffer)

    def feed(self, data: bytes) -> list[Request | Response]:
        """Take the next bytes of the direction.

        Returns:
            The heads that they complete.

        Raises:
            DecodeError: This is no HTTP/1.1: nothing more can be said of the direction.
        """
        heads: list[Request | Response] = []
        self._buffer += data
        while self._step(heads):
            pass
        return heads

    def _step(self, heads: list[Request | Response]) -> bool:
        """Take one part of a message; whether there may be another."""
        if self._where == "rest":
            self._buffer.clear()
        if not self._buffer:
            return False
        if self._where == "head":
            head = self._request() if self._from_client else self._response()
            if head is None:
                return False
            heads += head
            return True
        if self._skip:
            skipped = min(self._skip, len(self._buffer))
            del self._buffer[:skipped]
            self._skip -= skipped
            return not self._skip
        if self._where == "body":
            self._where = "head"
            return True
        return self._line()

    def _line(self) -> bool:
        """Take a line between chunks (RFC 9112, 7.1)."""
        line, end, _ = self._buffer.partition(b"\n")
        if not end:
            if len(self._buffer) > LONGEST_LINE:
                raise DecodeError("a line between chunks that does not end")
            return False
        del self._buffer[: len(line) + 1]
        line = line.removesuffix(b"\r")
        if self._where == "trailers":
            self._where = "trailers" if line else "head"
            return True
        size = _CHUNK_SIZE.fullmatch(line)
        if size is None:
            raise DecodeError("no chunk")
        length = int(size[1], 16)
        self._where = "chunk" if length else "trailers"
        self._skip = length + 2 if length else 0
        return True

    def _request(self) -> list[Request | Response] | None:
        head = parse_request_head(bytes(self._buffer))
        if head is None:
            return None
        del self._buffer[: head.head_length]
        if len(self._asked) >= REQUESTS_LIMIT:
            raise DecodeError("requests that nobody answers")
        self._asked.append(head.method)
        self._body(head.headers, otherwise="head")
        if head.method == "CONNECT":
            self._where = "rest"
        number, self._number = self._number, self._number + 1
        absolute = _ORIGIN.fullmatch(head.target)
        scheme, authority, path = absolute.groups() if absolute is not None else ("https", "", head.target)
        fields = [(":method", head.method), (":scheme", scheme), (":path", path or "/")]
        if authority:
            fields.append((":authority", authority))
        elif head.method == "CONNECT":
            fields.append((":authority", head.target))
        found = request(number, _encoded([*fields, *head.headers]))
        return [found] if found is not None else []

    def _response(self) -> list[Request | Response] | None:
        head = parse_response_head(bytes(self._buffer))
        if head is None:
            return None
        del self._buffer[: head.head_length]
        number, interim = self._number, head.status < 200 and head.status != 101
        if not interim:
            if not self._asked:
                raise DecodeError("a response that nobody asked for")
            method = self._asked.popleft()
            self._number += 1
            if head.status == 101 or (method == "CONNECT" and head.status < 300):
                self._where = "rest"  # Another protocol from here on.
            elif method != "HEAD" and head.status not in (204, 304):
                self._body(head.headers, otherwise="rest")
        found = response(number, _encoded([(":status", str(head.status)), *head.headers]))
        return [found] if found is not None else []

    def _body(self, headers: Headers, *, otherwise: Where) -> None:
        """Know how long the body is (RFC 9112, 6.3); where nothing says it, go on to `otherwise`."""
        codings = [value.lower() for name, value in headers if name == "transfer-encoding"]
        lengths = {value.strip() for name, value in headers if name == "content-length"}
        self._where, self._skip = otherwise, 0
        if codings:
            if codings[-1].rpartition(",")[2].strip() != "chunked":
                self._where = "rest"
                return
            self._where = "chunk"
        elif lengths:
            length = lengths.pop()
            if lengths or not _LENGTH.fullmatch(length):
                raise DecodeError("a length that is none")
            self._where, self._skip = ("body", int(length)) if int(length) else ("head", 0)


def _encoded(fields: list[tuple[str, str]]) -> list[tuple[bytes, bytes]]:
    return [(name.encode("latin-1"), value.encode("latin-1", "replace")) for name, value in fields]
