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
from h3probe.events import Dropped, Endpoint, Frame
from h3probe.vantage import bulk, interfaces, synthesis
from h3probe.vantage.sniff import Sniffer
from tests.vantage.conftest import ip
from tests.vantage.test_bpf import IPV4, UDP4, ethernet

if TYPE_CHECKING:
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
@pytest.mark.parametrize(("before", "lost"), [(100, True), (5, False)])
def test_losses_before_the_beginning_are_none(monkeypatch: pytest.MonkeyPatch, before: int, lost: bool) -> None:  # noqa: FBT001 - a parameter of the test
    """What is lost before anybody is told of the watching is left out with all before it; otherwise nothing is."""
    monkeypatch.setattr("h3probe.vantage.two_sockets.NARROW_BLOCKS", (4,))
    monkeypatch.setattr("h3probe.vantage.ring.BLOCK_BYTES", 16384)
    with Sniffer() as sniffer:
        for _ in range(before):
            send_datagram(b"x" * 1000)
        wait_for(sniffer, before)
        assert bool(sniffer.statistics()[1]) == lost
        sniffer.begin()
        for _ in range(5):
            send_datagram(b"y" * 1000)
        frames = [event for event in sniffer.rest() if isinstance(event, Frame)]
        assert [frame.data[42] for frame in frames[-5:]] == list(b"yyyyy")
        assert len(frames) == sniffer.statistics()[0]
        assert sniffer.statistics()[1] == 0
        assert lost or len(frames) == 10


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
