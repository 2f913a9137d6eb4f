"""Where the engine's output goes: the console, or NDJSON."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Protocol

from h3probe.packing import Shelf

if TYPE_CHECKING:
    from collections.abc import Iterable

    from h3probe.records import AnyRecord, Moment
    from h3probe.show.console import Console

# What the console shows of the records.
SHOWN_AT_END = frozenset({"finding", "verdict", "expectation", "summary"})
# Lines held beyond the limit: what is known late, as that QUIC is ready, is not far from its place.
HELD_MORE = 500


class Output(Protocol):
    """What a run of the engine talks to."""

    @property
    def wants_moments(self) -> bool:
        """Whether anything comes of moments; if not, nobody need make them."""

    def moments(self, moments: Iterable[Moment]) -> None:
        """Show what happened."""

    def records(self, records: Iterable[AnyRecord]) -> None:
        """Take settled records."""

    def note(self, text: str) -> None:
        """Say something that is no result."""

    def close(self) -> None:
        """Everything has been said."""


class JsonOutput:
    """NDJSON on standard output; what is no result goes to standard error."""

    wants_moments = False

    def __init__(self) -> None:
        from h3probe.show.ndjson import NdjsonWriter  # noqa: PLC0415 - only where it is used

        self._writer = NdjsonWriter(sys.stdout)

    def moments(self, moments: Iterable[Moment]) -> None:
        """The contract has no moments."""

    def records(self, records: Iterable[AnyRecord]) -> None:
        """Print them at once."""
        self._writer.write(*records)

    def note(self, text: str) -> None:
        """Say it where it does not disturb the records."""
        print(f"h3probe: {text}", file=sys.stderr, flush=True)  # noqa: T201 - the program's own words

    def close(self) -> None:
        """Nothing is held back."""


class ConsoleOutput:
    """Lines for people: the timeline as it happens, the findings and verdicts at the end.

    Args:
        timeline_limit: The most lines of the timeline that are printed; None for all.
        live: Whether lines are printed as they come.
    """

    wants_moments = True

    def __init__(self, timeline_limit: int | None = None, *, live: bool = True) -> None:
        from h3probe.show.console import Console  # noqa: PLC0415 - imports rich

        self.console: Console = Console(sys.stdout)
        self._limit = timeline_limit
        self._shown = 0
        self._hidden = 0
        self._records: Shelf[AnyRecord] = Shelf()
        self._live = live
        self._held: list[Moment] = []

    def moments(self, moments: Iterable[Moment]) -> None:
        """Print a line each, up to the limit; of a file in order of time, which is known only at its end."""
        if self._live:
            self._print(moments)
        elif self._limit is None or len(self._held) < self._limit + HELD_MORE:
            self._held += moments
        else:
            self._hidden += len(list(moments))

    def _print(self, moments: Iterable[Moment]) -> None:
        for moment in moments:
            if self._limit is not None and self._shown >= self._limit:
                self._hidden += 1
                continue
            self._shown += 1
            self.console.moment(moment)

    def records(self, records: Iterable[AnyRecord]) -> None:
        """Keep what is shown at the end."""
        for record in records:
            if record.type in SHOWN_AT_END:
                self._records.append(record)

    def note(self, text: str) -> None:
        """A dim remark."""
        self.console.note(text)

    def close(self) -> None:
        """Print the end of the story."""
        from h3probe.show.end import render_end  # noqa: PLC0415 - imports rich

        self._print(sorted(self._held, key=lambda moment: moment.time_ns))
        if self._hidden and self._limit != 0:
            self.console.note(f"… and {self._hidden} lines more; --timeline all shows them")
        render_end(self.console, self._records)


def make_output(*, as_json: bool, timeline_limit: int | None = None, live: bool = True) -> Output:
    """Return the output that was asked for."""
    return JsonOutput() if as_json else ConsoleOutput(timeline_limit, live=live)
