"""HTTP/1.1 on a TCP connection: heads rewritten one after the other, bodies as many letters."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final, Literal

from h3probe.errors import DecodeError
from h3probe.redact import http1
from h3probe.redact.side import CLEAR_LIMIT
from h3probe.wire.http1 import connect_target, connect_udp_target, parse_request_head

if TYPE_CHECKING:
    from h3probe.redact.mapping import Mapping
    from h3probe.redact.side import Side, Step

HEAD_END: Final = re.compile(rb"\n\r?\n")
_UNTIL_ASKED: Final = 1 << 60  # the length of a body that is not told in advance
_LENGTH: Final = re.compile(rb"(?im)^content-length[ \t]*:[ \t]*(\d{1,12})[ \t]*\r?$")


class Http1Messages:
    """Rewrites the messages of one connection.

    Attributes:
        asked: What the next response answers; None where no request waits for one.
    """

    def __init__(self, mapping: Mapping) -> None:
        self._mapping = mapping
        self.asked: Literal["tunnel", "message"] | None = None

    def step(self, side: Side, other: Side, *, from_client: bool) -> Step:
        """Rewrite the head, or what is there of the body, that one direction goes on with."""
        if side.body_left:
            length = min(side.body_left, len(side.waiting))
            side.body_left -= length
            side.made += b"x" * length
            del side.waiting[:length]
            return "moved"
        if from_client and self.asked is not None:
            # What comes next depends on the answer.
            return "waits" if other.tail is None else "ends"
        if not from_client and self.asked is None:
            # The rest of the request may come later.
            return "waits" if other.waiting else "ends"
        start = 0
        while start < min(4, len(side.waiting)) and side.waiting[start] in b"\r\n":
            start += 1
        end = HEAD_END.search(side.waiting, max(start, side.searched - 3))
        side.searched = 0 if end else len(side.waiting)
        if end is None:
            return "waits"
        data = bytes(side.waiting[: end.end()])
        side.made += data[:start] + http1.head(data[start:], self._mapping)
        del side.waiting[: len(data)]
        return self._request(side, other, data) if from_client else self._response(side, data[start:])

    def _request(self, side: Side, other: Side, data: bytes) -> Step:
        try:
            head = parse_request_head(data)
            udp = head is not None and connect_udp_target(head) is not None
            tunnel = head is not None and connect_target(head) is not None
        except DecodeError:
            self.asked = "message"
            return "ends"
        self.asked = "tunnel" if tunnel or udp else "message"
        if other.body_left > CLEAR_LIMIT:
            other.body_left = 0
        length = _LENGTH.search(data)
        if length is not None:
            side.body_left = int(length[1])
        elif not data.startswith((b"GET ", b"HEAD ", b"CONNECT ", b"OPTIONS ", b"DELETE ", b"TRACE ")):
            return "ends"
        return "moved"

    def _response(self, side: Side, data: bytes) -> Step:
        status = int(data[9:12]) if data[9:12].isdigit() else 0
        if 100 <= status < 200 and status != 101:
            return "moved"
        asked, self.asked = self.asked, None
        if asked == "tunnel" and 200 <= status < 300:
            return "tunnel"
        if status == 101:
            return "opaque"
        length = _LENGTH.search(data)
        if length is not None:
            side.body_left = int(length[1])
        elif status not in (204, 304):
            side.body_left = _UNTIL_ASKED
        return "moved"
