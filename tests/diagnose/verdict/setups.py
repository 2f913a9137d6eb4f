"""What tests of several verdicts begin with."""

from __future__ import annotations

from h3probe.engine import Engine
from h3probe.records import VerdictRecord
from tests.diagnose.scenario import JDK, Network, Quic, Tcp


def reported(network: Network, *, server: str = "127.0.0.1", port: int = 8899) -> Tcp:
    """A tunnel that the proxy reports, and whose packets are not seen."""
    tcp = network.tcp(server=server, port=port)
    network.proxy().carries(tcp, 0.0)
    return tcp


def at_the_proxy(network: Network) -> str:
    """The one verdict of a proxy that is all that is seen."""
    engine = Engine("proxy", "events", vantage="proxy")
    records = [record for event in network.events() for record in engine.feed(event)] + engine.finish()
    (sentence,) = [record.sentence for record in records if isinstance(record, VerdictRecord)]
    return sentence


def told_race(network: Network) -> tuple[Quic, Tcp]:
    """A race in which QUIC was ready first and both carried something."""
    quic, tcp = network.quic(software=JDK), network.tcp(software=JDK)
    quic.connects(0.0)
    tcp.connects(0.01, rtt=0.1)
    quic.request(1.0)
    quic.response(1.01)
    return quic, tcp
