from __future__ import annotations

from typing import TYPE_CHECKING, cast

from h3probe.engine import Engine
from h3probe.run.proxying import Races
from tests.diagnose.scenario import Network

if TYPE_CHECKING:
    from h3probe.vantage.proxy import Proxy


class Told:
    """A proxy that keeps what it is told."""

    def __init__(self) -> None:
        self.hosts: list[str] = []

    def quic_ready(self, host: str) -> None:
        """Keep it."""
        self.hosts.append(host)


def told(network: Network) -> list[str]:
    """What a proxy is told while these events come in, one at a time."""
    engine, proxy = Engine("test", "live"), Told()
    races = Races(cast("Proxy", proxy), engine)
    for event in network.events():
        engine.feed(event)
        races(engine.take_moments())
    engine.finish()
    races(engine.take_moments())
    return proxy.hosts


def test_quic_that_is_ready_is_told_once() -> None:
    """By the name in its ClientHello, however much it says afterwards."""
    network = Network()
    for at in (0.0, 1.0):
        network.quic().connects(at)
    assert told(network) == ["example.org", "example.org"]


def test_what_is_not_told() -> None:
    """An attempt without an answer, and TCP."""
    network = Network()
    network.quic().initial(0.0)
    network.tcp().connects(0.1)
    assert told(network) == []
