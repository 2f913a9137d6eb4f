from __future__ import annotations

import mmap
import os
import select
import sys
from typing import TYPE_CHECKING

import pytest

if sys.platform != "linux":
    pytest.skip("what only Linux has", allow_module_level=True)

from h3probe.errors import UserError
from h3probe.vantage import interfaces, ring, synthesis, two_sockets
from h3probe.vantage.ordinary import NOTHING, Apart
from h3probe.vantage.two_sockets import PacketSource
from tests.vantage.test_bpf import IPV4, ethernet

if TYPE_CHECKING:
    from tests.vantage.conftest import Wire

SHORT, LONG = (ethernet(synthesis.udp(*IPV4, bytes([first]) + bytes(400))) for first in (0x41, 0xC1))
TRANSFER = Apart(frozenset({(443, 40000)}))


@pytest.mark.usefixtures("own_network")
def test_a_kernel_with_little_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """A ring is as long as the kernel has memory for, and where it has none that is said in one line."""
    # So many blocks that the kernel refuses their list already.
    monkeypatch.setattr(ring, "BLOCK_BYTES", mmap.PAGESIZE)
    monkeypatch.setattr(two_sockets, "NARROW_BLOCKS", (1 << 24, 8))
    PacketSource().close()
    monkeypatch.setattr(two_sockets, "NARROW_BLOCKS", (1 << 24,))
    with pytest.raises(UserError, match="no memory"):
        PacketSource()


@pytest.mark.usefixtures("own_network")
def test_no_memory_to_count_in(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where there is memory for one ring alone, everything goes on coming by that."""
    monkeypatch.setattr(two_sockets, "WIDE_BLOCKS", (1 << 24,))
    monkeypatch.setattr(ring, "BLOCK_BYTES", mmap.PAGESIZE)
    monkeypatch.setattr(two_sockets, "NARROW_BLOCKS", (8,))
    source = PacketSource()
    assert not source.set_apart(TRANSFER)
    assert source.wide is None
    assert not source.set_apart(TRANSFER)
    assert source.set_apart(NOTHING)
    source.close()


def test_only_a_transfer_needs_a_second_ring(wire: Wire) -> None:
    """Nothing of the wide socket is there before something is left apart, and everything comes by the narrow one."""
    source = PacketSource(interfaces=[interfaces.by_name()[wire.far]])
    wire.send(SHORT)
    assert (next_at(source), source.wide) == (len(SHORT), None)
    assert source.set_apart(TRANSFER)
    assert source.wide is not None
    wire.send(SHORT)
    wire.send(LONG)
    assert next_at(source) == len(LONG)
    assert source.wide.unread() == 1
    assert source.set_apart(NOTHING)
    wire.send(SHORT)
    assert next_at(source) == len(SHORT)
    assert source.wide.unread() == 1
    assert (source.statistics(), source.wide.statistics()) == ((3, 0), (1, 0))
    source.close()


def test_both_watch_other_interfaces(wire: Wire) -> None:
    """An interface that was found again under another index is watched by both sockets."""
    source = PacketSource(interfaces=[interfaces.by_name()["lo"]])
    assert source.set_apart(TRANSFER)
    assert source.wide is not None
    wire.send(SHORT)
    wire.send(LONG)
    assert (source.statistics(), source.wide.statistics()) == ((0, 0), (0, 0))
    source.watch([interfaces.by_name()[wire.far]])
    wire.send(SHORT)
    wire.send(LONG)
    assert next_at(source) == len(LONG)
    assert (source.statistics(), source.wide.statistics()) == ((1, 0), (1, 0))
    source.close()


def test_on_loopback_alone_what_leaves_costs_nothing(wire: Wire) -> None:
    """Where loopback is all that is watched, neither socket is shown packets on their way out; elsewhere both are."""
    lo, far = (interfaces.by_name()[name] for name in ("lo", wire.far))

    def shown(source: PacketSource) -> list[bool]:
        wide = source.wide
        assert wide is not None
        return [not each.getsockopt(263, 23) for each in (source.narrow.socket, wide.socket)]

    source = PacketSource(interfaces=[lo])
    source.set_apart(TRANSFER)
    assert shown(source) == [False, False]
    source.watch([lo, far])
    assert shown(source) == [True, True]
    source.watch([lo])
    assert shown(source) == [False, False]
    source.close()
    everywhere = PacketSource()
    everywhere.set_apart(TRANSFER)
    assert shown(everywhere) == [True, True]
    everywhere.close()


@pytest.mark.usefixtures("own_network")
def test_a_socket_that_cannot_be_used_leaves_none_open(monkeypatch: pytest.MonkeyPatch) -> None:
    """When there is no ring, both sockets are closed."""
    before = len(os.listdir("/proc/self/fd"))  # noqa: PTH208 - a number
    monkeypatch.setattr(ring, "BLOCK_BYTES", mmap.PAGESIZE)
    monkeypatch.setattr(two_sockets, "NARROW_BLOCKS", (1 << 24,))
    with pytest.raises(UserError):
        PacketSource()
    assert len(os.listdir("/proc/self/fd")) == before  # noqa: PTH208 - the same


def next_at(source: PacketSource) -> int:
    """The size of the next packet of the narrow socket."""
    while (packet := source.read()) is None:
        assert select.select(source.sockets, [], [], 10)[0]
    return len(packet.data)
