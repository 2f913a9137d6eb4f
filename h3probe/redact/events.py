"""What was observed beside the packets (the proxy, the client's log, the run), redacted with their mapping."""

from __future__ import annotations

import re
from dataclasses import fields, replace
from typing import TYPE_CHECKING, Any, Final

from h3probe.events import (
    CaptureEnded,
    ConnectionOwner,
    Dropped,
    Endpoint,
    Process,
    ProxyDied,
    ProxyEvent,
    ProxyLog,
    RunBegan,
    RunEnded,
    TimePassed,
    Told,
    Uncounted,
    Unreadable,
)
from h3probe.redact import names
from h3probe.redact.texts import TextRedactor, encoded

if TYPE_CHECKING:
    from collections.abc import Callable

    from h3probe.redact.mapping import Mapping

Lost = Dropped | Uncounted | Unreadable
Observed = ProxyEvent | Told | RunBegan | ConnectionOwner | TimePassed | RunEnded | CaptureEnded | Lost

_TEXTS: Final = frozenset({"error", "text", "reason", "conditions"})
# Of a few words each, which the reader of events has checked.
_CHOICES: Final = frozenset(
    {"mode", "transport", "by", "closed_by", "kind", "format", "vantage", "expects", "known_from", "level"}
)
# What stays where it looks as it should; it says what software is used, and how.
_PATTERNS: Final[dict[str, re.Pattern[str]]] = {
    "mitmproxy": re.compile(r"[0-9][\w.+-]{0,31}", re.ASCII),
    "h3probe": re.compile(r"[0-9][\w.+-]{0,31}", re.ASCII),
    "method": re.compile(r"GET|HEAD|POST|PUT|DELETE|CONNECT|OPTIONS|TRACE|PATCH|connect-udp"),
    "version": re.compile(r"HTTP/[0-9](\.[0-9])?"),
    "server_version": re.compile(r"HTTP/[0-9](\.[0-9])?"),
    "ja4": re.compile(r"[a-z0-9]{10}_[0-9a-f]{12}_[0-9a-f]{12}"),
    "alpn": re.compile(r"h[23](-\d\d)?|http/1\.[01]|h2c|acme-tls/1"),
    "alert": re.compile(r"[a-z][a-z_]{0,40}"),
    "challenges": re.compile(r"(?i)basic|digest|negotiate|ntlm|bearer|kerberos"),
    "id": re.compile(r"[a-z]{1,2}\d{1,12}"),
    "connection": re.compile(r"[a-z]{1,2}\d{1,12}"),
    "tunnel": re.compile(r"[a-z]{1,2}\d{1,12}"),
    "source": re.compile(r"all interfaces|a network of its own"),
    "swallows_icmp": re.compile(r"pasta|slirp4netns"),
}
_WORD: Final = re.compile(r"\S+")
# What stands around a word.
_BEFORE: Final = "\"'(<{“"
_AFTER: Final = "\"')>},;:!?=.”"


class EventRedactor(TextRedactor):
    """Redacts events, one after the other.

    Args:
        mapping: That of the packets, so that events and packets still belong together.
    """

    def __init__(self, mapping: Mapping) -> None:
        super().__init__(mapping)
        self._fields: dict[str, Callable[[str], str]] = {
            **dict.fromkeys(_TEXTS, self.text),
            **dict.fromkeys(_CHOICES, str),
            **dict.fromkeys(("host", "sni"), self.host),
            **dict.fromkeys(("target", "upstream", "origins"), self.authority),
            **dict.fromkeys(("origin", "url"), self.url),
            **dict.fromkeys(("lines", "passed_on"), self.alt_svc),
            **dict.fromkeys(("alone", "behind_proxy"), self.program),
        }

    def event[T: Observed](self, event: T) -> T | None:
        """Return a redacted copy; None for a line of a log, which may tell of anything."""
        if isinstance(event, ProxyLog):
            return None
        if isinstance(event, ProxyDied):
            return replace(event, last_words=tuple(map(self.text, event.last_words[-1:])))  # the one that is told of
        given = {each.name: getattr(event, each.name) for each in fields(event)}
        # Names before sentences: what a sentence speaks of stands beside it, or in an event before it.
        order = sorted(given, key=_TEXTS.__contains__)
        return replace(event, **{name: self._value(name, given[name]) for name in order})

    def text(self, text: str) -> str:
        """Redact a sentence: addresses, names, paths, and every word that is none; ordinary words stay."""
        return _WORD.sub(self._word, text)

    def _value(self, name: str, value: Any) -> Any:  # noqa: ANN401 - one kind of value after the other
        if isinstance(value, Endpoint):
            return Endpoint(self._mapping.address(value.host), value.port)
        if isinstance(value, Process):
            return Process(value.pid, self.program(value.name))
        if isinstance(value, tuple):
            return tuple(self._value(name, each) for each in value)
        if isinstance(value, bytes):
            return self._mapping.address(value) if name == "local" else self._mapping.connection_id(value)
        if not isinstance(value, str) or not value:
            return value
        redact = self._fields.get(name)
        if redact is not None:
            return redact(value)
        pattern = _PATTERNS.get(name)
        return value if pattern is not None and pattern.fullmatch(value) else self.letters(value)

    def _word(self, match: re.Match[str]) -> str:
        """A word of a sentence, with what stands around it."""
        token = match.group()
        inner = token.lstrip(_BEFORE)
        word = inner.rstrip(_AFTER)
        before, after = token[: len(token) - len(inner)], inner[len(word) :]
        host, colon, port = word.rpartition(":")
        if not (colon and port.isdigit()):
            host = word
        known = encoded(host.lower()) in self._mapping.tables["hosts"] or names.literal(encoded(host)) is not None
        if known or names.is_domain(host):
            made = self.authority(word)
        elif not word or names.is_plain(encoded(word)):
            made = word
        else:
            made = self.url(word) if "://" in word else self.letters(word)
        return before + made + after
