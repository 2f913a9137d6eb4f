"""What `ip -batch`, `nft -f` and `tc -batch` are given, as text; nothing is executed here."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from h3probe.vantage.isolate.addresses import (
    CLIENT_INTERFACE,
    CLIENT_MAC,
    DNS_FILTER_PORT,
    INTERCEPT_PORT,
    MIDDLE_INTERFACE,
    MIDDLE_MAC,
    TAP,
)

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from h3probe.vantage.isolate.addresses import Addresses
    from h3probe.vantage.isolate.spec import IsolateSpec

UPLINK_MTU: Final = 65520
"""Bytes; the uplinks' own. What they carry ends in the host's sockets, which cut it to fit the real path."""
WIRE_MTU: Final = 1500
"""Bytes, where each packet counts."""

PORT_SETS: Final = ("tcp4", "tcp6", "udp4", "udp6")

# Before 1.0.7, nft knows "dstnat" for the prerouting hook alone.
_PRIORITY: Final = {"dstnat": -100, "filter": 0, "srcnat": 100}

_REJECT: Final = {"port": "port-unreachable", "admin": "admin-prohibited"}


def mtu_of(spec: IsolateSpec) -> int:
    """Give the MTU between client and middle, in bytes."""
    if spec.mtu is not None:
        return spec.mtu
    return WIRE_MTU if spec.counts_packets else UPLINK_MTU


def loopback(spec: IsolateSpec) -> str:
    """Give the `ip -batch` script for C's own loopback.

    What goes to the host's loopback starts on this one, and takes its sizes from it.
    """
    return f"link set lo mtu {mtu_of(spec)} up\n"


def way_back(*, ipv6: bool) -> str:
    """Give the `ip -batch` script for C, once it has its interface, that lets answers of the host's loopback in.

    They come translated back, and Linux looks for ::1 on no other interface than the one a packet came in by.
    """
    return f"route add local ::1 dev {CLIENT_INTERFACE} table local metric 4096\n" if ipv6 else ""


def client_links(addresses: Addresses, spec: IsolateSpec, middle: str, *, ipv6: bool) -> str:
    """Give the `ip -batch` script for C; `middle` is a path of M."""
    mtu = mtu_of(spec)
    name = CLIENT_INTERFACE
    other = f"{MIDDLE_INTERFACE} mtu {mtu} address {MIDDLE_MAC}"
    lines = [
        f"link add {name} mtu {mtu} address {CLIENT_MAC} type veth peer name {other} netns {middle}",
        f"addr add {addresses.client}/30 dev {name}",
    ]
    if ipv6:
        lines.append(f"addr add {addresses.client6}/64 dev {name} nodad")
    lines += [
        f"link set {name}{_whole_packets(spec)} up",
        f"neigh add {addresses.middle} lladdr {MIDDLE_MAC} dev {name} nud permanent",
        f"route add default via {addresses.middle}",
    ]
    if ipv6:
        lines += [
            f"neigh add {addresses.middle6} lladdr {MIDDLE_MAC} dev {name} nud permanent",
            f"route add default via {addresses.middle6} dev {name}",
        ]
    return loopback(spec) + _text(lines) + way_back(ipv6=ipv6)


def middle_links(addresses: Addresses, spec: IsolateSpec, *, ipv6: bool) -> str:
    """Give the `ip -batch` script for M, where the uplink and one end of the veth pair are."""
    name = MIDDLE_INTERFACE
    lines = ["link set lo up", f"addr add {addresses.middle}/30 dev {name}"]
    if ipv6:
        lines.append(f"addr add {addresses.middle6}/64 dev {name} nodad")
    lines += [
        f"link set {name}{_whole_packets(spec)} up",
        f"neigh add {addresses.client} lladdr {CLIENT_MAC} dev {name} nud permanent",
    ]
    if ipv6:
        lines += [
            f"neigh add {addresses.client6} lladdr {CLIENT_MAC} dev {name} nud permanent",
            # A router asks for its neighbours from a link-local address; the kernel's own is not ready for a second.
            f"addr add fe80::1/64 dev {TAP} nodad",
        ]
    return _text(lines)


def _whole_packets(spec: IsolateSpec) -> str:
    # The kernel would hand over up to 64 KiB as one packet, and lose it as one.
    return " gso_max_segs 1" if spec.counts_packets else ""


def client_rules(addresses: Addresses, ports: Mapping[str, Collection[int]], *, ipv6: bool) -> str:
    """Give the nftables script for C: ports the host listens on are the host's, all others C's own loopback.

    Args:
        addresses: Who is where.
        ports: For each of `PORT_SETS`, what the host listens on.
        ipv6: Whether C has IPv6.
    """
    output = [f"ip daddr 127.0.0.0/8 {kind} dport @{kind}4 dnat ip to {addresses.host}" for kind in ("tcp", "udp")]
    postrouting = [f'oifname "{CLIENT_INTERFACE}" ip saddr 127.0.0.0/8 snat ip to {addresses.client}']
    if ipv6:
        output += [f"ip6 daddr ::1 {kind} dport @{kind}6 dnat ip6 to {addresses.host6}" for kind in ("tcp", "udp")]
        postrouting.append(f'oifname "{CLIENT_INTERFACE}" ip6 saddr ::1 snat ip6 to {addresses.client6}')
    sets = [f"add set inet h3probe {name} {{ type inet_service; }}" for name in PORT_SETS]
    chains = _chain("output", "nat", "dstnat", output) + _chain("postrouting", "nat", "srcnat", postrouting)
    return _text(["add table inet h3probe", *sets, *chains]) + port_changes({}, ports)


def port_changes(old: Mapping[str, Collection[int]], new: Mapping[str, Collection[int]]) -> str:
    """Give the nftables script that turns the port sets in C from `old` into `new`; empty when they are the same."""
    lines = []
    for name in PORT_SETS:
        before, after = set(old.get(name, ())), set(new.get(name, ()))
        for verb, ports in (("delete", before - after), ("add", after - before)):
            if ports:
                lines.append(f"{verb} element inet h3probe {name} {{ {_ports(ports)} }}")
    return _text(lines)


def middle_rules(addresses: Addresses, spec: IsolateSpec, *, intercept: bool) -> str:
    """Give the nftables script for M: redirects before routing, what-ifs where packets pass, one address outside."""
    chains = _chain("postrouting", "nat", "srcnat", [f'oifname "{TAP}" masquerade'])
    chains += _chain("forward", "filter", "filter", _what_ifs(addresses, spec))
    chains += _chain("prerouting", "nat", "dstnat", _redirects(addresses, spec, intercept=intercept))
    return _text(["add table inet h3probe", *chains])


def _what_ifs(addresses: Addresses, spec: IsolateSpec) -> list[str]:
    client = f'iifname "{MIDDLE_INTERFACE}"'
    rules = []
    if spec.reject_udp is not None:
        rules.append(f"{client} {_match(spec.reject_ports)} reject with icmpx {_REJECT[spec.reject_udp]}")
    if spec.block_udp is not None:
        rules.append(f"{client} {_match(spec.block_udp)} drop")
    if spec.loss:
        # In thousandths of a percent; a comparison that is always true is refused.
        share = round(spec.loss * 1000)
        rules.append(f"numgen random mod 100000 < {share} drop" if share < 100_000 else "drop")
    if rules:  # a lost or blocked DNS query says nothing about HTTP
        rules[:0] = [f"ip daddr {addresses.dns} accept", f"ip saddr {addresses.dns} accept"]
    return rules


def _match(ports: Collection[int]) -> str:
    return f"udp dport {{ {_ports(ports)} }}" if ports else "meta l4proto udp"


def _redirects(addresses: Addresses, spec: IsolateSpec, *, intercept: bool) -> list[str]:
    client = f'iifname "{MIDDLE_INTERFACE}"'
    dns = f"{client} ip daddr {addresses.dns}"
    rules = []
    if not spec.https_rr:
        rules += [f"{dns} {kind} dport 53 redirect to :{DNS_FILTER_PORT}" for kind in ("udp", "tcp")]
    if intercept:
        rules += [f"{dns} tcp dport 53 accept", f"{client} meta l4proto tcp redirect to :{INTERCEPT_PORT}"]
    return rules


def shaping(spec: IsolateSpec) -> str:
    """Give the `tc -batch` script for M: outgoing on the uplink, incoming on the way to the client; empty for none."""
    lines = []
    for interface in (TAP, MIDDLE_INTERFACE):
        parent = "root handle 1:"
        if spec.delay_ms:
            microseconds = round(spec.delay_ms * 500)
            lines.append(f"qdisc replace dev {interface} {parent} netem delay {microseconds}us limit 20000")
            parent = "parent 1:1 handle 2:"
        if spec.rate_mbit:
            # A tenth of a second's worth may wait, as in a usual router; a burst is two packets or a millisecond.
            kilobits = max(1, round(spec.rate_mbit * 1000))
            burst = max(2 * (mtu_of(spec) + 14), kilobits // 8)
            lines.append(f"qdisc replace dev {interface} {parent} tbf rate {kilobits}kbit burst {burst} latency 100ms")
    return _text(lines)


def _chain(name: str, kind: str, priority: str, rules: Collection[str]) -> list[str]:
    head = f"add chain inet h3probe {name} {{ type {kind} hook {name} priority {_PRIORITY[priority]}; }}"
    return [head, *(f"add rule inet h3probe {name} {rule}" for rule in rules)] if rules else []


def _ports(ports: Collection[int]) -> str:
    return ", ".join(str(port) for port in sorted(ports))


def _text(lines: Collection[str]) -> str:
    return "".join(f"{line}\n" for line in lines)
