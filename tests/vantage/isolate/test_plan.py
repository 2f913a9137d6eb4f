from __future__ import annotations

from h3probe.vantage.isolate.plan import client_settings, middle_settings, reserved, without_what_the_kernel_lacks
from h3probe.vantage.isolate.spec import IsolateSpec

PORTS = {"tcp4": frozenset({443, 80}), "udp4": frozenset({443})}


def test_ports_of_the_host_are_reserved() -> None:
    """Each port once, in order; as many as one write can hold."""
    assert reserved(PORTS)[1] == "80,443\n"
    assert reserved({})[1] == "\n"
    many = reserved({"udp4": frozenset(range(1, 65536))})[1]
    assert 4000 < len(many) < 4096
    assert many.endswith("\n")


def test_without_ipv6_it_is_switched_off() -> None:
    """C has neither link-local addresses nor ::1 then, and M forwards IPv4 alone."""
    off = ("/proc/sys/net/ipv6/conf/all/disable_ipv6", "1")
    assert off in client_settings(PORTS, ipv6=False)
    assert off not in client_settings(PORTS, ipv6=True)
    assert middle_settings(ipv6=False) == [("/proc/sys/net/ipv4/ip_forward", "1")]
    assert ("/proc/sys/net/ipv6/conf/all/forwarding", "1") in middle_settings(ipv6=True)


def test_what_the_kernel_may_lack_is_left_out_step_by_step() -> None:
    """First everything, then without the delay, then without the rate, at last without both."""
    both = IsolateSpec(delay_ms=10, rate_mbit=5, mtu=1400)
    assert [(each.delay_ms, each.rate_mbit, each.mtu) for each in without_what_the_kernel_lacks(both)] == [
        (10, 5, 1400),
        (0, 5, 1400),
        (10, 0, 1400),
        (0, 0, 1400),
    ]
    assert without_what_the_kernel_lacks(IsolateSpec()) == [IsolateSpec()]
    assert len(without_what_the_kernel_lacks(IsolateSpec(delay_ms=1))) == 2
