"""Parts of URLs as h3probe shows them: without what only their two ends should know."""

from __future__ import annotations

import re
from typing import Final

from h3probe.wire.http1 import REDACTED

LONGEST_URL: Final = 2048
# A host is no longer than a name of the DNS; what it may consist of is not judged here.
_ORIGIN: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]{0,31}://[^/?#]{1,255}:([0-9]{1,5})")
_QUERY_PART: Final = re.compile(r"[^&;]+")


def is_origin(text: str) -> bool:
    """Whether a text is `scheme://host:port`, with a port that there is."""
    found = _ORIGIN.fullmatch(text)
    return found is not None and int(found[1]) < 65536


def path_of(target: str) -> str:
    """A path, and the names in its query: their values are left out, and so is a part that is no name and value."""
    path, mark, query = target.partition("?")
    return (path + mark + _QUERY_PART.sub(_name_only, query))[:LONGEST_URL]


def _name_only(part: re.Match[str]) -> str:
    name, equals, _ = part[0].partition("=")
    return f"{name}={REDACTED}" if equals else REDACTED
