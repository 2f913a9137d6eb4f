"""What the logs of all clients have in common: URLs, origins, and what must not be told of them."""

from __future__ import annotations

import re
from typing import Final
from urllib.parse import urlsplit

from h3probe.wire.http1 import REDACTED
from h3probe.wire.urls import is_origin

LONGEST_URL: Final = 2048
LONGEST_ERROR: Final = 512
DEFAULT_PORTS: Final = {"https": 443, "http": 80, "wss": 443, "ws": 80}
_QUERY_PART: Final = re.compile(r"[^&;]+")


def origin_and_url(url: str) -> tuple[str, str] | None:
    """An URL's origin, `https://host:port`, and the URL without user information and the values of its query.

    Returns:
        None where it is no HTTP URL, or its host is longer than any can be.
    """
    try:
        parts = urlsplit(url[:LONGEST_URL])
        host, port = parts.hostname, parts.port
    except ValueError:
        return None
    default = DEFAULT_PORTS.get(parts.scheme)
    if not host or default is None:
        return None
    place = f"[{host}]" if ":" in host else host
    scheme = {"wss": "https", "ws": "http"}.get(parts.scheme, parts.scheme)
    query = "?" + _QUERY_PART.sub(_name_only, parts.query) if parts.query else ""
    written = f"{place}:{port}" if port is not None else place
    origin = f"{scheme}://{place}:{default if port is None else port}"
    return (origin, f"{scheme}://{written}{parts.path or '/'}{query}") if is_origin(origin) else None


def _name_only(part: re.Match[str]) -> str:
    name, equals, _ = part[0].partition("=")
    return f"{name}={REDACTED}" if equals else REDACTED
