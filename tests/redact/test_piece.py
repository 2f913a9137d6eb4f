"""Pieces that are known, and joined."""

from __future__ import annotations

from h3probe.redact.piece import Joined, Known


class Late:
    """A piece that waits until it is given up."""

    def __init__(self) -> None:
        self.ready = False

    def give_up(self) -> None:
        """Wait no longer."""
        self.ready = True

    def take(self) -> bytes:
        """Return something."""
        return b"late"


def test_joined() -> None:
    """Joined pieces are ready when all are, and give up together."""
    joined = Joined([Known(b"a"), Late(), Known(b"b")])
    assert not joined.ready
    joined.give_up()
    assert joined.ready
    assert joined.take() == b"alateb"
