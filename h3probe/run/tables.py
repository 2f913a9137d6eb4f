"""`--parquet FOLDER`: the records of one capture or of many, as Parquet in a folder."""

from __future__ import annotations

import shutil
import tempfile
from contextlib import ExitStack, contextmanager, suppress
from typing import IO, TYPE_CHECKING, cast

from h3probe.errors import UserError
from h3probe.run.whole_file import ended_in_order, refuse_existing, replacing
from h3probe.show.ndjson import to_json
from h3probe.show.parquet import RECORDS, Tables

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from pathlib import Path
    from typing import BinaryIO

    from h3probe.records import AnyRecord
    from h3probe.run.output import Output

IN_MEMORY = 1 << 20
"""Bytes of a table from which on it waits on the disk until all are whole."""


@contextmanager
def tables_in(folder: Path, *, force: bool, sources: Sequence[str] = ()) -> Iterator[Tables]:
    """Collect records, and write the files when the block has ended well; else there are none.

    Args:
        folder: Made where it is not there, mode 0700; gets `TYPE.parquet` for each record type, mode 0600.
        force: Replace those that are there.
        sources: What the records are from, which nothing replaces.

    Raises:
        UserError: Some are there, or they cannot be written, or pyarrow is not installed.
    """
    places = {name: folder / f"{name}.parquet" for name in RECORDS}
    for place in places.values():
        refuse_existing(str(place), force=force, sources=sources)
    is_new = not folder.exists()
    try:
        folder.mkdir(mode=0o700, exist_ok=True)
    except OSError as error:
        raise UserError(f"{folder} cannot be made: {error.strerror or error}") from error
    with ended_in_order(), ExitStack() as stack:
        if is_new:
            stack.callback(_remove_empty, folder)
        waiting: dict[str, IO[bytes]] = {}

        def opened(name: str) -> BinaryIO:
            waiting[name] = stack.enter_context(tempfile.SpooledTemporaryFile(IN_MEMORY, dir=str(folder)))
            return cast("BinaryIO", waiting[name])

        tables = Tables(opened)
        stack.callback(tables.close)
        yield tables
        tables.close()
        for name, place in places.items():
            waiting[name].seek(0)
            with replacing(place, force=force) as stream:
                shutil.copyfileobj(waiting[name], stream)


def _remove_empty(folder: Path) -> None:
    with suppress(OSError):  # it holds what was asked for
        folder.rmdir()


class TableOutput:
    """An `Output` that hands everything on to another one, and the records to the tables as well.

    Args:
        output: The other one.
        tables: The tables.
        capture: What the records are from.
    """

    def __init__(self, output: Output, tables: Tables, capture: str) -> None:
        self._output = output
        self._tables = tables
        self._capture = capture
        self.wants_moments = output.wants_moments
        self.moments, self.note, self.close = output.moments, output.note, output.close

    def records(self, records: Iterable[AnyRecord]) -> None:
        """Take settled records."""
        records = list(records)
        self._output.records(records)
        for record in records:
            self._tables.add(self._capture, to_json(record))
