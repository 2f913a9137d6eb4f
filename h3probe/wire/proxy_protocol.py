"""The header of the PROXY protocol, which a load balancer puts before a client's bytes on its way to a server.

https://www.haproxy.org/download/3.0/doc/proxy-protocol.txt: version 1 is a line of text (section 2.1), version 2 is
binary (section 2.2). Who the client is stands in it; only its length is of interest here.
"""

from __future__ import annotations

from typing import Final

_TEXT: Final = b"PROXY "
_LONGEST_TEXT: Final = 107
_BINARY: Final = b"\r\n\r\n\0\r\nQUIT\n"
_LONGEST_BINARY: Final = 4096
"""With all that balancers add to it (a name, a certificate's) it stays below; more is not waited for."""


def header_length(stream: bytes) -> int | None:
    """How many bytes of header a client's stream begins with: 0 for none, None where it has not all come yet."""
    for start in (_TEXT, _BINARY):
        if start.startswith(stream[: len(start)]) and len(stream) < len(start):
            return None
    if stream.startswith(_TEXT):
        end = stream.find(b"\r\n", 0, _LONGEST_TEXT)
        if end < 0:
            return None if len(stream) < _LONGEST_TEXT else 0
        return end + 2
    if stream.startswith(_BINARY):
        if len(stream) < 16:
            return None
        length = 16 + int.from_bytes(stream[14:16])
        if stream[12] >> 4 != 2 or length > _LONGEST_BINARY:
            return 0
        return length if len(stream) >= length else None
    return 0
