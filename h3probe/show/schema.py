"""The JSON Schema of the output, generated from the dataclasses in `h3probe.records`."""

from __future__ import annotations

import dataclasses
import inspect
import types
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

from h3probe import records
from h3probe.show.ndjson import JSON_NAMES

DIALECT = "https://json-schema.org/draft/2020-12/schema"

_SCALARS: dict[object, str] = {str: "string", int: "integer", float: "number", bool: "boolean", type(None): "null"}


def json_schema() -> dict[str, Any]:
    """Describe one line of NDJSON.

    Returns:
        A JSON Schema (2020-12): `oneOf` all record types, told apart by `type`; every field is required, none
        but these is allowed; each record and each nested object stands in `$defs`.
    """
    definitions: dict[str, Any] = {}
    choices = [_reference(record, definitions) for record in get_args(records.AnyRecord)]
    return {
        "$schema": DIALECT,
        "title": "h3probe output",
        "description": f"One line of `h3probe explain --json` or `h3probe watch --json`, contract version "
        f"{records.SCHEMA_VERSION}. A value that is not known is null.",
        "oneOf": choices,
        "$defs": definitions,
    }


def _reference(cls: type, definitions: dict[str, Any]) -> dict[str, Any]:
    """Point to the definition of a dataclass, writing it first if need be."""
    name = getattr(cls, "type", cls.__name__)
    if name not in definitions:
        definitions[name] = {}  # holds the place, in the order of the records
        definitions[name] = _object(cls, definitions)
    return {"$ref": f"#/$defs/{name}"}


def _object(cls: type, definitions: dict[str, Any]) -> dict[str, Any]:
    properties: dict[str, Any] = {}
    if issubclass(cls, records.Record):
        properties["type"] = {"const": getattr(cls, "type")}  # noqa: B009 - each subclass has it, the base has not
    hints = get_type_hints(cls, include_extras=True)
    for field in dataclasses.fields(cls):
        name = JSON_NAMES.get((cls, field.name), field.name)
        properties[name] = _described(hints[field.name], name, definitions)
    return {
        "type": "object",
        "description": inspect.cleandoc(cls.__doc__ or ""),
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }


def _described(hint: object, name: str, definitions: dict[str, Any]) -> dict[str, Any]:
    """The schema of a field; its description is the string beside its type."""
    if get_origin(hint) is not Annotated:
        return _type(hint, definitions)
    bare, description = get_args(hint)
    return {**_type(bare, definitions), "description": description.removesuffix(f"; `{name}` in JSON")}


def _type(hint: object, definitions: dict[str, Any]) -> dict[str, Any]:
    """The schema of a type; null joins the other type's own keywords, or stands beside its reference."""
    origin, arguments = get_origin(hint), get_args(hint)
    if origin in {Union, types.UnionType}:
        (inner,) = [_type(argument, definitions) for argument in arguments if argument is not type(None)]
        return _nullable(inner)
    if origin is Literal:
        return {"enum": list(arguments)}
    if origin is list:
        return {"type": "array", "items": _type(arguments[0], definitions)}
    if origin is dict:
        return {"type": "object", "additionalProperties": _type(arguments[1], definitions)}
    if isinstance(hint, type) and dataclasses.is_dataclass(hint):
        return _reference(hint, definitions)
    return {"type": _SCALARS[hint]}


def _nullable(schema: dict[str, Any]) -> dict[str, Any]:
    if "enum" in schema:
        return {"enum": [*schema["enum"], None]}
    if "type" in schema:
        return {**schema, "type": [schema["type"], "null"]}
    return {"anyOf": [schema, {"type": "null"}]}
