from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from h3probe.vantage.isolate import scripts
from h3probe.vantage.isolate.addresses import PASTA, SLIRP
from h3probe.vantage.isolate.spec import IsolateSpec

if TYPE_CHECKING:
    from collections.abc import Callable

    from h3probe.vantage.isolate.addresses import Addresses
    from h3probe.vantage.isolate.spec import Refusal

GOLDEN = Path(__file__).parent / "golden"

PORTS = {"tcp4": {4433, 22}, "tcp6": {4433}, "udp4": {4433}, "udp6": set[int]()}

CASES: dict[str, tuple[Addresses, IsolateSpec, bool, bool]] = {  # addresses, spec, IPv6, intercept
    "mtu": (PASTA, IsolateSpec(mtu=1400), True, False),
    "blocked-intercepted": (PASTA, IsolateSpec(block_udp=frozenset({443, 4433})), True, True),
    "refused-lossy-no-records": (
        PASTA,
        IsolateSpec(reject_udp="admin", loss=2.5, https_rr=False, ipv6=False),
        False,
        False,
    ),
    "slow-slirp": (SLIRP, IsolateSpec(delay_ms=50, rate_mbit=8), False, False),
}


@pytest.mark.parametrize("name", CASES)
def test_scripts_with_a_middle(name: str, golden: Callable[[Path, str], None]) -> None:
    """The scripts for ip, nft and tc of both namespaces, whole, as an engineer would read them."""
    addresses, spec, ipv6, intercept = CASES[name]
    parts = {
        "ip, client": scripts.client_links(addresses, spec, "/mnt/net", ipv6=ipv6),
        "ip, middle": scripts.middle_links(addresses, spec, ipv6=ipv6),
        "nft, client": scripts.client_rules(addresses, PORTS, ipv6=ipv6),
        "nft, middle": scripts.middle_rules(addresses, spec, intercept=intercept),
        "tc, middle": scripts.shaping(spec),
    }
    golden(GOLDEN / f"{name}.txt", "".join(f"# {head}\n{text}" for head, text in parts.items()))


def test_scripts_without_a_middle(golden: Callable[[Path, str], None]) -> None:
    """The client is on the uplink itself: it has a loopback, a way back from the host's, and the host's ports."""
    addresses = PASTA.without_middle()
    text = scripts.loopback(IsolateSpec()) + scripts.way_back(ipv6=True)
    golden(GOLDEN / "direct.txt", text + scripts.client_rules(addresses, PORTS, ipv6=True))


def test_port_changes_are_only_the_changes() -> None:
    """What was there and goes is deleted, what comes is added, and nothing else is said."""
    old = {"tcp4": {80, 443}, "udp4": {53}}
    new = {"tcp4": {443, 8080, 8000}, "udp4": {53}, "tcp6": {1}}
    assert scripts.port_changes(old, new) == (
        "delete element inet h3probe tcp4 { 80 }\n"
        "add element inet h3probe tcp4 { 8000, 8080 }\n"
        "add element inet h3probe tcp6 { 1 }\n"
    )
    assert scripts.port_changes(new, new) == ""


@pytest.mark.parametrize(
    ("spec", "mtu"),
    [(IsolateSpec(), 65520), (IsolateSpec(loss=1), 1500), (IsolateSpec(loss=1, mtu=1300), 1300)],
    ids=str,
)
def test_mtu(spec: IsolateSpec, mtu: int) -> None:
    """The uplink's, the wire's where packets count, or what was asked for."""
    assert scripts.mtu_of(spec) == mtu


def test_total_loss_is_a_plain_drop() -> None:
    """nft refuses a comparison that is always true."""
    rules = scripts.middle_rules(PASTA, IsolateSpec(loss=100), intercept=False)
    assert "numgen" not in rules
    assert "add rule inet h3probe forward drop\n" in rules


def test_dns_is_never_blocked_nor_lost() -> None:
    """The accepting rules stand before those that drop."""
    lines = scripts.middle_rules(PASTA, IsolateSpec(block_udp=frozenset(), loss=50), intercept=False).splitlines()
    forward = [line for line in lines if line.startswith("add rule inet h3probe forward ")]
    assert [line.endswith(" accept") for line in forward] == [True, True, False, False]


def test_answers_are_dropped_on_their_way_back() -> None:
    """What comes in by the uplink is dropped by its source port; what goes out is not."""
    rules = scripts.middle_rules(PASTA, IsolateSpec(block_udp_answers=frozenset({443})), intercept=False)
    assert 'add rule inet h3probe forward iifname "tap0" udp sport { 443 } drop\n' in rules
    assert "dport { 443 }" not in rules


@pytest.mark.parametrize(
    ("kind", "icmp"),
    [
        ("port", "port-unreachable"),
        ("admin", "admin-prohibited"),
        ("host", "host-unreachable"),
        ("net", "no-route"),
    ],
)
def test_each_refusal_has_its_icmp_error(kind: Refusal, icmp: str) -> None:
    """The kinds of refusal are nft's own words for both families."""
    rules = scripts.middle_rules(PASTA, IsolateSpec(reject_udp=kind), intercept=False)
    assert f"meta l4proto udp reject with icmpx {icmp}\n" in rules
