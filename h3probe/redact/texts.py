"""Names, addresses and URLs where they are text, and not bytes of a packet: in events and in records."""

from __future__ import annotations

from typing import TYPE_CHECKING

from h3probe.redact import http1

if TYPE_CHECKING:
    from h3probe.redact.mapping import Mapping


class TextRedactor:
    """Replaces them as in packets.

    Args:
        mapping: That of the packets, so that what is told of them and they still belong together.
    """

    def __init__(self, mapping: Mapping) -> None:
        self._mapping = mapping

    def host(self, text: str) -> str:
        """Redact a host name or an address."""
        return _decoded(self._mapping.host(encoded(text)))

    def program(self, name: str) -> str:
        """Redact a program's name, unless many have that program."""
        return _decoded(self._mapping.program(encoded(name)))

    def authority(self, text: str) -> str:
        """Redact `host:port`."""
        return _decoded(http1.authority(encoded(text), self._mapping))

    def url(self, text: str) -> str:
        """Redact a URL, or an origin."""
        return _decoded(http1.url(encoded(text), self._mapping))

    def alt_svc(self, text: str) -> str:
        """Redact the value of an Alt-Svc header."""
        return _decoded(http1.alt_svc(encoded(text), self._mapping))

    def letters(self, text: str) -> str:
        """Replace whatever it is by as many letters."""
        return _decoded(self._mapping.word(encoded(text)))


def encoded(text: str) -> bytes:
    """As UTF-8; a name of a process may hold what is no text."""
    return text.encode("utf-8", "replace")


def _decoded(data: bytes) -> str:
    return data.decode("utf-8", "replace")
