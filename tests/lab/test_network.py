from __future__ import annotations

import pytest

from h3probe.lab.network import Network, Udp
from h3probe.vantage.relay_udp import Impairment


@pytest.mark.parametrize(
    ("network", "options"),
    [
        (Network(), []),
        (Network("dropped"), ["--block-udp", ""]),
        (Network("answers-dropped"), ["--block-udp-answers", ""]),
        (Network("refused"), ["--reject-udp", "port"]),
        (Network("refused-admin"), ["--reject-udp", "admin"]),
        (Network("refused-host"), ["--reject-udp", "host"]),
        (Network("refused-net"), ["--reject-udp", "net"]),
        (Network(loss=3, mtu=1300, delay_ms=20), ["--loss", "3", "--mtu", "1300", "--delay", "20"]),
    ],
    ids=str,
)
def test_each_is_an_option_of_watch(network: Network, options: list[str]) -> None:
    """A network of its own is made like the scenario's with the what-ifs of `watch --isolate`."""
    assert network.options == options


@pytest.mark.parametrize(
    ("udp", "impairment"),
    [
        ("open", Impairment()),
        ("dropped", Impairment(drop_udp=True)),
        ("refused", Impairment(refuse_udp=True)),
        ("refused-admin", None),
        ("answers-dropped", None),
    ],
)
def test_what_a_relay_can_do(udp: Udp, impairment: Impairment | None) -> None:
    """A relay drops and refuses; it sends no other ICMP errors and cannot lose TCP's packets."""
    assert Network(udp).impairment == impairment
    assert Network(loss=1).impairment is None


def test_what_a_relay_cannot_do_is_named() -> None:
    """Everything that is beyond it stands in one line."""
    assert Network("dropped").beyond_relay == ""
    assert Network("refused-net", loss=2, mtu=1300, delay_ms=5).beyond_relay == (
        "refusing UDP with network unreachable, losing 2 % of all packets, an MTU of 1300, 5 ms of delay"
    )
