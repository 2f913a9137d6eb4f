"""What of packets that only count a capture file keeps: headers, and as much of each flow as of any packet of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from h3probe.events import Block
from h3probe.vantage.counting import flow_names, is_ipv6, is_tcp, network_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from h3probe.events import Frame


def trimmed(block: Block, kept_of: Callable[[Frame], int], looked_at: Mapping[int, Frame]) -> Block:
    """The block as it is to be stored.

    Args:
        block: Packets without options, of UDP or TCP.
        kept_of: Says of a packet how many bytes of its flow's payloads are kept.
        looked_at: By their places in the block, packets that did not only count, as they are to be stored.
    """
    network = network_of(block)
    _, firsts, flow = np.unique(flow_names(block.data, network), return_index=True, return_inverse=True)
    kept = np.array([kept_of(block.frame(index)) for index in firsts.tolist()], np.int64)[flow]
    every = np.frombuffer(block.data, np.uint8)
    transport = network + np.where(is_ipv6(block.data, network), 40, 20)
    header = np.where(is_tcp(block.data, network), (every[transport + 12] >> 4).astype(np.int64) * 4, 8)
    captured = np.minimum(block.captured, transport + header + kept - block.starts)
    starts, data = block.starts.copy(), block.data
    if looked_at:
        data = bytearray(data)
        for index, frame in looked_at.items():
            starts[index], captured[index] = len(data), len(frame.data)
            data += frame.data
    return Block(block.first, block.link_type, data, starts, captured, block.lengths, block.times_ns, block.interface)
