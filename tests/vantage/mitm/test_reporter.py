from __future__ import annotations

import asyncio
import os
import threading
from typing import TYPE_CHECKING

from h3probe.events import Dropped, ProxyLog
from h3probe.vantage.mitm import reporter
from h3probe.vantage.mitm.reporter import Reporter
from h3probe.vantage.proxy_events import parse_event

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    import pytest


def log(number: int, size: int = 0) -> ProxyLog:
    """An event with a number, and a text of some size."""
    return ProxyLog(number, "info", "x" * size)


def never() -> None:
    """Nobody stops reading in these tests."""
    raise AssertionError("the reader is there")


def run(test: Callable[[], object]) -> None:
    """Run a test in an event loop, and what it scheduled after it."""

    async def inner() -> None:
        test()
        await asyncio.sleep(0.05)

    asyncio.run(inner())


def test_in_order_and_whole(tmp_path: Path) -> None:
    """Events come out one a line, in the order in which they were reported, those before the file was known too."""
    path = tmp_path / "events.ndjson"

    def report() -> None:
        reporter = Reporter(never)
        reporter.emit(log(1))
        reporter.emit(log(2))
        reporter.open(os.open(path, os.O_WRONLY | os.O_CREAT))
        reporter.emit(log(3))
        reporter.close()

    run(report)
    assert [parse_event(line) for line in path.read_text().splitlines()] == [log(1), log(2), log(3)]


def test_a_slow_reader_makes_nobody_wait() -> None:
    """With a full pipe events wait in memory, and go on when there is room."""
    ours, theirs = os.pipe()
    sent = [log(number, 1000) for number in range(500)]
    read = bytearray()

    async def report() -> None:
        reporter = Reporter(never)
        reporter.open(theirs)
        for event in sent:
            reporter.emit(event)
        await asyncio.sleep(0.01)
        while len(read.splitlines()) < len(sent):
            read.extend(await asyncio.to_thread(os.read, ours, 65536))
        reporter.close()

    asyncio.run(report())
    os.close(ours)
    assert [parse_event(bytes(line)) for line in read.splitlines()] == sent


def test_what_does_not_fit_is_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    """With nobody reading, memory is bounded, and the reader learns later how much it missed."""
    monkeypatch.setattr(reporter, "LIMIT", 200_000)
    ours, theirs = os.pipe()
    total = 1000

    async def report() -> list[object]:
        under_test = Reporter(never)
        under_test.open(theirs)
        for number in range(total):
            under_test.emit(log(number, 1000))
        read = bytearray()
        found: list[object] = []
        while not any(isinstance(event, Dropped) for event in found):
            read.extend(await asyncio.to_thread(os.read, ours, 65536))
            *lines, rest = read.split(b"\n")
            read = bytearray(rest)
            found += [parse_event(bytes(line)) for line in lines]
            under_test.emit(log(total))
            await asyncio.sleep(0)
        under_test.close()
        return found

    found = asyncio.run(report())
    os.close(ours)
    lost = next(event.count for event in found if isinstance(event, Dropped))
    seen = [event.time_ns for event in found if isinstance(event, ProxyLog) and event.time_ns < total]
    assert seen == list(range(len(seen)))
    assert lost >= total - len(seen) > 0


def test_nobody_reads_any_more() -> None:
    """When the reader is gone that is said once, and nothing is written or kept from then on."""
    ours, theirs = os.pipe()
    broken: list[bool] = []

    def report() -> None:
        reporter = Reporter(lambda: broken.append(True))
        reporter.open(theirs)
        os.close(ours)
        reporter.emit(log(1))
        reporter.flush()
        reporter.emit(log(2))
        reporter.flush()
        reporter.close()

    run(report)
    assert broken == [True]


def test_from_another_thread(tmp_path: Path) -> None:
    """A log line of another thread gets in, too."""
    path = tmp_path / "events.ndjson"

    async def report() -> None:
        reporter = Reporter(never)
        reporter.open(os.open(path, os.O_WRONLY | os.O_CREAT))
        reporter.emit(log(1))
        await asyncio.sleep(0)
        thread = threading.Thread(target=reporter.emit, args=(log(2),))
        thread.start()
        await asyncio.to_thread(thread.join)
        await asyncio.sleep(0.01)
        reporter.close()

    asyncio.run(report())
    assert [parse_event(line) for line in path.read_text().splitlines()] == [log(1), log(2)]
