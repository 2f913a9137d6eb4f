"""Records out of NDJSON, as `show.ndjson` writes them."""

from __future__ import annotations

import json
from dataclasses import fields
from typing import Any, get_args

from h3probe import records
from h3probe.show.ndjson import JSON_NAMES

_TYPES: dict[str, Any] = {each.type: each for each in get_args(records.AnyRecord)}
_PARTS: dict[str, Any] = {
    "close": records.Close,
    "process": records.ProcessInfo,
    "evidence": records.Evidence,
    "services": records.AltService,
    "a": records.DifferenceSide,
    "b": records.DifferenceSide,
    "times": records.TimeDifference,
}
"""Fields that are objects, or lists of them."""


def from_json(line: str) -> records.AnyRecord:
    """One record out of one line.

    Raises:
        ValueError: It is no record of this version's.
    """
    try:
        given = json.loads(line)
        cls = _TYPES[given.pop("type")]
        names = {JSON_NAMES.get((cls, field.name), field.name): field.name for field in fields(cls)}
        record: records.AnyRecord = cls(**{names[name]: _part(name, value) for name, value in given.items()})
    except (KeyError, TypeError, AttributeError, RecursionError) as error:
        raise ValueError(f"not a record: {error}") from None
    else:
        return record


def _part(name: str, value: object) -> object:
    part = _PARTS.get(name)
    if part is None or value is None:
        return value
    if isinstance(value, list):
        return [part(**each) for each in value]
    return part(**value) if isinstance(value, dict) else value
