"""Hostile traffic beside an honest connection: the right answer for that one, whatever comes between."""

from __future__ import annotations

from dataclasses import fields, replace
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from h3probe.engine import Engine
from h3probe.events import Frame
from h3probe.records import FindingRecord, QuicRecord, RaceRecord, TcpRecord, VerdictRecord
from h3probe.vantage.files import open_capture
from tests.hostile import TRAFFIC

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from h3probe.records import AnyRecord

CAPTURES = Path(__file__).parents[1] / "captures"
HONEST = ("jdk26-client-any", "jdk26-udp-closed-client-any", "curl-retry")
# What changes with whatever else is in a capture.
NUMBERED = {"id", "first_packet", "quic", "tcp", "connections", "evidence", "at", "frame"}
STATIONS = bytes.fromhex("0200000000020200000000ff")
"""Link-layer addresses of hosts that are not the honest one."""
BETWEEN = 15
"""Hostile frames between two honest ones."""


def honest(name: str) -> list[Frame]:
    """The frames of a recording."""
    with open_capture(CAPTURES / f"{name}.pcap") as reader:
        return [event for event in reader if isinstance(event, Frame)]


def mixed(frames: list[Frame], hostile: Iterator[Frame], between: int) -> Iterator[Frame]:
    """The honest frames, with hostile ones of the same moments between them, numbered anew."""
    number = 0
    for frame in frames:
        for each in (frame, *islice(hostile, between)):
            number += 1
            data = each.data if each is frame else STATIONS + each.data[12:]
            yield replace(each, number=number, time_ns=frame.time_ns, data=data)


def story(frames: Iterable[Frame], hosts: frozenset[str]) -> list[tuple[object, ...]]:
    """What is said about the honest hosts, without numbers that count everything."""
    engine = Engine("test", "pcap")
    records: list[AnyRecord] = []
    for frame in frames:
        records += engine.feed(frame)
        engine.take_moments()
    records += engine.finish()
    return sorted((_plain(record) for record in records if _is_about(record, hosts)), key=repr)


def _is_about(record: AnyRecord, hosts: frozenset[str]) -> bool:
    if isinstance(record, QuicRecord | TcpRecord | RaceRecord | VerdictRecord):
        return record.client.rpartition(":")[0] in hosts or record.client in hosts
    return isinstance(record, FindingRecord) and bool(record.origin) and "4433" in str(record.origin)


def _plain(record: AnyRecord) -> tuple[object, ...]:
    kept = [(each.name, getattr(record, each.name)) for each in fields(record) if each.name not in NUMBERED]
    return (record.type, *((name, value) for name, value in kept))


@pytest.mark.parametrize("traffic", TRAFFIC)
@pytest.mark.parametrize("name", HONEST)
def test_honest_connections_are_told_as_if_they_were_alone(name: str, traffic: str) -> None:
    """Hostile frames between those of a recording change nothing of what is said about its client and server."""
    frames = honest(name)
    hosts = frozenset({"127.0.0.1", "[::1]", "::1"})
    alone = story(frames, hosts)
    assert alone
    assert story(mixed(frames, TRAFFIC[traffic](), BETWEEN), hosts) == alone
