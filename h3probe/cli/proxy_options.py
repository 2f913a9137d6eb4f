"""The options of `watch` that put a proxy into the way."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import click

from h3probe.cli.options import gathered

if TYPE_CHECKING:
    from h3probe.vantage.proxy_spec import ProxySpec


@dataclass(frozen=True, slots=True)
class ProxyOptions:
    """What was given, as it was given.

    Attributes:
        proxy: Where an explicit proxy is to listen.
        upstream: The URL of the proxy behind it.
        reverses: The servers to stand before.
        intercept: The hosts whose TLS is terminated, comma-separated; empty for all, None for none.
        look_directly: Whether servers are asked past the upstream too.
        server_ca: A file with the certificates that servers may be signed by.
    """

    proxy: str | None
    upstream: str | None
    reverses: tuple[str, ...]
    intercept: str | None
    look_directly: bool
    server_ca: str | None

    @property
    def given(self) -> bool:
        """Whether there is to be a proxy."""
        return self.proxy is not None or bool(self.reverses)

    @property
    def hosts(self) -> tuple[str, ...] | None:
        """The hosts whose TLS is terminated."""
        return None if self.intercept is None else tuple(host for host in self.intercept.split(",") if host)

    @property
    def ca_file(self) -> Path | None:
        """The certificates that servers may be signed by."""
        return None if self.server_ca is None else Path(self.server_ca)

    def spec(self, *, isolated: bool) -> ProxySpec | None:
        """What is asked of the proxy; None for no proxy.

        Args:
            isolated: Whether the command has a network of its own, and interception is a part of that.

        Raises:
            UserError: An option's value is none, or two exclude each other.
        """
        if isolated:
            if self.given or self.upstream is not None or self.look_directly:
                raise click.UsageError("--isolate and a proxy exclude each other: --intercept needs none there")
            return None
        if not self.given:
            if self.upstream is not None or self.intercept is not None or self.server_ca is not None:
                raise click.UsageError(
                    "--upstream, --intercept and --server-ca are for --proxy, --reverse or --isolate"
                )
            if self.look_directly:
                raise click.UsageError("--look-directly is for --proxy with --upstream and --intercept")
            return None
        from h3probe.vantage.proxy_spec import ProxySpec, parse_proxy, parse_reverse, parse_upstream  # noqa: PLC0415

        return ProxySpec(
            listen=None if self.proxy is None else parse_proxy(self.proxy),
            reverse=tuple(parse_reverse(text) for text in self.reverses),
            upstream=None if self.upstream is None else parse_upstream(self.upstream),
            intercept=self.hosts,
            upstream_ca=self.ca_file,
            look_directly=self.look_directly,
        )


_OPTIONS = (
    click.option("--proxy", metavar="[HOST:]PORT",
                 help="Be the HTTP proxy of the command, or of any client; TLS passes untouched."),
    click.option("--upstream", metavar="URL", help="With --proxy: go on through this proxy, http://[user@]host:port."),
    click.option("--reverse", "reverses", metavar="PORT=HOST:PORT", multiple=True,
                 help="Stand before a server, with TCP and QUIC on one port (repeatable)."),
    click.option("--intercept", metavar="[HOSTS]", is_flag=False, flag_value="",
                 help="Terminate TLS, of these hosts (comma-separated) or all, to see versions and Alt-Svc."),
    click.option("--look-directly", is_flag=True,
                 help="With --upstream and --intercept: ask servers past it too, for Alt-Svc that it takes out."),
    click.option("--server-ca", metavar="FILE", type=click.Path(exists=True, dir_okay=False),
                 help="With a proxy: certificates that servers may be signed by, instead of the system's."),
)  # fmt: skip

proxy_options = gathered(ProxyOptions, "proxy", _OPTIONS)
"""Adds them all; the function gets them as one argument, `proxy`."""
