"""Many captures explained by the workers of a Dask cluster; each opens its own files.

A task is one capture, and the same each time it is run: where a worker dies, another one runs its tasks, and makes anew
what it had not handed over. What comes of a task is kept by its place in the list, once.
"""

from __future__ import annotations

import logging
import pickle
import queue
import secrets
import tempfile
import time
import zlib
from concurrent.futures import CancelledError
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from h3probe.errors import MissingExtraError, UserError
from h3probe.run.batch import KILLED, Outcome, Task, run_task
from h3probe.vantage.remote import shown

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from distributed import Client, Future

CONNECTING: Final = 10
"""Seconds in which a scheduler has to answer."""
BEAT: Final = 2.0
"""Seconds after which somebody looks whether there are workers left, when nothing is heard of them."""
PATIENCE: Final = 300.0
"""Seconds for which a cluster may be without workers: one that grows by itself has none at first."""


@dataclass(frozen=True, slots=True)
class Parcel:
    """What a worker sends back.

    Attributes:
        outcome: What came of the capture; without the file of records, which is on the worker's machine.
        text: What was in that file, compressed; None where it was not wanted.
    """

    outcome: Outcome
    text: bytes | None


def explain_there(task: Task) -> Parcel:
    """Explain one capture on a worker."""
    from distributed import get_worker  # noqa: PLC0415 - an extra

    # Where whoever starts a worker anew removes what the last one left.
    with tempfile.TemporaryDirectory(prefix="h3probe-", dir=get_worker().local_directory) as name:
        place = None if task.text is None else Path(name, "records")
        outcome = run_task(replace(task, text=place))
        text = None if place is None or not place.exists() else zlib.compress(place.read_bytes(), 1)
    return Parcel(replace(outcome, text=None), text)


def on_cluster(tasks: Sequence[Task], address: str, done: Callable[[str], None]) -> Iterator[Outcome]:
    """Explain, and give the outcomes in the order of the tasks, whatever is ready first.

    Args:
        tasks: One for each capture.
        address: The scheduler's.
        done: Called with the name of each capture that is ready.

    Raises:
        UserError: There is no scheduler, or Dask is not installed.
    """
    with closing(_connected(address)) as client:
        run = _Run(client, tasks)
        ready: dict[int, Outcome] = {}
        due = 0
        for number, outcome in run.outcomes():
            done(tasks[number].name)
            ready[number] = outcome
            while due in ready:
                yield ready.pop(due)
                due += 1


def _connected(address: str) -> Client:
    try:
        from distributed import Client  # noqa: PLC0415 - an extra
    except ImportError as error:
        raise MissingExtraError("--engine dask needs Dask") from error
    for name in ("distributed", "distributed.client"):  # what it has to say is told as an outcome
        logging.getLogger(name).setLevel(logging.CRITICAL)
    try:
        return Client(address, timeout=CONNECTING, set_as_default=False, name="h3probe")
    except (OSError, ValueError, TypeError, ImportError) as error:
        why = " ".join(str(error).split()).replace(address, shown(address))
        raise UserError(f"no Dask scheduler answers at {shown(address)}: {why or type(error).__name__}") from None


class _Run:
    """The tasks of one run, on their way."""

    def __init__(self, client: Client, tasks: Sequence[Task]) -> None:
        self._client = client
        self._tasks = tasks
        self._told: queue.SimpleQueue[int] = queue.SimpleQueue()
        self._futures: dict[int, Future[Any]] = {}
        self._name = f"h3probe-{secrets.token_hex(8)}"
        """Keys of this run alone: a capture may have changed since the last one."""
        self._alone_since: float | None = None
        self._is_over = False

    def outcomes(self) -> Iterator[tuple[int, Outcome]]:
        """Each task's number and outcome, once, as they become ready."""
        for number in range(len(self._tasks)):
            self._submit(number, "")
        suspects: list[int] = []
        while self._futures:
            number, found = self._next()
            if isinstance(found, Parcel):
                yield number, self._unpacked(number, found)
            elif _is_killed(found):
                suspects.append(number)
            else:
                yield number, self._failed(number, found)
        # Whoever was on a worker together with a capture that kills it has to be heard alone.
        for number in suspects:
            try:
                self._submit(number, "-alone")
                _, found = self._next()
            except (RuntimeError, ValueError, OSError):  # the client is closed
                found = CancelledError()
            yield number, self._unpacked(number, found) if isinstance(found, Parcel) else self._failed(number, found)

    def _submit(self, number: int, suffix: str) -> None:
        key = f"{self._name}-{number}{suffix}"
        future = self._client.submit(explain_there, self._tasks[number], key=key, pure=False)
        self._futures[number] = future
        future.add_done_callback(lambda _: self._told.put(number))

    def _next(self) -> tuple[int, Parcel | BaseException]:
        """The next task that has ended, and how."""
        while True:
            number = None if self._is_over else self._heard()
            if number is not None and (found := self._result(number)) is not None:
                self._alone_since = None
                del self._futures[number]  # its worker may forget it
                return number, found
            if self._is_over or self._is_abandoned():
                self._is_over = True  # and nobody is waited for once more
                number = next(iter(self._futures))
                self._futures.pop(number).cancel()
                return number, UserError("the cluster has no workers any more")

    def _heard(self) -> int | None:
        """A task that is said to have ended; None where nothing was heard for a while."""
        try:
            number = self._told.get(timeout=BEAT)
        except queue.Empty:
            return None
        return number if number in self._futures else None

    def _result(self, number: int) -> Parcel | BaseException | None:
        """What a task ended with; None where its worker died with it, and it is being made again."""
        from distributed import TimeoutError as NotYetError  # noqa: PLC0415 - loaded already

        try:
            found: Any = self._futures[number].result(timeout=BEAT)
        except NotYetError:
            self._told.put(number)
            return None
        except Exception as error:  # noqa: BLE001 - whatever happened there
            return error
        return found if isinstance(found, Parcel) else TypeError("a worker with another h3probe")

    def _is_abandoned(self) -> bool:
        """Whether there have been no workers for longer than it takes a cluster to get new ones."""
        try:
            if self._client.nthreads():
                self._alone_since = None
                return False
        except (OSError, TimeoutError):
            pass
        now = time.monotonic()
        if self._alone_since is None:
            self._alone_since = now
        return now - self._alone_since >= PATIENCE

    def _unpacked(self, number: int, parcel: Parcel) -> Outcome:
        place = self._tasks[number].text
        if place is None or parcel.text is None:
            return parcel.outcome
        place.write_bytes(zlib.decompress(parcel.text))
        return replace(parcel.outcome, text=place)

    def _failed(self, number: int, error: BaseException) -> Outcome:
        task = self._tasks[number]
        if _is_killed(error):
            return task.failed(KILLED)
        if isinstance(error, CancelledError):
            return task.failed("the cluster gave it up, or its scheduler is gone")
        if isinstance(error, UserError):
            return task.failed(str(error))
        if isinstance(error, ImportError | pickle.UnpicklingError) or "deserialization" in str(error):
            return task.failed("the cluster cannot load it: its processes need this version of h3probe[cluster]")
        return task.failed(f"the worker that read it failed: {type(error).__name__}")


def _is_killed(error: BaseException | Parcel) -> bool:
    from distributed import KilledWorker  # noqa: PLC0415 - loaded already

    return isinstance(error, KilledWorker)
