"""What is asked of the proxy: where it listens, what is behind it, whose TLS it terminates."""

from __future__ import annotations

import ipaddress
import os
from base64 import b64encode
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final
from urllib.parse import unquote, urlsplit

from h3probe.errors import UserError
from h3probe.vantage.mitm.settings import Upstream
from h3probe.vantage.targets import split_host_and_port

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

PASSWORD_VARIABLE: Final = "H3PROBE_UPSTREAM_PASSWORD"  # noqa: S105 - the name of one
_EXAMPLE: Final = "http://user@corp:3128"
_PORTS: Final = {"http": 80, "https": 443}


@dataclass(frozen=True, slots=True)
class Listen:
    """Where a proxy listens.

    Attributes:
        port: 0 for one that is free.
        host: None for both loopback addresses.
    """

    port: int
    host: str | None = None


@dataclass(frozen=True, slots=True)
class Reverse:
    """A server to stand before.

    Attributes:
        listen: Where.
        target_host: The server's name or address, without brackets.
        target_port: 1-65535.
    """

    listen: Listen
    target_host: str
    target_port: int


@dataclass(frozen=True, slots=True)
class ProxySpec:
    """All that is asked of one proxy.

    Attributes:
        listen: Where an explicit proxy listens; None for one of another kind.
        reverse: The servers that a reverse proxy stands before.
        upstream: The proxy behind an explicit one.
        intercept: The hosts whose TLS is terminated; empty for all, None for none.
        upstream_ca: Certificates that servers may be signed by, PEM; the system's unless given.
        look_directly: Whether servers are asked past `upstream` too, for the Alt-Svc that it may take out.
        insecure: Whether servers' certificates are believed unseen.
        transparent: Where a transparent proxy listens for what is redirected to it, an address and a port for each
            family. Not the unspecified address: a client that knew it could have the proxy connect to itself forever.
        temporary: Whether its authority is made anew, and removed with it, however this process ends.
        aliases: Of a transparent proxy: addresses, and the ones that its clients had in mind, where something before it
            has put the former in place of the latter (`("198.18.0.9", "127.0.0.1")`).
    """

    listen: Listen | None = None
    reverse: tuple[Reverse, ...] = ()
    upstream: Upstream | None = None
    intercept: tuple[str, ...] | None = None
    upstream_ca: Path | None = None
    look_directly: bool = False
    insecure: bool = False
    transparent: tuple[Listen, ...] = ()
    aliases: tuple[tuple[str, str], ...] = ()
    temporary: bool = False

    def __post_init__(self) -> None:
        if [self.listen is not None, bool(self.reverse), bool(self.transparent)].count(True) != 1:
            raise UserError("a proxy is either explicit (--proxy), or reverse (--reverse), or transparent")
        if self.listen is None and self.upstream is not None:
            kind = "reverse" if self.reverse else "transparent"
            raise UserError(f"--upstream is for --proxy: a {kind} proxy connects to its server itself")
        if not all(listen.port and _is_one_address(listen.host) for listen in self.transparent):
            raise UserError("a transparent proxy listens on given ports of given addresses")
        if self.look_directly and (self.upstream is None or self.intercept is None):
            raise UserError("--look-directly is for --upstream with --intercept: it tells what the upstream takes out")


def _is_one_address(host: str | None) -> bool:
    try:
        return host is not None and not ipaddress.ip_address(host).is_unspecified
    except ValueError:
        return False


def parse_proxy(text: str) -> Listen:
    """Read `[HOST:]PORT`, an IPv6 host in brackets.

    Raises:
        UserError: It is anything else.
    """
    try:
        host, port = split_host_and_port(text, lowest=0, barred="=")
    except ValueError as error:
        raise UserError(f"--proxy {text!r}: {error}; write [HOST:]PORT, as 8899") from None
    return Listen(port, host)


def parse_reverse(text: str) -> Reverse:
    """Read `[HOST:]PORT=HOST:PORT`, IPv6 hosts in brackets.

    Raises:
        UserError: It is anything else.
    """
    hint = "write [HOST:]PORT=HOST:PORT, as 8443=example.org:443"
    listen, _, target = text.partition("=")
    try:
        host, port = split_host_and_port(listen, lowest=0, barred="=")
        target_host, target_port = split_host_and_port(target, lowest=1, barred="=")
    except ValueError as error:
        raise UserError(f"--reverse {text!r}: {error}; {hint}") from None
    if target_host is None:
        raise UserError(f"--reverse {text!r}: the target has no host; {hint}")
    return Reverse(Listen(port, host), target_host, target_port)


def parse_upstream(text: str, environment: Mapping[str, str] | None = None) -> Upstream:
    """Read the URL of the proxy behind this one: `http[s]://[USER[:PASSWORD]@]HOST[:PORT]`.

    A user without a password has it in `H3PROBE_UPSTREAM_PASSWORD`, where `ps` does not show it.

    Raises:
        UserError: It is anything else; its message has no credential in it.
    """
    environment = os.environ if environment is None else environment
    hint = f"write http[s]://[USER@]HOST:PORT, as {_EXAMPLE} with the password in ${PASSWORD_VARIABLE}"
    try:
        parts = urlsplit(text if "://" in text else f"http://{text}")
        port = parts.port
    except ValueError:
        raise UserError(f"--upstream: that is no URL of a proxy; {hint}") from None
    if parts.scheme not in _PORTS or not parts.hostname or parts.path not in ("", "/") or parts.query or port == 0:
        raise UserError(f"--upstream: that is no URL of a proxy; {hint}")
    authorization = None
    if parts.username is not None:
        password = unquote(parts.password) if parts.password is not None else environment.get(PASSWORD_VARIABLE)
        if password is None:
            raise UserError(f"--upstream has a user and no password: put it into ${PASSWORD_VARIABLE}")
        authorization = _basic(unquote(parts.username), password)
    return Upstream(parts.scheme, parts.hostname, port or _PORTS[parts.scheme], authorization)


def _basic(user: str, password: str) -> str:
    """Basic credentials (RFC 7617, 2)."""
    if ":" in user:
        raise UserError("--upstream: a user's name has no colon in it (RFC 7617)")
    return "Basic " + b64encode(f"{user}:{password}".encode()).decode("ascii")
