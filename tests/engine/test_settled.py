from __future__ import annotations

import pytest

from h3probe.engine import Engine
from h3probe.events import Process, SocketOwner
from h3probe.filters import Filters
from tests.diagnose.scenario import Network, nanoseconds
from tests.engine.test_engine import busy, kinds, validate


def test_records_come_as_soon_as_they_are_settled() -> None:
    """A closed connection's record does not wait for the end of the capture, and `capture` comes before it."""
    network = Network()
    tcp = network.tcp()
    tcp.connects(0.0)
    tcp.fin(1.0)
    for at in range(2, 40):
        network.bystander(float(at))
    engine = Engine("test", "pcap")
    early = [record for event in network.events() for record in engine.feed(event)]
    assert [record.type for record in early] == ["capture", "tcp"]


def test_a_filter_by_port_leaves_the_rest_out() -> None:
    """Connections to other ports have no record, and neither have the errors about them."""
    network = busy()
    other = network.quic(port=8443, sni="example.org")
    other.initial(1.0)
    other.unreachable(1.1)
    explained = network.explain(filters=Filters(ports=frozenset({8443})))
    validate(explained.records)
    assert kinds(explained.records)["quic"] == kinds(explained.records)["icmp"] == 1
    assert kinds(explained.records)["tcp"] == 0
    assert {verdict.origin for verdict in explained.verdicts} == {"example.org:8443"}
    assert {moment.server for moment in explained.moments} <= {"198.51.100.1:8443"}


@pytest.mark.parametrize(
    ("filters", "told"),
    [
        (Filters(origins=frozenset({"fourth.example"})), True),
        (Filters(origins=frozenset({"fourth.example:443"})), True),
        (Filters(origins=frozenset({"fourth.example:444"})), False),
        (Filters(origins=frozenset({"example.org"})), False),
        (Filters(ports=frozenset({8899})), True),
        (Filters(ports=frozenset({443})), False),
        (Filters(wanted=lambda connection: connection.server.port == 8899), True),
        (Filters(wanted=lambda connection: connection.process is not None), False),
    ],
)
def test_what_the_proxy_saw_is_filtered_like_everything(filters: Filters, *, told: bool) -> None:
    """Exchanges and Alt-Svc lines go with their origin and with the connection that carried them."""
    explained = busy().explain(filters=filters)
    assert kinds(explained.records)["exchange"] == kinds(explained.records)["alt_svc"] == told


def test_an_exchange_waits_for_its_process() -> None:
    """What may still turn out to be a wanted process's is not told, and not lost, before that is known."""
    filters = Filters(wanted=lambda c: c.process is not None, pending=lambda c: c.process is None)
    engine = Engine("proxy", "live", filters)
    network = Network()
    tcp = network.tcp(server="127.0.0.1", port=8443)
    network.proxy().hello(0.0, tcp)
    network.proxy().exchange(0.1, tcp)
    network.proxy().alt_svc(0.1, tcp, "clear")
    assert [record for event in network.events() for record in engine.feed(event)] == []
    owner = SocketOwner(nanoseconds(0.2), 6, tcp.client_end, Process(7, "java"))
    assert [record.type for record in engine.feed(owner)] == ["capture", "exchange", "alt_svc"]


def test_a_filter_by_process_decides_about_connections() -> None:
    """What the given function does not want is left out."""
    filters = Filters(wanted=lambda connection: connection.process is not None)
    explained = busy().explain(filters=filters)
    validate(explained.records)
    assert kinds(explained.records)["tcp"] == 1
    assert kinds(explained.records)["quic"] == 0
