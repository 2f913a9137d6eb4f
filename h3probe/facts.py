"""Facts: what was seen, said once and never changed."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import dataclass_transform


@dataclass_transform(frozen_default=True, field_specifiers=(field,))
def fact[T](cls: type[T]) -> type[T]:
    """Make a slotted dataclass that is never changed once it is made; the type checker sees to that.

    For what there is more than one of to a packet. Python's own `frozen` sets each field with a call of
    `object.__setattr__`: making one costs five times as much.
    """
    return dataclass(slots=True, unsafe_hash=True)(cls)
