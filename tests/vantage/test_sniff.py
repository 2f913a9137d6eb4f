from __future__ import annotations

import itertools
import os
import select
import selectors
import socket
import sys
import time
from typing import TYPE_CHECKING

import pytest

from h3probe.errors import PrivilegeError, UserError
from h3probe.events import Block, Dropped, Endpoint, Frame, Uncounted
from h3probe.vantage import bulk, interfaces, synthesis
from h3probe.vantage.sniff import Sniffer
from tests.vantage.conftest import ip
from tests.vantage.test_bpf import IPV4, UDP4, ethernet

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from tests.vantage.conftest import Wire

LOOPBACK = b"\x7f\0\0\x01"


def drained(sniffer: Sniffer, packets: int) -> list[Frame]:
    """All frames, once so many packets have passed the filter: an interface's far end takes a moment."""
    wait_for(sniffer, packets)
    frames = [event for event in sniffer.rest() if isinstance(event, Frame)]
    assert sniffer.statistics()[0] == packets
    return frames


def wait_for(sniffer: Sniffer, packets: int) -> None:
    """Wait until so many packets have passed the filter, and read none."""
    deadline = time.monotonic() + 10
    while sniffer.statistics()[0] < packets and time.monotonic() < deadline:
        time.sleep(0.001)


def send_datagram(payload: bytes) -> tuple[Endpoint, Endpoint]:
    """Send a datagram over loopback to a socket that is there."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as there, socket.socket(type=socket.SOCK_DGRAM) as here:
        there.bind(("127.0.0.1", 0))
        here.bind(("127.0.0.1", 0))
        here.sendto(payload, there.getsockname())
        return Endpoint(LOOPBACK, here.getsockname()[1]), Endpoint(LOOPBACK, there.getsockname()[1])


@pytest.mark.usefixtures("own_network")
def test_datagram_on_loopback_is_seen_once() -> None:
    """Of a datagram's two copies on loopback one is given, with its bytes, the kernel's time, and Ethernet's type."""
    before = time.time_ns()
    with Sniffer() as sniffer:
        source, destination = send_datagram(b"payload")
        (frame,) = drained(sniffer, 1)
    assert frame.data[14:34][12:20] == LOOPBACK * 2
    assert frame.data[34:38] == source.port.to_bytes(2) + destination.port.to_bytes(2)
    assert frame.data[42:] == b"payload"
    assert (frame.number, frame.link_type, frame.length, frame.interface) == (1, 1, len(frame.data), "lo")
    assert before <= frame.time_ns <= time.time_ns()


@pytest.mark.usefixtures("own_network")
def test_refused_datagram_and_its_icmp_error() -> None:
    """A datagram to a closed port is seen with the ICMP error that answers it, in order."""
    with Sniffer(["lo"]) as sniffer:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as here:
            here.sendto(b"anyone?", ("127.0.0.1", 9))
        frames = drained(sniffer, 2)
    assert [frame.data[23] for frame in frames] == [17, 1]
    assert frames[1].data[34:36] == b"\x03\x03"


@pytest.mark.usefixtures("own_network")
def test_aggregate_of_64_kib_comes_whole() -> None:
    """A datagram of the largest size is not cut."""
    payload = os.urandom(65507)
    with Sniffer() as sniffer:
        send_datagram(payload)
        (frame,) = drained(sniffer, 1)
    assert frame.data[42:] == payload


def test_selectable_and_empty(wire: Wire) -> None:
    """A selector wakes up for a packet, and reading gives an empty list when nothing waits."""
    with Sniffer([wire.far]) as sniffer, selectors.DefaultSelector() as selector:
        selector.register(sniffer, selectors.EVENT_READ)
        assert sniffer.read() == []
        assert selector.select(timeout=0) == []
        wire.send(ethernet(UDP4))
        assert selector.select(timeout=5)
        assert [frame.data for frame in drained(sniffer, 1)] == [ethernet(UDP4)]


def test_one_packet_on_two_interfaces(wire: Wire) -> None:
    """A packet that leaves one interface and comes in at another one is given once, and counted as a duplicate."""
    with Sniffer() as sniffer:
        wire.send(ethernet(UDP4))
        frames = drained(sniffer, 2)
        assert [(frame.data, frame.interface) for frame in frames] == [(ethernet(UDP4), wire.near)]
        assert sniffer.duplicates == 1


def test_retransmission_is_kept(wire: Wire) -> None:
    """The same packet sent twice is given twice, though each is seen on two interfaces."""
    with Sniffer() as sniffer:
        for _ in range(2):
            wire.send(ethernet(UDP4))
        assert len(drained(sniffer, 4)) == 2
        assert sniffer.duplicates == 2


def test_vlan_tag_stands_where_it_was(wire: Wire) -> None:
    """The tag that the kernel takes out of a received frame is put back."""
    tagged = ethernet(UDP4)[:12] + b"\x81\x00\x20\x05\x08\x00" + UDP4
    with Sniffer([wire.far]) as sniffer:
        wire.send(tagged)
        (frame,) = drained(sniffer, 1)
    assert frame.data == tagged
    assert frame.length == len(tagged)


@pytest.mark.usefixtures("own_network")
def test_tunnel_has_no_link_header() -> None:
    """Packets of a TUN device are RAW, from the IP header on."""
    with open("/dev/net/tun", "r+b", buffering=0) as device:  # noqa: PTH123 - a device, not a path to be joined
        import fcntl  # noqa: PLC0415 - there is none on Windows

        fcntl.ioctl(device, 0x400454CA, b"tun0".ljust(16, b"\0") + b"\x01\x10" + bytes(22))  # TUNSETIFF, no header
        ip("link", "set", "tun0", "addrgenmode", "none")
        ip("link", "set", "tun0", "up")
        with Sniffer() as sniffer:
            device.write(UDP4)
            (frame,) = drained(sniffer, 1)
    assert (frame.link_type, frame.data, frame.interface) == (101, UDP4, "tun0")


def test_named_interface_alone(wire: Wire) -> None:
    """With names given, packets of other interfaces are left out."""
    with Sniffer([wire.far]) as sniffer:
        send_datagram(b"over loopback")
        wire.send(ethernet(UDP4))
        assert [frame.interface for frame in drained(sniffer, 1)] == [wire.far]


@pytest.mark.usefixtures("own_network")
def test_interface_that_comes_later() -> None:
    """An interface made after the watching began is watched."""
    from tests.vantage.conftest import Wire  # noqa: PLC0415 - made here, not by the fixture

    with Sniffer() as sniffer:
        wire = Wire()
        wire.send(ethernet(UDP4))
        assert [frame.data for frame in drained(sniffer, 2)] == [ethernet(UDP4)]
        wire.close()


def test_interface_that_goes_down(wire: Wire) -> None:
    """Watching survives an interface that goes down, and goes on when it is up again."""
    with Sniffer([wire.far]) as sniffer:
        ip("link", "set", wire.far, "down")
        assert sniffer.read() == []
        ip("link", "set", wire.far, "up")
        wire.wait_until_up()
        wire.send(ethernet(UDP4))
        assert [frame.data for frame in drained(sniffer, 1)] == [ethernet(UDP4)]


def test_interface_that_is_made_anew(wire: Wire, monkeypatch: pytest.MonkeyPatch) -> None:
    """A named interface that was deleted and made again, under another index, is found again."""
    from tests.vantage.conftest import Wire  # noqa: PLC0415 - made here, not by the fixture

    monkeypatch.setattr("h3probe.vantage.sniff._LOOK_AGAIN_S", 0)
    with Sniffer([wire.far]) as sniffer:
        old = interfaces.by_name()[wire.far]
        ip("link", "del", wire.far)
        sniffer.read()
        again = Wire()
        assert interfaces.by_name()[wire.far] != old
        sniffer.read()
        again.send(ethernet(UDP4))
        assert [frame.data for frame in drained(sniffer, 1)] == [ethernet(UDP4)]
        again.close()


@pytest.mark.usefixtures("own_network")
def test_losses_are_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    """What finds no room in the kernel's buffer is given as one `Dropped`, and all packets are accounted for."""
    monkeypatch.setattr("h3probe.vantage.two_sockets.NARROW_BLOCKS", (2,))
    monkeypatch.setattr("h3probe.vantage.ring.BLOCK_BYTES", 16384)
    with Sniffer() as sniffer:
        for _ in range(100):
            send_datagram(b"x" * 1000)
        wait_for(sniffer, 100)
        events = sniffer.rest()
        frames = [event for event in events if isinstance(event, Frame)]
        dropped = [event for event in events if isinstance(event, Dropped)]
        assert len(dropped) == 1
        assert len(frames) + dropped[0].count == 100
        assert sniffer.statistics() == (100, dropped[0].count)
        assert sniffer.read() == []


@pytest.mark.usefixtures("own_network")
def test_batch_and_shared_numbers() -> None:
    """A read gives no more than it was asked for, and numbers come from where it was told."""
    numbers = itertools.count(7)
    with Sniffer(numbers=numbers) as sniffer, selectors.DefaultSelector() as selector:
        selector.register(sniffer, selectors.EVENT_READ)
        for _ in range(5):
            send_datagram(b"x")
        wait_for(sniffer, 5)
        found: list[int] = []
        while len(found) < 5:
            assert selector.select(10)
            batch = sniffer.read(3)
            assert len(batch) <= 3
            found += [event.number for event in batch if isinstance(event, Frame)]
    assert found == [7, 8, 9, 10, 11]
    assert next(numbers) == 12


@pytest.mark.usefixtures("own_network")
def test_no_pause_while_more_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    """Beside a long transfer looks are few, but not while there is more to read than one look takes."""
    monkeypatch.setattr("h3probe.vantage.bulk.WINDOW_NS", 3600 * 10**9)  # however slow this machine is now
    there, here = (socket.socket(type=socket.SOCK_DGRAM) for _ in range(2))
    with Sniffer() as sniffer, there, here:
        there.bind(("127.0.0.1", 0))
        for _ in range(bulk.PACKETS + 10):
            here.sendto(bytes(100), there.getsockname())
        wait_for(sniffer, bulk.PACKETS + 10)
        while not sniffer.pause_s:
            assert sniffer.more_waits or select.select([sniffer], [], [], 10)[0]
            sniffer.read()
        assert sniffer.pause_s == sniffer.long_pause_s
        send_datagram(b"y")
        send_datagram(b"y")
        assert select.select([sniffer], [], [], 10)[0]
        sniffer.read(1)
        assert not sniffer.pause_s


@pytest.mark.usefixtures("own_network")
def test_what_is_left_unread_at_the_end_is_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    """When a run ends before all was read, the packets left are told as lost."""
    monkeypatch.setattr("h3probe.vantage.sniff.REST_S", 0.0)
    with Sniffer() as sniffer:
        for _ in range(5):
            send_datagram(b"x")
        wait_for(sniffer, 5)
        assert sniffer.rest() == [Dropped(5, "h3probe ended before it had read them")]


@pytest.mark.usefixtures("own_network")
def test_ports_narrow_live() -> None:
    """With ports given, only their packets are given."""
    with Sniffer(ports=[5353]) as sniffer:
        send_datagram(b"not this")
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as here:
            here.sendto(b"this", ("127.0.0.1", 5353))
        frames = drained(sniffer, 2)
    assert [frame.data[23] for frame in frames] == [17, 1]


@pytest.mark.usefixtures("own_network")
def test_no_privilege() -> None:
    """Without CAP_NET_RAW the error is one line that names the ways that need nothing."""
    os.seteuid(65534)
    try:
        with pytest.raises(PrivilegeError) as caught:
            Sniffer()
    finally:
        os.seteuid(0)
    message = str(caught.value)
    assert "\n" not in message
    assert "CAP_NET_RAW" in message
    assert "--relay" in message
    assert "explain" in message


@pytest.mark.skipif(sys.platform == "win32", reason="interfaces have other names there")
def test_unknown_interface() -> None:
    """An interface that is not there is an error of one line that lists those there are."""
    with pytest.raises(UserError, match=r"no interface 'nonesuch' here; there are: .*lo") as caught:
        Sniffer(["nonesuch"])
    assert caught.value.exit_status == 2


def test_many_packets_in_order(wire: Wire) -> None:
    """A burst is read completely, in order, with times that do not go back."""
    packets = [synthesis.udp(*IPV4, number.to_bytes(4)) for number in range(3000)]
    with Sniffer([wire.far]) as sniffer:
        for packet in packets:
            wire.send(ethernet(packet))
        frames = drained(sniffer, 3000)
    assert [frame.data[14:] for frame in frames] == packets
    times = [frame.time_ns for frame in frames]
    assert times == sorted(times)


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
