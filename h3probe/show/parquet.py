"""Records as Parquet, for DuckDB, Spark and the like: a table for each record type, with the contract's columns."""

from __future__ import annotations

import dataclasses
import json
import types
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal, Union, get_args, get_origin, get_type_hints

from h3probe import records
from h3probe.errors import MissingExtraError
from h3probe.show.ndjson import JSON_NAMES

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import BinaryIO

    import pyarrow as pa

CAPTURE: Final = "capture"
"""The column with what a record is from: ids are unique within one capture."""
RECORDS: Final[dict[str, type]] = {
    record.type: record for record in get_args(records.AnyRecord) if record is not records.DifferenceRecord
}
"""The record types that become tables: all that are said of one capture."""
GROUP: Final = 10_000
"""Rows of a table that are written at once, and held until then."""
_LARGEST_INT: Final = 2**63 - 1
_SURROGATE: Final = r"\ud"
"""How an escape begins that may stand for half a character, which JSON can hold and Parquet cannot."""


class Tables:
    """Writes records into tables, in the order in which they come.

    Args:
        opened: Gives the stream that the table of a record type is written to.

    Raises:
        MissingExtraError: pyarrow is not installed.
    """

    def __init__(self, opened: Callable[[str], BinaryIO]) -> None:
        try:
            from pyarrow import parquet  # noqa: PLC0415 - an extra
        except ImportError as error:
            raise MissingExtraError("--parquet needs pyarrow") from error
        self._schemas = {name: arrow_schema(record) for name, record in RECORDS.items()}
        self._writers = {
            name: parquet.ParquetWriter(opened(name), schema, compression="zstd")
            for name, schema in self._schemas.items()
        }
        self._rows: dict[str, list[dict[str, Any]]] = {name: [] for name in RECORDS}

    def add(self, capture: str, line: str) -> None:
        """Take a record.

        Args:
            capture: What it is from.
            line: The record as NDJSON.
        """
        fields = json.loads(line)
        if _SURROGATE in line:
            fields = _whole(fields)
        name = fields.pop("type")
        rows = self._rows[name]
        rows.append({CAPTURE: capture.encode("utf-8", "replace").decode(), **fields})
        if len(rows) >= GROUP:
            self._write(name)

    def close(self) -> None:
        """Write what is held, and the end of each table; the second time nothing is left to do."""
        for name, writer in self._writers.items():
            self._write(name)
            writer.close()

    def _write(self, name: str) -> None:
        import pyarrow as pa  # noqa: PLC0415 - loaded already

        rows, self._rows[name] = self._rows[name], []
        if not rows:
            return
        try:
            table = pa.Table.from_pylist(rows, self._schemas[name])
        except (OverflowError, pa.ArrowInvalid):  # no number that means anything is as large
            table = pa.Table.from_pylist([_bounded(row) for row in rows], self._schemas[name])
        self._writers[name].write_table(table)


def arrow_schema(record: type) -> pa.Schema:
    """The columns of a record type: `capture`, then its fields as the contract has them, each with its description."""
    import pyarrow as pa  # noqa: PLC0415 - loaded already, or wanted

    described = {"description": "what the record is from"}
    return pa.schema([pa.field(CAPTURE, pa.string(), nullable=False, metadata=described), *_fields(record)])


def _fields(cls: type) -> list[pa.Field]:
    import pyarrow as pa  # noqa: PLC0415 - loaded already

    hints = get_type_hints(cls, include_extras=True)
    found = []
    for field in dataclasses.fields(cls):
        name = JSON_NAMES.get((cls, field.name), field.name)
        hint, metadata = hints[field.name], None
        if get_origin(hint) is Annotated:
            hint, description = get_args(hint)
            metadata = {"description": description}
        found.append(pa.field(name, _type(hint), metadata=metadata))
    return found


def _type(hint: object) -> pa.DataType:
    import pyarrow as pa  # noqa: PLC0415 - loaded already

    origin, arguments = get_origin(hint), get_args(hint)
    if origin in {Union, types.UnionType}:  # with None: every column may be null
        (inner,) = [_type(argument) for argument in arguments if argument is not type(None)]
        return inner
    if origin is Literal:
        return pa.string()
    if origin is list:
        return pa.list_(_type(arguments[0]))
    if origin is dict:
        return pa.map_(_type(arguments[0]), _type(arguments[1]))
    if isinstance(hint, type) and dataclasses.is_dataclass(hint):
        return pa.struct(_fields(hint))
    return {str: pa.string(), int: pa.int64(), float: pa.float64(), bool: pa.bool_()}[hint]  # type: ignore[index]


def _whole(value: Any) -> Any:  # noqa: ANN401 - what JSON holds
    """The same without halves of characters."""
    if isinstance(value, str):
        return value.encode("utf-8", "replace").decode()
    if isinstance(value, list):
        return [_whole(item) for item in value]
    if isinstance(value, dict):
        return {_whole(name): _whole(item) for name, item in value.items()}
    return value


def _bounded(value: Any) -> Any:  # noqa: ANN401 - the same
    """The same without whole numbers that have no room."""
    if isinstance(value, int) and abs(value) > _LARGEST_INT:
        return None
    if isinstance(value, list):
        return [_bounded(item) for item in value]
    if isinstance(value, dict):
        return {name: _bounded(item) for name, item in value.items()}
    return value
