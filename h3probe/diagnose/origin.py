"""How an origin is written, and the name that a connection asks for."""

from __future__ import annotations

from typing import TYPE_CHECKING

from h3probe.text import bare_name, clean

if TYPE_CHECKING:
    from h3probe.track.tracker import Connection

# Names that stand for all of a provider's customers (draft-ietf-tls-esni, 4: the public name). Which other names do
# cannot be told: browsers send the extension with a site's own name, too, so that it means nothing.
ECH_PUBLIC_NAMES = frozenset({"cloudflare-ech.com"})


def origin_text(host: str, port: int) -> str:
    """`host:port`, an IPv6 host in brackets; harmless to print."""
    host = clean(host, 255)
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def origin_of_url(origin: str) -> str:
    """`https://host:port` as `host:port`; however long the host is, the port stays."""
    host, _, port = (origin.partition("://")[2] or origin).rpartition(":")
    return f"{clean(host, 300)}:{port}".lower()


def name_of(connection: Connection) -> str | None:
    """The name that a connection asks for, as `bare_name` has it; None where nothing tells it."""
    hello = connection.hello
    if hello is None or not hello.sni or (connection.transport == "tcp" and connection.inner):
        return connection.told_host
    name = bare_name(hello.sni)
    return None if hello.ech and name in ECH_PUBLIC_NAMES else name


def may_ask_for(name: str, *, hello_read: bool) -> bool:
    """Whether a connection that names no host may be for one of this name.

    A ClientHello that was read and names nobody is one for an address (RFC 6066, 3), or for a name without a dot, which
    Java does not send either.
    """
    return not hello_read or "." not in name
