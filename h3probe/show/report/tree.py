"""Names and values in a tree: what a packet's fields are shown as."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

MOST = 48
"""Values of one list, and children of one field."""


@dataclass(frozen=True, slots=True)
class Field:
    """A field.

    Attributes:
        name: What it is; of the program's own words, or a protocol's.
        value: What it holds, as text that may be hostile.
        children: What it is made of.
    """

    name: str
    value: str = ""
    children: tuple[Field, ...] = ()

    @classmethod
    def of(cls, name: str, *parts: tuple[str, object] | Field, value: str = "") -> Field:
        """Make a field with children; those whose value is None are left out."""
        children = (part if isinstance(part, Field) else _leaf(*part) for part in parts)
        return cls(name, value, tuple(child for child in children if child is not None)[:MOST])


def _leaf(name: str, value: object) -> Field | None:
    return None if value is None else Field(name, str(value))


def listed(values: Iterable[object]) -> str | None:
    """Values with commas between them, a long list cut; None for none."""
    texts = [str(value) for value in values]
    more = f" and {len(texts) - MOST} more" if len(texts) > MOST else ""
    return ", ".join(texts[:MOST]) + more or None
