"""Whose TLS is terminated, and whose passes through untouched."""

from __future__ import annotations

import ipaddress
import re
import time
from typing import TYPE_CHECKING, Final

from h3probe.wire.tls_names import alert_name

if TYPE_CHECKING:
    from collections.abc import Sequence

    from h3probe.events import Transport

CERTIFICATE_ALERTS: Final = frozenset(
    {
        "bad_certificate",
        "unsupported_certificate",
        "certificate_revoked",
        "certificate_expired",
        "certificate_unknown",
        "unknown_ca",
    }
)
"""The alerts by which a client refuses a certificate (RFC 8446, 6.2)."""
REMEMBERED: Final = 10_000
_ALERT: Final = re.compile(r"alert ([a-z ]+)")
_CRYPTO_ERROR: Final = 0x100


class Policy:
    """Decides for each connection; a host whose certificate was refused is let alone from then on.

    Args:
        hosts: Names, `*.example.org` for all below one, or addresses; empty for all hosts, None for none.
    """

    def __init__(self, hosts: Sequence[str] | None) -> None:
        self._all = hosts is not None and not hosts
        self._hosts = tuple(host.lower().strip("[]") for host in hosts or ())
        self._refused: set[tuple[Transport, str]] = set()
        self._accepted: set[str] = set()
        self._quic_ready: dict[str, float] = {}

    @property
    def intercepts(self) -> bool:
        """Whether it terminates anything at all."""
        return self._all or bool(self._hosts)

    def may(self, transport: Transport, host: str) -> bool:
        """Whether a connection to `host` may be terminated, before its ClientHello has named another one."""
        if not self.intercepts or (transport, host.lower()) in self._refused:
            return False
        return self._all or self._matches(host) or _is_address(host)

    def wants(self, transport: Transport, host: str, sni: str | None) -> bool:
        """Whether a connection to `host`, or by its ClientHello to `sni`, is to be terminated."""
        names = {host.lower(), (sni or host).lower()}
        if not self.intercepts or any((transport, name) in self._refused for name in names):
            return False
        return self._all or any(self._matches(name) for name in names)

    def refuse(self, transport: Transport, *hosts: str) -> None:
        """A client refused the certificate of these hosts: let them alone from now on.

        Over QUIC browsers refuse a CA that they take over TCP; one that is refused over TCP is no good anywhere.
        """
        transports: tuple[Transport, ...] = ("tcp", "udp") if transport == "tcp" else ("udp",)
        if len(self._refused) < REMEMBERED:
            self._refused.update((each, host.lower()) for host in hosts for each in transports)

    def accept(self, *hosts: str) -> None:
        """A client believed the certificate of these hosts."""
        if len(self._accepted) < REMEMBERED:
            self._accepted.update(host.lower() for host in hosts)

    def is_accepted(self, *hosts: str) -> bool:
        """Whether a client ever believed the certificate of one of these hosts, over TCP or QUIC."""
        return any(host.lower() in self._accepted for host in hosts)

    def quic_ready(self, host: str) -> None:
        """A client has QUIC to a host now, past this proxy."""
        self._quic_ready[host.lower()] = time.monotonic()
        if len(self._quic_ready) > REMEMBERED:
            del self._quic_ready[next(iter(self._quic_ready))]

    def was_raced(self, host: str, since: float) -> bool:
        """Whether a client got QUIC to a host since then, by `time.monotonic`, and had no more need of TCP."""
        return self._quic_ready.get(host.lower(), since) > since

    def _matches(self, name: str) -> bool:
        name = name.lower()
        return any(
            name.endswith(pattern[1:]) if pattern.startswith("*.") else name == pattern for pattern in self._hosts
        )


def _is_address(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True


def refusal_over_tls(error: str | None) -> str | None:
    """The alert in OpenSSL's words for a failed handshake (`ssl/tls alert certificate unknown`), if it is a refusal."""
    found = _ALERT.search(error or "")
    name = "" if found is None else found[1].strip().replace(" ", "_")
    return name if name in CERTIFICATE_ALERTS else None


def refusal_over_quic(code: int | None) -> str | None:
    """The alert in a QUIC error code (RFC 9001, 4.8), if it is a refusal."""
    if code is None or not _CRYPTO_ERROR <= code < 2 * _CRYPTO_ERROR:
        return None
    name = alert_name(code - _CRYPTO_ERROR)
    return name if name in CERTIFICATE_ALERTS else None
