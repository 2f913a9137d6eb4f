"""TLS secrets as clients write them to the file that SSLKEYLOGFILE names (draft-ietf-tls-keylogfile).

No secret is part of any `repr`: what is logged or shown by accident does not give it away.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final

SESSIONS_LIMIT: Final = 50_000
"""Sessions whose secrets are kept; the ones that came first leave first. About 40 MiB."""

RANDOM_LENGTH: Final = 32
_MASTER_LENGTH: Final = 48
# A traffic secret is as long as the output of its suite's hash: SHA-256 or SHA-384.
_TRAFFIC_LENGTHS: Final = frozenset({32, 48})
_LINE: Final = re.compile(rb"([A-Z][A-Z0-9_]{2,63}) ([0-9A-Fa-f]{64}) ((?:[0-9A-Fa-f]{2}){1,128})")

# Label: the attribute of `SessionSecrets` that it fills.
_WANTED: Final = MappingProxyType(
    {
        b"CLIENT_RANDOM": "master",
        b"CLIENT_EARLY_TRAFFIC_SECRET": "client_early",
        b"CLIENT_HANDSHAKE_TRAFFIC_SECRET": "client_handshake",
        b"SERVER_HANDSHAKE_TRAFFIC_SECRET": "server_handshake",
        b"CLIENT_TRAFFIC_SECRET_0": "client_application",
        b"SERVER_TRAFFIC_SECRET_0": "server_application",
    }
)


@dataclass(slots=True)
class SessionSecrets:
    """The secrets of one TLS session; None where the log has none (yet).

    Attributes:
        master: TLS 1.2's master secret, 48 bytes.
        client_early: For 0-RTT data, 32 or 48 bytes, as all of TLS 1.3's.
        client_handshake: For the client's handshake.
        server_handshake: For the server's handshake.
        client_application: For the client's data, before any key update.
        server_application: For the server's data, before any key update.
    """

    master: bytes | None = field(default=None, repr=False)
    client_early: bytes | None = field(default=None, repr=False)
    client_handshake: bytes | None = field(default=None, repr=False)
    server_handshake: bytes | None = field(default=None, repr=False)
    client_application: bytes | None = field(default=None, repr=False)
    server_application: bytes | None = field(default=None, repr=False)


class KeyLog:
    """The secrets known so far, by the random of the ClientHello.

    Args:
        limit: The most sessions kept.

    Attributes:
        malformed: Lines that are neither a comment nor a label, a random and a secret of a fitting length.
        growing: Whether secrets may come later than packets that they open.
    """

    __slots__ = ("_limit", "_sessions", "growing", "malformed")

    def __init__(self, limit: int = SESSIONS_LIMIT) -> None:
        self.malformed = 0
        self.growing = False
        self._limit = limit
        self._sessions: dict[bytes, SessionSecrets] = {}

    def __len__(self) -> int:
        return len(self._sessions)

    def __repr__(self) -> str:
        return f"<KeyLog of {len(self)} sessions>"

    def get(self, client_random: bytes) -> SessionSecrets | None:
        """The secrets of the session whose ClientHello has that random; None where there are none."""
        return self._sessions.get(client_random)

    def add(self, text: bytes) -> set[bytes]:
        """Take whole lines of a key log; of two secrets of one kind the later one counts.

        Lines with labels that h3probe has no use for (EXPORTER_SECRET and the like) are passed over, and so are
        comments and empty lines. What is no key log line is counted, and nothing else becomes of it.

        Returns:
            The randoms of the sessions that were told of.
        """
        randoms = {self._line(line.strip()) for line in text.splitlines()}
        return {random for random in randoms if random is not None}

    def _line(self, line: bytes) -> bytes | None:
        """Take a line; return the random of the session whose secret it has."""
        if not line or line.startswith(b"#"):
            return None
        found = _LINE.fullmatch(line)
        if found is None:
            self.malformed += 1
            return None
        label, random, secret = found[1], bytes.fromhex(found[2].decode()), bytes.fromhex(found[3].decode())
        attribute = _WANTED.get(label)
        if attribute is None:
            return None
        if len(secret) != _MASTER_LENGTH if attribute == "master" else len(secret) not in _TRAFFIC_LENGTHS:
            self.malformed += 1
            return None
        session = self._sessions.get(random)
        if session is None:
            session = self._sessions[random] = SessionSecrets()
            if len(self._sessions) > self._limit:
                del self._sessions[next(iter(self._sessions))]
        setattr(session, attribute, secret)
        return random
