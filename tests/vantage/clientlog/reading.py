"""Recordings of clients' logs, and what is told from them."""

from __future__ import annotations

import os
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from h3probe.events import Told, ToldAltSvc, ToldExchange
from h3probe.vantage.clientlog.file import ClientLogFile

RECORDINGS = Path(__file__).parent / "recordings"

Row = tuple[str, str, str | None, int | None, int | None]


@dataclass(frozen=True, slots=True)
class Reading:
    """What a log tells."""

    told: list[Told]

    @property
    def exchanges(self) -> list[ToldExchange]:
        """Requests and responses, in order of time."""
        return [each for each in self.told if isinstance(each, ToldExchange)]

    @property
    def alt_svc(self) -> list[ToldAltSvc]:
        """Alt-Svc lines, in order of time."""
        return [each for each in self.told if isinstance(each, ToldAltSvc)]

    @property
    def rows(self) -> list[Row]:
        """Method, URL, version, status and the client's port of each exchange."""
        return [(e.method, e.url, e.version, e.status, e.local_port) for e in self.exchanges]


def read(path: Path) -> Reading:
    """Read a log as `explain --client-log` does."""
    told: list[Told] = []
    for event in ClientLogFile(str(path)):
        assert isinstance(event, ToldExchange | ToldAltSvc)
        told.append(event)
    return Reading(told)


def recording(name: str) -> Reading:
    """Read a recording by its name."""
    return read(RECORDINGS / name)


def written(path: Path, text: str, at: str = "2026-11-30T13:20:00") -> Reading:
    """Read a log that was written for a test, and ended at a time (UTC)."""
    path.write_text(text, encoding="utf-8")
    seconds = datetime.fromisoformat(at).replace(tzinfo=UTC).timestamp()
    os.utime(path, (seconds, seconds))
    return read(path)


def utc(time_ns: int) -> str:
    """A time to the second."""
    return datetime.fromtimestamp(time_ns // 1_000_000_000, UTC).strftime("%Y-%m-%dT%H:%M:%S")
