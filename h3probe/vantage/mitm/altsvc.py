"""Alt-Svc lines as a reverse proxy passes them on: the alternatives that it stands before lead to it."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from h3probe.wire import altsvc

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

# A list's elements: commas inside of a quoted-string separate nothing (RFC 9110, 5.6.1 and 5.6.4).
_ELEMENT: Final = re.compile(r'(?:"(?:[^"\\]|\\.)*+"?|[^,"])+', re.DOTALL)
_AUTHORITY: Final = re.compile(r'="(?:[^"\\]|\\.)*+"', re.DOTALL)


def rewrite(lines: Sequence[str], host: str, standing: Mapping[tuple[str, int], int]) -> list[str]:
    """Rewrite the lines of one response.

    Everything that is not such an authority stays as it was sent: order, parameters, other alternatives, parts that
    break the grammar. An alternative that the proxy stands before gets its port, and no host: the client knows the
    origin, and so the proxy, by a name of its own.

    Args:
        lines: In their order.
        host: The origin's host, which an authority without one means; an IPv6 address without brackets.
        standing: The port that the proxy listens on, by the host (in lower case) and port that it stands before.
    """
    return [_ELEMENT.sub(lambda found: _element(found[0], host, standing), line) for line in lines]


def _element(element: str, host: str, standing: Mapping[tuple[str, int], int]) -> str:
    parsed = altsvc.parse([element])
    if len(parsed.alternatives) != 1:
        return element
    alternative = parsed.alternatives[0]
    port = standing.get(((alternative.host or host).lower(), alternative.port))
    return element if port is None else _AUTHORITY.sub(f'=":{port}"', element, count=1)
