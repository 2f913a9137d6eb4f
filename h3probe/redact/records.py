"""Output records (NDJSON) redacted with the mapping of the packets that they were made from."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

from h3probe.redact import names
from h3probe.redact.texts import TextRedactor, encoded

if TYPE_CHECKING:
    from collections.abc import Callable

    from h3probe.redact.mapping import Mapping

_ENDPOINT: Final = re.compile(r"(?P<host>\[[^\[\]]+\]|[^:\s]+|[0-9A-Fa-f:.]+)(?P<port>:\d{1,5})?")
_PROCESS: Final = re.compile(r"(?P<name>[^\[\]]{1,64})\[(?P<pid>\d+)\]")
_ADDRESS: Final = re.compile(
    r"\[[0-9A-Fa-f:.]{2,45}\]|(?<![\w.:])[0-9A-Fa-f]*:[0-9A-Fa-f:.]{1,44}|(?<![\w.])\d{1,3}(?:\.\d{1,3}){3}(?![\w.]*\w)"
)
_NAME: Final = re.compile(r"(?<![\w.-])[A-Za-z0-9_-]+(?:\.[A-Za-z0-9_-]+)*(?P<port>:\d)?")
_HEX: Final = re.compile(r"(?<![\w])[0-9a-f]{2,40}(?!\w)")
_REASONS_LIMIT: Final = 64
ANY_CLIENT: Final = "any"
"""What a record says where it is about every client."""


class RecordRedactor(TextRedactor):
    """Redacts records, decoded from JSON, one after the other.

    Args:
        mapping: That of the packets, so that records and packets still belong together.
    """

    def __init__(self, mapping: Mapping) -> None:
        super().__init__(mapping)
        self._processes: dict[str, str] = {}
        self._reasons: dict[str, str] = {}
        self._fields: dict[str, Callable[[str], str]] = {
            **dict.fromkeys(("server", "proxy", "sender", "from", "origin", "target", "upstream"), self.endpoint),
            **dict.fromkeys(("sni", "name", "host"), self.host),
            **dict.fromkeys(("dcid", "client_scid", "server_scid"), self._connection_id),
            **dict.fromkeys(("summary", "advice", "sentence", "what", "reason", "error", "text"), self.text),
            "client": self.client,
            "hints": self.host,
            "url": self.url,
            "value": self.alt_svc,
            "source": lambda _: "redacted",
        }

    def record(self, record: dict[str, Any]) -> dict[str, Any]:
        """Return a redacted copy."""
        # Names before sentences: what a sentence speaks of stands in its record, or in one before it.
        order = sorted(record, key=lambda key: self._fields.get(key) == self.text)
        made = {key: self._value(key, record[key], record.get("type")) for key in order}
        return {key: made[key] for key in record}

    def endpoint(self, text: str) -> str:
        """Redact `ip:port`, `host:port`, a process with its number, or one of them with a remark in brackets."""
        text, space, remark = text.partition(" (")
        return self._endpoint(text) + space + remark

    def client(self, text: str) -> str:
        """Redact whose requests they are: an endpoint, or a program, with its number or without."""
        name, space, remark = text.partition(" (")
        if ":" in name or "[" in name or names.literal(encoded(name)) is not None:
            return self.endpoint(text)
        return self.process(name) + space + remark if name != ANY_CLIENT else text

    def _endpoint(self, text: str) -> str:
        process = _PROCESS.fullmatch(text)
        if process is not None:
            return f"{self.process(process['name'])}[{process['pid']}]"
        found = _ENDPOINT.fullmatch(text)
        if found is None or names.literal(encoded(text)) is not None:
            return self.host(text)
        host = found["host"]
        if host.startswith("[") and names.literal(encoded(host)) is None:  # a name with a colon in it
            return f"[{self.host(host[1:-1])}]{found['port'] or ''}"
        return self.host(host) + (found["port"] or "")

    def process(self, name: str) -> str:
        """Redact a process's name."""
        made = self.program(name)
        self._processes[name] = made
        return made

    def text(self, text: str) -> str:
        """Redact in a sentence every address, name, connection ID and process that is known."""
        for reason, made in self._reasons.items():
            text = text.replace(reason, made)
        text = _PROCESS_IN_TEXT.sub(self._known_process, text)
        text = _ADDRESS.sub(self._known_address, text)
        text = _NAME.sub(self._known_name, text)
        return _HEX.sub(self._known_id, text)

    def _value(self, key: str, value: Any, kind: str | None) -> Any:  # noqa: ANN401 - JSON
        if isinstance(value, list):
            return [self._value(key, item, kind) for item in value]
        if key == "process" and isinstance(value, dict):
            return {**value, "name": self.process(str(value.get("name")))}
        if isinstance(value, dict):
            kind = "service" if key == "services" else "close" if key == "close" else None
            return {inner: self._value(inner, item, kind) for inner, item in value.items()}
        if not isinstance(value, str) or (key == "name" and kind == "close"):
            return value
        if key == "reason" and kind == "close":
            return self._reason(value)
        redact = self._fields.get(key)
        return value if redact is None or not value else redact(value)

    def _reason(self, text: str) -> str:
        """The words of a CONNECTION_CLOSE, as the packets have them afterwards; sentences quote them."""
        made = self._mapping.sentence(encoded(text)).decode("utf-8", "replace")
        if made != text and len(self._reasons) < _REASONS_LIMIT:
            self._reasons[text] = made
        return made

    def _connection_id(self, text: str) -> str:
        return self._mapping.connection_id(bytes.fromhex(text)).hex()

    def _known_process(self, match: re.Match[str]) -> str:
        return f"{self._processes.get(match['name'], match['name'])}[{match['pid']}]"

    def _known_address(self, match: re.Match[str]) -> str:
        packed = names.literal(encoded(match.group()))
        return self.host(match.group()) if packed in self._mapping.tables["addresses"] else match.group()

    def _known_name(self, match: re.Match[str]) -> str:
        port = match["port"] or ""
        name = match.group().removesuffix(port)
        # A name without a dot may be any word, unless a port follows it.
        known = encoded(name.lower()) in self._mapping.tables["hosts"] and ("." in name or port)
        return self.host(name) + port if known else match.group()

    def _known_id(self, match: re.Match[str]) -> str:
        text = match.group()
        known = len(text) % 2 == 0 and bytes.fromhex(text) in self._mapping.tables["connection_ids"]
        return self._connection_id(text) if known else text


_PROCESS_IN_TEXT: Final = re.compile(r"(?P<name>[^\[\]\s]{1,64})\[(?P<pid>\d+)\]")
