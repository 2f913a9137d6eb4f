"""Parts of URLs as h3probe shows them: without what only their two ends should know."""

from __future__ import annotations

import re
from typing import Final

from h3probe.wire.http1 import REDACTED

LONGEST_URL: Final = 2048
_QUERY_PART: Final = re.compile(r"[^&;]+")


def path_of(target: str) -> str:
    """A path, and the names in its query: their values are left out, and so is a part that is no name and value."""
    path, mark, query = target.partition("?")
    return (path + mark + _QUERY_PART.sub(_name_only, query))[:LONGEST_URL]


def _name_only(part: re.Match[str]) -> str:
    name, equals, _ = part[0].partition("=")
    return f"{name}={REDACTED}" if equals else REDACTED
