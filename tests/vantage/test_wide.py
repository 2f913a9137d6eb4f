from __future__ import annotations

import select
import socket
import sys
import time
from typing import TYPE_CHECKING

import pytest

if sys.platform != "linux":
    pytest.skip("what only Linux has", allow_module_level=True)

from h3probe.events import Block, Dropped, Frame, Uncounted
from h3probe.vantage import bulk
from h3probe.vantage.sniff import Sniffer
from tests.vantage.test_sniff import wait_for

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator


class Transfer:
    """Datagrams of one flow on loopback that look like QUIC's short headers."""

    def __init__(self) -> None:
        self._there, self._here = (socket.socket(type=socket.SOCK_DGRAM) for _ in range(2))
        self._there.bind(("127.0.0.1", 0))
        self._here.connect(self._there.getsockname())

    def send(self, count: int, payload: bytes = b"\x41" + bytes(299)) -> None:
        """Send so many; nobody reads them."""
        for _ in range(count):
            self._here.send(payload)

    def close(self) -> None:
        """Close both sockets."""
        self._there.close()
        self._here.close()


@pytest.fixture
def transfer(own_network: None, monkeypatch: pytest.MonkeyPatch) -> Iterator[Transfer]:  # noqa: ARG001 - before it
    """A transfer, on a machine that is never too slow for one."""
    monkeypatch.setattr("h3probe.vantage.bulk.WINDOW_NS", 3600 * 10**9)
    monkeypatch.setattr("h3probe.vantage.bulk._CALM_NS", 3600 * 10**9)
    made = Transfer()
    yield made
    made.close()


def set_apart(sniffer: Sniffer, transfer: Transfer) -> int:
    """Let the sniffer find out that there is a transfer; how many packets that took."""
    sent = bulk.PACKETS
    transfer.send(sent)
    wait_for(sniffer, sent)
    while not sniffer.pause_s:
        assert sniffer.more_waits or select.select([sniffer], [], [], 10)[0]
        sniffer.read()
    sniffer.rest()
    return sent


def lengths(events: Iterable[object]) -> list[tuple[int, int]]:
    """Of each packet, in blocks or not, how many bytes there are and how many there were."""
    found = []
    for event in events:
        if isinstance(event, Frame):
            found.append((len(event.data), event.length))
        elif isinstance(event, Block):
            found += zip(event.captured.tolist(), event.lengths.tolist(), strict=True)
    return found


@pytest.mark.parametrize("large", [0, 1 << 30])
def test_a_transfer_comes_apart_and_cut(transfer: Transfer, monkeypatch: pytest.MonkeyPatch, large: int) -> None:
    """The inside of a transfer comes after what decides, cut to the headers, in blocks or not; nothing is missing."""
    monkeypatch.setattr("h3probe.vantage.wide.LARGE", large)
    with Sniffer() as sniffer:
        sent = set_apart(sniffer, transfer)
        transfer.send(50)
        transfer.send(1, b"\xc0" + bytes(299))
        transfer.send(50)
        wait_for(sniffer, sent + 101)
        assert select.select([sniffer], [], [], 10)[0]
        events = sniffer.rest()
        assert sniffer.statistics() == (sent + 101, 0)
    assert sorted(lengths(events)) == [(160, 342)] * 100 + [(342, 342)]
    assert isinstance(events[0], Frame)
    assert events[0].data[42] == 0xC0
    assert any(isinstance(event, Block) for event in events) == (not large)
    numbers = [event.number for event in events if isinstance(event, Frame)]
    for event in events:
        if isinstance(event, Block):
            numbers += range(event.first, event.first + len(event))
    assert sorted(numbers) == list(range(sent + 1, sent + 102))


def test_what_came_before_the_filter_knew_is_counted(transfer: Transfer) -> None:
    """Packets that were read as a flow became a transfer wait as well, and are given at the end."""
    with Sniffer() as sniffer:
        transfer.send(2 * bulk.PACKETS)
        wait_for(sniffer, 2 * bulk.PACKETS)
        found: list[object] = []
        while len(found) < bulk.PACKETS:
            assert sniffer.more_waits or select.select([sniffer], [], [], 10)[0]
            found += sniffer.read()
        assert lengths([*found, *sniffer.rest()]) == [(342, 342)] * 2 * bulk.PACKETS


def test_a_recording_gets_frames(transfer: Transfer, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where packets are recorded each is a frame, however many there are."""
    monkeypatch.setattr("h3probe.vantage.wide.LARGE", 0)
    with Sniffer() as sniffer:
        sniffer.keep_order(in_blocks=False)
        sent = set_apart(sniffer, transfer)
        transfer.send(50)
        wait_for(sniffer, sent + 50)
        events = sniffer.rest()
    assert [(event.number, event.length) for event in events if isinstance(event, Frame)] == [
        (sent + number, 342) for number in range(1, 51)
    ]


def test_without_numpy_each_packet_is_a_frame(transfer: Transfer, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where numpy cannot be loaded, as by a user who may not read root's Python, a transfer is counted all the same."""
    monkeypatch.setattr("h3probe.vantage.wide.LARGE", 0)
    monkeypatch.setitem(sys.modules, "h3probe.vantage.counting", None)
    monkeypatch.delattr("h3probe.vantage.counting", raising=False)
    with Sniffer() as sniffer:
        sent = set_apart(sniffer, transfer)
        transfer.send(50)
        wait_for(sniffer, sent + 50)
        events = sniffer.rest()
    assert lengths(events) == [(160, 342)] * 50
    assert not any(isinstance(event, Block) for event in events)


def test_everything_comes_whole_where_that_is_wanted(transfer: Transfer) -> None:
    """With every packet asked for, a transfer comes whole and by the one socket."""
    with Sniffer() as sniffer:
        sniffer.keep_everything()
        transfer.send(2 * bulk.PACKETS)
        wait_for(sniffer, 2 * bulk.PACKETS)
        assert lengths(sniffer.rest()) == [(342, 342)] * 2 * bulk.PACKETS


def test_the_losses_of_both_sockets_are_told_apart(transfer: Transfer, monkeypatch: pytest.MonkeyPatch) -> None:
    """What only counts and finds no room is `Uncounted`; of what decides nothing is lost by that."""
    monkeypatch.setattr("h3probe.vantage.two_sockets.WIDE_BLOCKS", (2,))
    with Sniffer() as sniffer:
        sent = set_apart(sniffer, transfer)
        transfer.send(5_000)
        transfer.send(20, b"\xc0" + bytes(299))
        while sniffer.statistics()[0] + sniffer.uncounted < sent + 5_020:
            time.sleep(0.001)
        assert select.select([sniffer], [], [], 10)[0]
        events = sniffer.rest()
        (lost,) = [event for event in events if isinstance(event, Uncounted)]
        assert len(lengths(events)) + lost.count == 5_020
        assert lengths(events).count((342, 342)) == 20
        assert not [event for event in events if isinstance(event, Dropped)]
        assert (sniffer.statistics()[1], sniffer.uncounted) == (0, lost.count)


def test_what_only_counts_waits_for_what_decides(transfer: Transfer, monkeypatch: pytest.MonkeyPatch) -> None:
    """A look takes so much of what only counts, and what decides comes first in each."""
    monkeypatch.setattr("h3probe.vantage.wide.FRAMES_AT_ONCE", 1)
    with Sniffer() as sniffer:
        sent = set_apart(sniffer, transfer)
        transfer.send(3_000)
        transfer.send(1, b"\xc0" + bytes(299))
        wait_for(sniffer, sent + 3_001)
        assert select.select([sniffer], [], [], 10)[0]
        first = lengths(sniffer.read(last=True))
        assert first[0] == (342, 342)
        assert 1 < len(first) < 3_001
        assert len(first) + len(lengths(sniffer.rest())) == 3_001


def test_left_unread_what_only_counts_is_no_loss(transfer: Transfer, monkeypatch: pytest.MonkeyPatch) -> None:
    """When a run ends before all was counted, that is said, and nothing that decides was lost."""
    with Sniffer() as sniffer:
        sent = set_apart(sniffer, transfer)
        monkeypatch.setattr("h3probe.vantage.sniff.REST_S", 0.0)
        transfer.send(5)
        wait_for(sniffer, sent + 5)
        assert sniffer.rest() == [Uncounted(5, "more came than could be counted")]
        assert sniffer.statistics()[1] == 0


def test_more_than_can_be_read_one_by_one(transfer: Transfer, monkeypatch: pytest.MonkeyPatch) -> None:
    """When packets of many small flows pile up, what only counts comes apart, and what decides among it does not."""
    monkeypatch.setattr("h3probe.vantage.bulk.BACKLOG", 100)
    monkeypatch.setattr("h3probe.vantage.bulk.PACKETS", 1 << 30)
    with Sniffer() as sniffer:
        transfer.send(300)
        wait_for(sniffer, 300)
        assert select.select([sniffer], [], [], 10)[0]
        events = sniffer.read(10)
        transfer.send(50)
        transfer.send(1, b"\xc0" + bytes(299))
        wait_for(sniffer, 351)
        found = lengths([*events, *sniffer.rest()])
    assert len(found) == 351
    assert found.count((160, 342)) == 50
