"""Many captures, each a story of its own, explained on as many cores as are wanted, or on a cluster."""

from __future__ import annotations

import multiprocessing
import os
import re
import signal
import sys
import tempfile
from collections import Counter
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from h3probe.capture import bundle
from h3probe.errors import CaptureError, UserError
from h3probe.records import FindingRecord, SummaryRecord, VerdictRecord
from h3probe.run.explaining import Asked, explain
from h3probe.vantage import places
from h3probe.vantage.files import STDIN, open_source
from h3probe.vantage.remote import is_url, is_url_of_folder, shown, urls_in

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from concurrent.futures import Future

    from h3probe.records import AnyRecord, Moment, Severity
    from h3probe.show.ndjson import NdjsonWriter

RANK: dict[Severity, int] = {"info": 0, "notice": 1, "problem": 2}
NAMED_SO = re.compile(r"\.pcap(ng)?\d*(\.(gz|zst))?$", re.IGNORECASE)
"""Names of captures; programs that write one after the other put a number behind."""
AT_ONCE = 16
"""Files of a storage that are looked at at the same time, to see whether they are captures."""
KILLED = "the process that read it was killed"
KEPT_VERDICTS = 20
"""Verdicts of a capture that are handed on; the rest are counted."""


@dataclass(slots=True)
class Outcome:
    """What came of one capture.

    Attributes:
        name: The file's, as the output has it.
        error: Why it cannot be explained; None where it was.
        exit_status: What `explain` of it alone exits with.
        packets: How many it has.
        counts: Records by type.
        verdicts: The sentences of the first of them, each with its origin.
        findings: How many of each rule.
        severity: The worst of a finding's; None where there is none.
        text: Its records as NDJSON, where that was asked for; gone with the next outcome.
    """

    name: str
    error: str | None = None
    exit_status: int = 0
    packets: int = 0
    counts: Counter[str] = field(default_factory=Counter)
    verdicts: list[tuple[str, str]] = field(default_factory=list)
    findings: Counter[str] = field(default_factory=Counter)
    severity: Severity | None = None
    text: Path | None = None

    def lines(self) -> Iterator[str]:
        """The records, a line each; none where they were not asked for."""
        if self.text is not None:
            with self.text.open(encoding=_encoding()) as lines:
                yield from lines


def is_folder(name: str) -> bool:
    """Whether this is a folder of captures, and not the folder of one run (`watch -w FOLDER`), which is one capture."""
    if is_url(name):
        return is_url_of_folder(name)
    path = Path(name)
    return places.is_folder(path) and not any(
        places.is_file(path / member) for member in (bundle.CAPTURE, bundle.ENVIRONMENT)
    )


def captures_in(names: Sequence[str]) -> tuple[list[str], int]:
    """The captures that these names stand for: a folder for all in it, at any depth, in order of their names.

    Returns:
        They, and how many other files there were in folders. What is named like a capture is one, be it that it cannot
        be read: whoever has many wants to hear of that one.

    Raises:
        UserError: There is none, or standard input is named, which is one capture and no more.
    """
    found: list[str] = []
    others = 0
    for name in names:
        if name == STDIN:
            raise UserError("- is one capture, and read as it comes: it cannot be one of many")
        if not is_folder(name):
            found.append(name)
            continue
        files = urls_in(name) if is_url(name) else _files_in(Path(name))
        # A storage that is far away answers many at once as fast as one.
        with ThreadPoolExecutor(AT_ONCE if is_url(name) else 1) as pool:
            captures = [file for file, holds in zip(files, pool.map(_is_capture, files), strict=True) if holds]
        found += captures
        others += len(files) - len(captures)
    if not found:
        raise UserError(f"no capture in {', '.join(map(shown, names))}: h3probe reads pcap and pcapng")
    return found, others


def _files_in(folder: Path) -> list[str]:
    try:
        os.scandir(folder).close()  # Below, what may not be read is passed over.
    except OSError as error:
        raise UserError(f"{folder} cannot be read: {error.strerror or error}") from error
    return sorted(str(path) for path in folder.rglob("*") if places.is_file(path))


def _is_capture(name: str) -> bool:
    try:
        open_source(name).__exit__(None, None, None)
    except CaptureError:
        return NAMED_SO.search(name) is not None
    return True


def cores() -> int:
    """How many processes can run at the same time here."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def explain_each(
    asked: Asked,
    jobs: int,
    *,
    scheduler: str | None = None,
    as_json: bool = False,
    done: Callable[[str], None] = lambda _: None,
) -> Iterator[Outcome]:
    """Explain each file of `asked` by itself; the outcomes come in the order of the files, whatever is ready first.

    Args:
        asked: What is asked of each.
        jobs: How many processes; with 1 it is this one.
        scheduler: The address of a Dask cluster's scheduler, whose workers do it instead.
        as_json: Whether the records are wanted too.
        done: Called with the name of each file that is ready, as soon as it is.

    Raises:
        UserError: There is no such cluster, or what it needs is not installed.
    """
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="h3probe-"))) if as_json else None
        tasks = [
            Task(replace(asked, files=(name,)), folder / str(number) if folder else None, _encoding())
            for number, name in enumerate(asked.files)
        ]
        jobs = min(jobs, len(tasks))
        if scheduler is not None:
            from h3probe.run.cluster import on_cluster  # noqa: PLC0415 - an extra

            outcomes = on_cluster(tasks, scheduler, done)
        else:
            outcomes = _here(tasks, done) if jobs == 1 else _elsewhere(tasks, jobs, done, stack)
        for outcome in outcomes:
            yield outcome
            if outcome.text is not None:
                outcome.text.unlink(missing_ok=True)


def _encoding() -> str:
    return sys.stdout.encoding or "utf-8"


@dataclass(frozen=True, slots=True)
class Task:
    """One capture to be explained.

    Attributes:
        asked: With its name alone.
        text: Where its records go, as NDJSON; None where they are not wanted.
        encoding: Of these; standard output's, wherever they are written.
    """

    asked: Asked = field(repr=False)  # which a cluster shows to whoever looks at it; a URL may have credentials
    text: Path | None
    encoding: str

    @property
    def name(self) -> str:
        """The file's."""
        return self.asked.files[0]

    def failed(self, why: str) -> Outcome:
        """What comes of it where nobody could look at the capture."""
        return Outcome(shown(self.name), why, exit_status=2)


def _here(tasks: Sequence[Task], done: Callable[[str], None]) -> Iterator[Outcome]:
    for task in tasks:
        outcome = run_task(task)
        done(task.name)
        yield outcome


def _elsewhere(tasks: Sequence[Task], jobs: int, done: Callable[[str], None], stack: ExitStack) -> Iterator[Outcome]:
    pool = _pool(jobs)
    stack.callback(pool.shutdown, wait=True, cancel_futures=True)
    running = [pool.submit(run_task, task) for task in tasks]
    for task, future in zip(tasks, running, strict=True):
        future.add_done_callback(lambda _, name=task.name: done(name))  # type: ignore[misc]
    for task, future in zip(tasks, running, strict=True):
        yield _outcome(task, future)


def _outcome(task: Task, future: Future[Outcome]) -> Outcome:
    """What came of a task; where a process was killed, all that were under way are tried once more, one by one."""
    try:
        return future.result()
    except BrokenProcessPool:
        pass
    with _pool(1) as pool:
        try:
            return pool.submit(run_task, task).result()
        except BrokenProcessPool:
            return task.failed(KILLED)


def _pool(jobs: int) -> ProcessPoolExecutor:
    # Not forked: a progress bar has a thread of its own.
    context = multiprocessing.get_context("spawn")
    return ProcessPoolExecutor(jobs, mp_context=context, initializer=_begin)


def _begin() -> None:
    """An interrupt ends a worker without words; whoever waits for it has them."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def run_task(task: Task) -> Outcome:
    """Explain one capture."""
    outcome = Outcome(task.asked.source, text=task.text)
    with ExitStack() as stack:
        writer = None
        if task.text is not None:
            from h3probe.show.ndjson import NdjsonWriter  # noqa: PLC0415 - only where it is used

            stream = task.text.open("w", encoding=task.encoding)
            writer = NdjsonWriter(stack.enter_context(stream))
        try:
            outcome.exit_status = explain(task.asked, _Gathering(outcome, writer)).exit_status
        except UserError as error:
            outcome.error, outcome.exit_status = str(error), error.exit_status
    return outcome


class _Gathering:
    """An `Output` that fills in an outcome."""

    wants_moments = False

    def __init__(self, outcome: Outcome, writer: NdjsonWriter | None) -> None:
        self._outcome = outcome
        self._writer = writer

    def moments(self, moments: Iterable[Moment]) -> None:
        """There is no timeline of many captures."""

    def records(self, records: Iterable[AnyRecord]) -> None:
        """Take what a table shows."""
        outcome = self._outcome
        for record in records:
            outcome.counts[record.type] += 1
            match record:
                case VerdictRecord():
                    if len(outcome.verdicts) < KEPT_VERDICTS:
                        outcome.verdicts.append((record.origin or "", record.sentence))
                case FindingRecord():
                    outcome.findings[record.rule] += 1
                    if outcome.severity is None or RANK[record.severity] > RANK[outcome.severity]:
                        outcome.severity = record.severity
                case SummaryRecord():
                    outcome.packets = record.packets
            if self._writer is not None:
                self._writer.write(record)

    def note(self, text: str) -> None:
        """Nothing but results."""

    def close(self) -> None:
        """Nothing is held back."""
