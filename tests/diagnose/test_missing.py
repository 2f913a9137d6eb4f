"""What connections show to be missing from a capture."""

from __future__ import annotations

import pytest

from h3probe.diagnose.missing import Missing
from tests.diagnose.scenario import Network, Packet


def missing(network: Network, *, begins: float = 0.0, servers: bool = True) -> Missing:
    """The sums over what a vantage point sees that came late, or that sees clients alone."""

    def seen(packet: Packet) -> bool:
        return packet.at >= begins and (servers or packet.by == "client")

    found = Missing()
    found.add(network.explain(seen=seen).engine._kept)
    return found


def test_a_whole_capture_misses_nothing() -> None:
    """Connections that were seen from their start, both ways, are no gap."""
    network = Network()
    network.quic().connects(0.0)
    network.tcp().connects(0.1)
    assert missing(network) == Missing(connections=2)


@pytest.mark.parametrize(("servers", "one_sided"), [(True, 0), (False, 1)])
def test_a_late_capture_is_not_a_one_sided_one(*, servers: bool, one_sided: int) -> None:
    """Where a capture begins behind the server's handshake, its later packets tell that its side is there."""
    network = Network()
    network.quic().connects(0.0)
    answered = next(p.at for p in network.sent if p.by == "server")
    found = missing(network, begins=answered + 0.0001, servers=servers)
    assert (found.late, found.one_sided) == (1, one_sided)
