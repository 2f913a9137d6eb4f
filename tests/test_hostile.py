"""Hostile traffic beside an honest connection: the right answer for that one, whatever comes between."""

from __future__ import annotations

from dataclasses import fields, replace
from itertools import islice, repeat
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from h3probe.engine import Engine
from h3probe.events import Frame
from h3probe.records import FindingRecord, QuicRecord, RaceRecord, TcpRecord, VerdictRecord
from h3probe.vantage.files import open_capture
from h3probe.wire.packet import PacketDecoder, TcpSegment, UdpDatagram
from h3probe.wire.quic.packets import LongPacket, split_datagram
from tests.hostile import AIMED, AIMED_AT_TCP, TRAFFIC, aimed, up
from tests.track import builders

if TYPE_CHECKING:
    from collections.abc import Container, Iterable, Iterator

    from h3probe.events import Endpoint
    from h3probe.records import AnyRecord

CAPTURES = Path(__file__).parents[1] / "captures"
HONEST = ("jdk26-client-any", "jdk26-udp-closed-client-any", "curl-retry")
# What changes with whatever else is in a capture.
NUMBERED = {"id", "first_packet", "quic", "tcp", "connections", "evidence", "at", "frame"}
STATIONS = bytes.fromhex("0200000000020200000000ff")
"""Link-layer addresses of hosts that are not the honest one."""
HANDSHAKE = range(2, 10)
"""Places of the frames of TCP handshakes, from the SYN on, in the recordings that something is aimed at."""
BETWEEN = 15
"""Hostile frames between two honest ones."""


def honest(name: str) -> list[Frame]:
    """The frames of a recording."""
    with open_capture(CAPTURES / f"{name}.pcap") as reader:
        return [event for event in reader if isinstance(event, Frame)]


def mixed(frames: list[Frame], hostile: Iterator[Frame], between: int, where: Container[int] = ()) -> Iterator[Frame]:
    """The honest frames, with hostile ones of the same moments between them, numbered anew; `where`, or everywhere."""
    number = 0
    for place, frame in enumerate(frames):
        for each in (frame, *islice(hostile, between if not where or place in where else 0)):
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


def ends(frames: list[Frame], kind: type[TcpSegment | UdpDatagram]) -> tuple[Endpoint, Endpoint]:
    """Both ends of the first connection of a kind."""
    decoder = PacketDecoder()
    first = next(fact for fact in map(decoder.decode, frames) if isinstance(fact, kind))
    return first.source, first.destination


@pytest.mark.parametrize("traffic", TRAFFIC)
@pytest.mark.parametrize("name", HONEST)
def test_honest_connections_are_told_as_if_they_were_alone(name: str, traffic: str) -> None:
    """Hostile frames between those of a recording change nothing of what is said about its client and server."""
    frames = honest(name)
    hosts = frozenset({"127.0.0.1", "[::1]", "::1"})
    alone = story(frames, hosts)
    assert alone
    assert story(mixed(frames, TRAFFIC[traffic](), BETWEEN), hosts) == alone


@pytest.mark.parametrize("traffic", AIMED)
@pytest.mark.parametrize("name", ["jdk26-client-any", "jdk26-udp-closed-client-any"])
def test_what_is_aimed_at_honest_connections_blindly(name: str, traffic: str) -> None:
    """Somebody who knows addresses and ports, and sees no packet, changes nothing of what is said about them."""
    frames = honest(name)
    hosts = frozenset({"127.0.0.1"})
    over_tcp = ends(frames, TcpSegment)
    hostile = aimed(ends(frames, UdpDatagram), over_tcp)[traffic]
    while_tcp_begins = HANDSHAKE if traffic in AIMED_AT_TCP else ()
    assert story(mixed(frames, hostile, BETWEEN, while_tcp_begins), hosts) == story(frames, hosts)


def test_other_bytes_for_an_honest_hello() -> None:
    """Somebody on the path who sends another ClientHello for the same connection ID comes too late."""
    frames = honest("jdk26-client-any")
    first = PacketDecoder().decode(frames[0])
    assert isinstance(first, UdpDatagram)
    (packet,) = split_datagram(first.payload)
    assert isinstance(packet, LongPacket)
    other = builders.initial(builders.client_hello(b"other.example"), number=99, dcid=packet.dcid, scid=packet.scid)
    forged = up(first.source, other, first.destination)
    engine = Engine("test", "pcap")
    records = [record for frame in mixed(frames, repeat(forged), 1) for record in engine.feed(frame)] + engine.finish()
    told = {(r.sni, r.outcome) for r in records if isinstance(r, QuicRecord)}
    assert told == {(None, "established")}
