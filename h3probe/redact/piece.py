"""Bytes that are rewritten once enough of what belongs to them is known."""

from __future__ import annotations

from typing import Protocol


class Piece(Protocol):
    """A part of a packet that may still wait for another packet."""

    @property
    def ready(self) -> bool:
        """Whether its bytes are known."""

    def give_up(self) -> None:
        """Wait no longer: what is not understood becomes noise. It is ready then."""

    def take(self) -> bytes:
        """Return its bytes, as many as there were; only when it is ready, and once."""


class Known:
    """Bytes that wait for nothing."""

    __slots__ = ("_data",)
    ready = True

    def __init__(self, data: bytes) -> None:
        self._data = data

    def give_up(self) -> None:
        """There is nothing to give up."""

    def take(self) -> bytes:
        """Return them."""
        return self._data


class Joined:
    """Pieces, one behind the other."""

    __slots__ = ("_pieces",)

    def __init__(self, pieces: list[Piece]) -> None:
        self._pieces = pieces

    @property
    def ready(self) -> bool:
        """Whether all of them are."""
        return all(piece.ready for piece in self._pieces)

    def give_up(self) -> None:
        """Give all of them up."""
        for piece in self._pieces:
            piece.give_up()

    def take(self) -> bytes:
        """Return all of them."""
        return b"".join(piece.take() for piece in self._pieces)
