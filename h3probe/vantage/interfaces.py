"""The interfaces of this host, by the names a user types."""

from __future__ import annotations

import socket
from typing import TYPE_CHECKING

from h3probe.errors import UserError

if TYPE_CHECKING:
    from collections.abc import Iterable


def by_name() -> dict[str, int]:
    """Every interface there is now, with its index."""
    return {name: index for index, name in socket.if_nameindex()}


def indexes(wanted: Iterable[str]) -> list[int]:
    """The indexes of these interfaces.

    Raises:
        UserError: There is no such interface; the line lists those there are.
    """
    known = by_name()
    found = []
    for name in wanted:
        if name not in known:
            raise UserError(f"no interface {name!r} here; there are: {', '.join(known) or 'none'}")
        found.append(known[name])
    return found
