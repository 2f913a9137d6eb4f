"""What h3probe tells its mitmdump: one line of JSON on standard input, so that no credential is ever an argument.

Standard input stays open after that line. More lines may follow, each a `QuicReady`. Its end is the end of h3probe, and
mitmdump's too.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass


@dataclass(frozen=True, slots=True)
class Upstream:
    """The proxy behind this one.

    Attributes:
        scheme: `http`, or `https` for a proxy that is itself reached over TLS.
        host: A name or an address, without brackets.
        port: 1-65535.
        authorization: A Proxy-Authorization value for requests that bring none.
    """

    scheme: str
    host: str
    port: int
    authorization: str | None = None

    @property
    def name(self) -> str:
        """`host:port`, and no credential."""
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


@dataclass(frozen=True, slots=True)
class Standing:
    """A server that a reverse proxy stands before.

    Attributes:
        port: Where the proxy listens.
        target_host: The server's name or address, without brackets.
        target_port: The server's port.
    """

    port: int
    target_host: str
    target_port: int


@dataclass(frozen=True, slots=True)
class Settings:
    """All of it.

    Attributes:
        events: The descriptor that events are written to, inherited.
        intercept: The hosts whose TLS is terminated; empty for all, None for none.
        upstream: The proxy behind this one.
        standing: The servers that it stands before, in reverse mode.
        look_directly: Whether servers whose answers bring no Alt-Svc are asked past `upstream` too.
        temporary: Whether the folder of the authority goes with the proxy.
        secrets: Texts that must not appear in any log line.
        aliases: Addresses, and what clients had in mind that connect to them, in transparent mode.
    """

    events: int
    intercept: tuple[str, ...] | None = None
    upstream: Upstream | None = None
    standing: tuple[Standing, ...] = ()
    look_directly: bool = False
    secrets: tuple[str, ...] = ()
    aliases: tuple[tuple[str, str], ...] = ()
    temporary: bool = False

    def dump(self) -> str:
        """One line of JSON, with its line end."""
        return json.dumps(asdict(self)) + "\n"

    @classmethod
    def load(cls, line: str) -> Settings:
        """Read what `dump` wrote."""
        values = json.loads(line)
        return cls(
            events=values["events"],
            intercept=None if values["intercept"] is None else tuple(values["intercept"]),
            upstream=None if values["upstream"] is None else Upstream(**values["upstream"]),
            standing=tuple(Standing(**each) for each in values["standing"]),
            look_directly=values["look_directly"],
            secrets=tuple(values["secrets"]),
            aliases=tuple((address, meant) for address, meant in values["aliases"]),
            temporary=values["temporary"],
        )


@dataclass(frozen=True, slots=True)
class QuicReady:
    """A client has QUIC to a host, which went past a transparent proxy: it may well give up TCP to that host now.

    Attributes:
        host: By its ClientHello.
    """

    host: str

    def dump(self) -> str:
        """One line of JSON, with its line end."""
        return json.dumps(asdict(self)) + "\n"

    @classmethod
    def load(cls, line: str) -> QuicReady:
        """Read what `dump` wrote."""
        return cls(json.loads(line)["host"])
