"""How far something is, on standard error: a bar on a terminal, and nothing elsewhere."""

from __future__ import annotations

import sys
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rich.progress import Progress as RichProgress
    from rich.progress import TaskID

STEP_S = 0.1


class Progress:
    """Told how far it is, and shows it.

    Args:
        bar: Where; None for nowhere.
    """

    def __init__(self, bar: RichProgress | None) -> None:
        self._bar = bar
        self._task: TaskID | None = None
        self._done = 0
        self._due = 0.0

    def begin(self, what: str, total: int | None) -> None:
        """Something begins; `total` bytes are to be done, where that is known."""
        if self._bar is not None:
            self._show()
            self._done = 0
            self._task = self._bar.add_task(what, total=total)

    def advance(self, size: int) -> None:
        """So many bytes are done."""
        if self._bar is None:
            return
        self._done += size
        if time.monotonic() >= self._due:
            self._due = time.monotonic() + STEP_S
            self._show()

    def end(self) -> None:
        """Take it away: something else is to be shown."""
        if self._bar is not None:
            self._bar.stop()

    def _show(self) -> None:
        if self._bar is not None and self._task is not None:
            self._bar.update(self._task, completed=self._done)


@contextmanager
def shown_progress() -> Iterator[Progress]:
    """Show a bar while the block lasts, if somebody sits there."""
    if sys.stderr is None or not sys.stderr.isatty():
        yield Progress(None)
        return
    from rich.console import Console  # noqa: PLC0415 - for a terminal alone
    from rich.progress import Progress as RichProgress  # noqa: PLC0415

    with RichProgress(console=Console(stderr=True), transient=True) as bar:
        yield Progress(bar)
