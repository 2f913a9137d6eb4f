"""What the add-ons say: names, URLs and errors, without what only their two ends should know."""

from __future__ import annotations

import os
import re
from typing import Final

from h3probe.wire.http1 import REDACTED

LONGEST_ERROR: Final = 512
# What mitmproxy quotes of a stream, in Python's spelling, perhaps cut off.
BYTES: Final = re.compile(r"""(?<!\w)b(?:'(?:[^'\\]|\\.)*+(?:'|$)|"(?:[^"\\]|\\.)*+(?:"|$))""", re.DOTALL)
_ERRNO: Final = re.compile(r"\[Errno (-?[0-9]{1,4})\] ?([^,(\[]*)")
_TOKEN: Final = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+")
_QUOTED: Final = re.compile(r'"(?:[^"\\]|\\.)*+"')
_VERSIONS: Final = {"HTTP/2.0": "HTTP/2", "HTTP/3.0": "HTTP/3"}


def host_and_port(host: str, port: int) -> str:
    """`host:port`, an IPv6 host in brackets."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def version(text: str) -> str:
    """An HTTP version as h3probe names it, from the way mitmproxy does (`HTTP/2.0`)."""
    return _VERSIONS.get(text, text)


def plain_error(text: str) -> str:
    """An operating system's error as people know it, out of the text that Python makes of one or of several.

    Any other error stays as it is, but for bytes that are quoted in it, which may be anything.
    """
    found = _ERRNO.search(text)
    said = ""
    if found is not None:
        number = int(found[1])
        said = os.strerror(number) if number > 0 else found[2].strip()
    return said[:1].lower() + said[1:] if said else BYTES.sub(REDACTED, text)[:LONGEST_ERROR]


def is_distrust(text: str) -> bool:
    """Whether a connection failed, by OpenSSL's text or aioquic's, since the server's certificate is not believed.

    An alert about certificates is the server's: it wants one of the client.
    """
    lower = text.lower()
    return "alert" not in lower and ("certificate" in lower or "hostname mismatch" in lower)


def proxy_error(text: str) -> str:
    """The error type of RFC 9209, 2.3, for such an error."""
    lower = text.lower()
    if "refused" in lower:
        return "connection_refused"
    if "timed out" in lower:
        return "connection_timeout"
    return "dns_error" if "name" in lower or "address associated" in lower else "destination_unavailable"


def schemes(challenges: list[str]) -> tuple[str, ...]:
    """The authentication schemes of Proxy-Authenticate lines (RFC 9110, 11.6.1), each once.

    A comma separates challenges and parameters alike; what has no `=` after its first word begins a challenge.
    """
    found: dict[str, None] = {}
    for line in challenges:
        for part in _QUOTED.sub('""', line).split(","):
            match = _TOKEN.match(part.strip())
            if match is not None and not part.strip()[match.end() :].lstrip().startswith("="):
                found[match[0]] = None
    return tuple(found)
