"""The options of `watch` that give a command a network of its own, and change it."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, cast

import click

from h3probe.cli.options import NumberRange, gathered

if TYPE_CHECKING:
    from h3probe.vantage.isolate.isolation import Isolation
    from h3probe.vantage.isolate.spec import IsolateSpec, Refusal

_KINDS = ("port", "admin", "host", "net")


@dataclass(frozen=True, slots=True)
class IsolateOptions:
    """What was given, as it was given.

    Attributes:
        isolate: Whether the command gets a network of its own.
        block_udp: Ports, comma-separated; empty for all, None for none.
        reject_udp: `[port|admin|host|net][:PORTS]`; empty for port unreachable and all ports.
        loss: Percent.
        mtu: Bytes.
        delay: Milliseconds.
        rate: Megabits a second.
        no_ipv6: Whether IPv6 is left out.
        no_https_rr: Whether HTTPS records are taken out of DNS answers.
        block_udp_answers: As `block_udp`, for what comes back.
    """

    isolate: bool
    block_udp: str | None
    reject_udp: str | None
    loss: float | None
    mtu: int | None
    delay: float | None
    rate: float | None
    no_ipv6: bool
    no_https_rr: bool
    block_udp_answers: str | None = None

    def spec(self) -> IsolateSpec | None:
        """What is asked of the isolation; None where there is to be none.

        Raises:
            UsageError: An option's value is none, or belongs to `--isolate` and that was not given.
        """
        if not self.isolate:
            for field in fields(self):
                if getattr(self, field.name) not in (None, False):
                    raise click.UsageError(f"--{field.name.replace('_', '-')} is for --isolate")
            return None
        from h3probe.vantage.isolate.spec import IsolateSpec  # noqa: PLC0415 - for whoever isolates

        kind, ports = _reject(self.reject_udp)
        blocked = _blocked("--block-udp", self.block_udp)
        if kind is not None and blocked is not None and (not ports or not blocked or ports & blocked):
            raise click.UsageError("--block-udp and --reject-udp are for different ports: no packet suffers both")
        return IsolateSpec(
            block_udp=blocked,
            block_udp_answers=_blocked("--block-udp-answers", self.block_udp_answers),
            reject_udp=kind,
            reject_ports=ports,
            loss=self.loss or 0.0,
            mtu=self.mtu,
            delay_ms=self.delay or 0.0,
            rate_mbit=self.rate or 0.0,
            ipv6=not self.no_ipv6,
            https_rr=not self.no_https_rr,
        )


def begin(spec: IsolateSpec, *, intercept: bool) -> Isolation:
    """Begin to set up the network.

    Raises:
        IsolateError: There is no isolation here.
    """
    from h3probe.vantage import privileges  # noqa: PLC0415 - for whoever isolates
    from h3probe.vantage.isolate.isolation import Isolation  # noqa: PLC0415 - the same

    return Isolation(spec, user=privileges.sudo_user(), intercept=intercept)


def _ports(option: str, text: str) -> frozenset[int]:
    ports = set()
    for part in filter(None, text.split(",")):
        if not part.isascii() or not part.isdecimal() or not 0 < int(part) < 65536:
            raise click.UsageError(f"{option} {text!r}: {part!r} is no port; write {option} 443,8443 or {option}")
        ports.add(int(part))
    return frozenset(ports)


def _blocked(option: str, text: str | None) -> frozenset[int] | None:
    return None if text is None else _ports(option, text)


def _reject(text: str | None) -> tuple[Refusal | None, frozenset[int]]:
    if text is None:
        return None, frozenset()
    word, colon, ports = text.partition(":")
    if not colon and word not in _KINDS:
        word, ports = "", word
    if word and word not in _KINDS:
        raise click.UsageError(f"--reject-udp {text!r}: write --reject-udp [{'|'.join(_KINDS)}][:PORTS], as admin:443")
    return cast("Refusal", word or "port"), _ports("--reject-udp", ports)


_OPTIONS = (
    click.option("--isolate", is_flag=True,
                 help="Give the command a network of its own, and stand on the only way out; needs no root (Linux)."),
    click.option("--block-udp", metavar="[PORTS]", is_flag=False, flag_value="",
                 help="With --isolate: UDP to these ports, or all, vanishes."),
    click.option("--block-udp-answers", metavar="[PORTS]", is_flag=False, flag_value="",
                 help="With --isolate: what comes back by UDP from these ports, or all, vanishes."),
    click.option("--reject-udp", metavar="[KIND][:PORTS]", is_flag=False, flag_value="",
                 help="With --isolate: UDP is refused; KIND is port (unreachable), admin (prohibited), host or net."),
    click.option("--loss", metavar="PERCENT", type=NumberRange(0, 100, min_open=True),
                 help="With --isolate: so many packets are lost, each way."),
    click.option("--mtu", metavar="N", type=click.IntRange(576, 65535), help="With --isolate: the MTU of the way out."),
    click.option("--delay", metavar="MS", type=NumberRange(0, 60_000, min_open=True),
                 help="With --isolate: the round trip takes so much longer, where the kernel can."),
    click.option("--rate", metavar="MBIT", type=NumberRange(0, 100_000, min_open=True),
                 help="With --isolate: so many megabits a second each way, where the kernel can."),
    click.option("--no-ipv6", is_flag=True, help="With --isolate: IPv4 alone."),
    click.option("--no-https-rr", is_flag=True, help="With --isolate: no HTTPS and SVCB records in DNS answers."),
)  # fmt: skip

isolate_options = gathered(IsolateOptions, "isolate", _OPTIONS)
"""Adds them all; the function gets them as one argument, `isolate`."""
