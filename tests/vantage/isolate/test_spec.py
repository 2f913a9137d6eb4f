from __future__ import annotations

import pytest

from h3probe.vantage.isolate.spec import IsolateSpec


def test_nothing_asked_is_nothing_said() -> None:
    """The default changes nothing, says nothing and needs nobody in the middle."""
    assert IsolateSpec().words() == []
    assert not IsolateSpec().needs_middle


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        (IsolateSpec(block_udp=frozenset()), "UDP blocked silently"),
        (IsolateSpec(block_udp=frozenset({4433, 443})), "UDP port 443, 4433 blocked silently"),
        (IsolateSpec(reject_udp="port"), "UDP refused with ICMP port unreachable"),
        (
            IsolateSpec(reject_udp="admin", reject_ports=frozenset({443})),
            "UDP port 443 refused with ICMP administratively prohibited",
        ),
        (IsolateSpec(reject_udp="host"), "UDP refused with ICMP host unreachable"),
        (IsolateSpec(reject_udp="net"), "UDP refused with ICMP network unreachable"),
        (IsolateSpec(block_udp_answers=frozenset()), "UDP answers blocked silently"),
        (IsolateSpec(block_udp_answers=frozenset({443})), "UDP answers from port 443 blocked silently"),
        (IsolateSpec(loss=2.5), "2.5 % of the packets lost each way"),
        (IsolateSpec(mtu=1300), "MTU 1300"),
        (IsolateSpec(delay_ms=80), "80 ms added to the round trip"),
        (IsolateSpec(rate_mbit=0.5), "0.5 Mbit/s each way"),
        (IsolateSpec(https_rr=False), "no HTTPS records in DNS answers"),
    ],
    ids=str,
)
def test_each_flag_is_worded_and_stands_in_the_middle(spec: IsolateSpec, words: str) -> None:
    """Every flag has its words, and its place between the client and the uplink."""
    assert spec.words() == [words]
    assert spec.needs_middle


def test_no_ipv6_needs_nobody_in_the_middle() -> None:
    """IPv6 is left out by not setting it up."""
    spec = IsolateSpec(ipv6=False)
    assert spec.words() == ["no IPv6"]
    assert not spec.needs_middle


def test_flags_are_worded_in_order() -> None:
    """Combined flags come in the order of the options."""
    spec = IsolateSpec(block_udp=frozenset({443}), loss=1, ipv6=False)
    assert spec.words() == ["UDP port 443 blocked silently", "1 % of the packets lost each way", "no IPv6"]


@pytest.mark.parametrize(
    ("spec", "counts"),
    [(IsolateSpec(loss=1), True), (IsolateSpec(rate_mbit=1), True), (IsolateSpec(delay_ms=1), False)],
    ids=str,
)
def test_what_is_done_to_single_packets(spec: IsolateSpec, counts: bool) -> None:  # noqa: FBT001 - a parameter of the test
    """Loss and rate need packets of the size they have on a wire."""
    assert spec.counts_packets is counts
