from __future__ import annotations

import pytest

pytest.importorskip("numpy")

from h3probe.events import Frame
from h3probe.run.trim_block import trimmed
from h3probe.vantage import synthesis
from h3probe.vantage.bpf import SNAPLEN
from h3probe.vantage.ordinary import HEADERS
from h3probe.wire.packet import PacketDecoder, TcpSegment, UdpDatagram
from tests.blocks import in_a_block
from tests.vantage.test_bpf import IPV4, IPV6, ethernet

SEGMENT = synthesis.Segment(synthesis.ACK, 7, 9, bytes(range(256)) * 4)


def frames(cut: int) -> list[Frame]:
    """Packets of both transports and both versions, as a socket gives them that keeps so many bytes."""
    packets = [
        make
        for ends in (IPV4, IPV6)
        for make in (synthesis.udp(*ends, b"\x41" + bytes(500)), synthesis.tcp(*ends, SEGMENT))
    ]
    made = [ethernet(packet) for packet in packets]
    return [Frame(number, number, 1, data[:cut], len(data)) for number, data in enumerate(made, 5)]


@pytest.mark.parametrize("cut", [HEADERS, SNAPLEN])
@pytest.mark.parametrize("kept", [0, 32])
def test_headers_are_kept_and_some_payload(cut: int, kept: int) -> None:
    """Of every packet the headers are left, and so much behind them; lengths, numbers and times stay."""
    block = trimmed(in_a_block(frames(cut)), lambda _: kept, {})
    assert (block.first, len(block)) == (5, 4)
    for index, whole in enumerate(frames(SNAPLEN)):
        frame = block.frame(index)
        fact = PacketDecoder().decode(whole)
        assert isinstance(fact, TcpSegment | UdpDatagram)
        assert frame.data == whole.data[: len(whole.data) - len(fact.payload) + kept]
        assert (frame.number, frame.time_ns, frame.length) == (whole.number, whole.time_ns, whole.length)


def test_each_flow_is_asked_for_once() -> None:
    """What is kept of a flow is asked with one packet of it, and holds for both its directions."""
    back = ethernet(synthesis.udp(IPV4[1], IPV4[0], b"\x41" + bytes(90)))
    made = [*frames(HEADERS), *frames(HEADERS), Frame(13, 13, 1, back, len(back))]
    asked: list[int] = []

    def kept_of(frame: Frame) -> int:
        asked.append(frame.number)
        return 10 * len(asked)

    block = trimmed(in_a_block(made), kept_of, {})
    assert len(asked) == 4
    assert len(block.frame(0).data) == len(block.frame(4).data) == len(block.frame(8).data)
    assert len({len(block.frame(index).data) - header for index, header in enumerate((42, 54, 62, 74))}) == 4


def test_what_did_not_only_count_is_as_it_was_given() -> None:
    """A packet that was looked at by itself is stored as it was trimmed, longer or shorter."""
    made = frames(HEADERS)
    looked_at = {1: Frame(6, 6, 1, b"long" * 100, 1078), 2: Frame(7, 7, 1, b"short", 563)}
    block = trimmed(in_a_block(made), lambda _: 0, looked_at)
    assert [block.frame(index) for index in looked_at] == list(looked_at.values())
    assert block.frame(3).data == made[3].data[:74]
