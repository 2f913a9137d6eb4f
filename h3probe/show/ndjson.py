"""Records as NDJSON: one JSON object a line, described by `show.schema`."""

from __future__ import annotations

import dataclasses
import json
from functools import cache
from types import NoneType
from typing import TYPE_CHECKING, Any, TextIO

from h3probe.records import IcmpRecord

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

    from h3probe.records import AnyRecord

JSON_NAMES: dict[tuple[type, str], str] = {(IcmpRecord, "sender"): "from"}
"""Fields whose name in JSON is a Python keyword."""

_PLAIN = frozenset({str, int, bool, NoneType})
"""Types that most fields are of, and that stay as they are."""

DECIMALS = 9
"""Clocks count nanoseconds; digits below them come from binary fractions."""


def to_json(record: AnyRecord, *, ascii_only: bool = False) -> str:
    r"""One record as one compact line, without its line end.

    Args:
        record: Any record.
        ascii_only: Write other characters as `\uXXXX` too.

    Returns:
        A JSON object: `type`, `id`, `at`, `time`, then the record's own fields in the order of the schema.
        Characters that a terminal could take for commands, or that hide others, are written as `\uXXXX`, so a
        line may be printed as it is; parsing gives the original back.
    """
    fields = {"type": record.type, **_fields(record)}
    line = _encoder(ascii_only).encode(fields)
    # `json` escapes U+0000 to U+001F alone; the others stand only inside strings, where an escape is as good.
    return line if line.isprintable() else "".join(c if c.isprintable() else _escape(c) for c in line)


class NdjsonWriter:
    """Writes records to a text stream, each one at once.

    A stream that is not UTF-8 (a pipe on Windows) gets ASCII, since JSON has no other encoding.
    """

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._ascii_only = (stream.encoding or "utf-8").lower().replace("_", "-") not in {"utf-8", "utf8"}

    def write(self, *records: AnyRecord) -> None:
        """Write a line each, and flush them.

        Raises:
            BrokenPipeError: The reader is gone; nothing is wrong, and nothing more can be written.
        """
        for record in records:
            self._stream.write(to_json(record, ascii_only=self._ascii_only) + "\n")
        self._stream.flush()


@cache
def _encoder(ascii_only: bool) -> json.JSONEncoder:  # noqa: FBT001 - what it is looked up by
    return json.JSONEncoder(ensure_ascii=ascii_only, separators=(",", ":"), allow_nan=False)


@cache
def _names(cls: type[Any]) -> tuple[tuple[str, str], ...]:
    """Each field of a record class and its name in JSON, in the order of the output."""
    return tuple((field.name, JSON_NAMES.get((cls, field.name), field.name)) for field in dataclasses.fields(cls))


def _fields(value: DataclassInstance) -> dict[str, Any]:
    found = {written: getattr(value, name) for name, written in _names(type(value))}
    for written, field in found.items():
        if type(field) not in _PLAIN:
            found[written] = _plain(field)
    return found


def _plain(value: object) -> object:
    """What `json` takes: dataclasses become objects, floats are rounded, the rest stays."""
    if isinstance(value, float):
        return round(value, DECIMALS) + 0.0  # the addition turns -0.0 into 0.0
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return _fields(value)
    return value


def _escape(character: str) -> str:
    r"""`\uXXXX`, twice above U+FFFF (RFC 8259, 7)."""
    units = character.encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{units[i] << 8 | units[i + 1]:04x}" for i in range(0, len(units), 2))
