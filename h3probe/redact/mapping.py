"""What stands for what: the same replacement for the same thing, whatever packet it is found in."""

from __future__ import annotations

import hashlib
import ipaddress
import json
import re
import secrets
from typing import TYPE_CHECKING, Any, Final

from h3probe.errors import UserError
from h3probe.redact import addresses, names

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

FORMAT: Final = 1
KEY_SIZE: Final = 32
LIMIT: Final = 200_000
"""Entries of one table. Beyond it a replacement is still the same each time, but two things may get the same one."""
LONGEST_WORD: Final = 1_024
"""Bytes of a word that is remembered; a longer one is replaced just so, and is not in the file of the mapping."""
HIGH_BITS: Final = bytes(byte | 0x80 for byte in range(256))
"""Translates noise to noise that begins nothing that anyone waits for: no message, no record, no text."""
_POOL: Final = 1 << 18
_TRIES: Final = 200
_PLAIN: Final = re.compile(rb"\w+", re.ASCII)


class Mapping:
    """Replaces; what a replacement is depends on the key, on what is replaced, and on nothing else where it is unique.

    Args:
        key: 32 random bytes; new ones where None is given.
        kept: Host names, or addresses, that are not replaced.

    Attributes:
        key: The same.
        tables: By kind (`addresses`, `networks`, `macs`, `labels`, `hosts`, `connection_ids`, `interfaces`, `words`):
            each original with its replacement.
    """

    def __init__(self, key: bytes | None = None, *, kept: tuple[str, ...] = ()) -> None:
        self.key = key or secrets.token_bytes(KEY_SIZE)
        self.tables: dict[str, dict[bytes, bytes]] = {
            kind: {} for kind in ("addresses", "networks", "macs", "labels", "hosts", "connection_ids", "words")
        }
        self._used: dict[str, set[bytes]] = {kind: set() for kind in self.tables}
        self._kept_addresses: set[bytes] = set()
        self._kept_hosts = {name.lower().strip(".") for name in kept}
        self._suffixes = set(names.RESERVED)
        for name in kept:
            packed = names.literal(name.encode())
            if packed is not None:
                self._kept_addresses.add(packed)
            else:
                self._suffixes.update(names.suffixes(name.lower().strip(".")))
        self._pool = hashlib.shake_128(self.key + b"pool").digest(_POOL)

    def address(self, address: bytes) -> bytes:
        """Replace an address of 4 or 16 bytes; its network (/24, /64) is replaced alike wherever it is met."""
        known = self.tables["addresses"].get(address)
        return known if known is not None else self._new_address(address)

    def mac(self, address: bytes) -> bytes:
        """Replace a link-layer address."""
        if addresses.is_kept_mac(address):
            return address
        return self._assigned("macs", address, lambda draw: addresses.mac_candidates(address, draw))

    def connection_id(self, connection_id: bytes) -> bytes:
        """Replace a QUIC connection ID."""
        if not connection_id:
            return b""
        return self._assigned("connection_ids", connection_id, lambda draw: _bytes(len(connection_id), draw))

    def label(self, label: bytes) -> bytes:
        """Replace a label of a name, or another word, whatever it is part of."""
        label = label.lower()
        return self._assigned("labels", label, lambda draw: names.letter_candidates(len(label), draw))

    def labels(self, labels: Sequence[bytes]) -> list[bytes]:
        """Replace the labels of a name, in lower case; one that spells an address spells what stands for that."""
        made: list[bytes] = []
        suffix = ""
        for label in reversed(labels):
            text = label.decode("latin-1")
            suffix = f"{text}.{suffix}" if suffix else text
            made.append(label if not label or self.keeps(suffix) else self.label(label))
        made.reverse()
        spelled = names.reversed_address(labels)
        if spelled is not None:
            start, address = spelled
            count = len(labels) - 2 - start
            made[start:-2] = names.reversed_labels(self.address(address))[-count:]
        return made

    def word(self, word: bytes) -> bytes:
        """Replace a word that is no name: a part of a path, a user."""
        if len(word) > LONGEST_WORD:
            return bytes(names.LETTERS[byte % 26] for byte in self.credential(word))
        return self._assigned("words", word, lambda draw: names.letter_candidates(len(word), draw))

    def program(self, name: bytes) -> bytes:
        """Replace a program's name, unless many have that program."""
        return name if name in names.PROGRAMS else self.word(name)

    def keeps(self, suffix: str) -> bool:
        """Whether the first label of what is the rest of a name, in lower case, stays as it is."""
        return suffix in self._suffixes or names.is_attrleaf(suffix.partition(".")[0])

    def host(self, host: bytes) -> bytes:
        """Replace a host as text: a name, or an address, in brackets or without."""
        packed = names.literal(host)
        if packed is not None:
            return self._literal(host, packed)
        host = host.lower()
        known = self.tables["hosts"].get(host)
        if known is not None:
            return known
        name, colon, port = host.partition(b":")  # some clients put a port into the SNI
        if not (port.isdigit() and len(port) <= 5):
            name, colon, port = host, b"", b""
        end = name[len(name.rstrip(b".")) :]
        replaced = b".".join(self.labels(name.removesuffix(end).split(b"."))) + end + colon + port
        if len(self.tables["hosts"]) < LIMIT:
            self.tables["hosts"][host] = replaced
        return replaced

    def sentence(self, text: bytes) -> bytes:
        """Replace in a sentence what is neither an ordinary word nor a number, and every name that is known."""
        made = bytearray(text)
        for start, end, plain in names.words(text):
            word = text[start:end]
            if word.lower() in self.tables["hosts"]:
                made[start:end] = self.host(word)
            elif not plain:
                made[start:end] = self.word(word)
            else:  # a name without a dot, with what stands around it
                made[start:end] = _PLAIN.sub(lambda part: self._known_host(part.group()), word)
        return bytes(made)

    def keep_if_named(self, name: str, address: bytes) -> None:
        """Take note of an address that DNS gives for a name; it stays, if the name does."""
        if name in self._kept_hosts and address not in self.tables["addresses"]:
            self._kept_addresses.add(address)
            self._used["addresses"].add(address)

    def credential(self, value: bytes) -> bytes:
        """Replace something secret (a token, a ticket) by as many bytes that depend on it."""
        return hashlib.shake_128(self.key + b"secret" + value).digest(len(value))

    def noise(self, seed: bytes, length: int, offset: int = 0) -> bytes:
        """Bytes for what cannot be read, the same for the same seed and offset; no secret is made of them."""
        digest = hashlib.blake2b(seed, digest_size=4, key=self.key).digest()
        start = (int.from_bytes(digest) + offset) % _POOL
        end = start + length
        if end <= _POOL:
            return self._pool[start:end]
        return (self._pool[start:] + self._pool * (length // _POOL + 1))[:length]

    def to_json(self) -> str:
        """The mapping as text, to be kept in private."""
        tables = {kind: {_spelled(kind, a): _spelled(kind, b) for a, b in t.items()} for kind, t in self.tables.items()}
        return json.dumps({"h3probe-redact": FORMAT, "key": self.key.hex(), **tables}, indent=1) + "\n"

    @classmethod
    def from_json(cls, text: str, *, kept: tuple[str, ...] = ()) -> Mapping:
        """Go on with the mapping of an earlier run.

        Raises:
            UserError: This is no such mapping.
        """
        try:
            held: dict[str, Any] = json.loads(text)
            if held["h3probe-redact"] != FORMAT:
                raise UserError("the mapping is of another version of h3probe")
            mapping = cls(_key(held["key"]), kept=kept)
            for kind, table in mapping.tables.items():
                if kind == "hosts":
                    continue
                for original, replacement in held.get(kind, {}).items():
                    a, b = _pair(kind, original, replacement)
                    table[a] = b
                    mapping._used[kind].add(b)
            for original in held.get("hosts", {}):  # made of labels and addresses, and of what this run keeps
                mapping.host(_packed("hosts", original))
        except (ValueError, KeyError, TypeError, AttributeError, UnicodeEncodeError, RecursionError) as error:
            raise UserError(f"this is no mapping of `h3probe redact --map`: {error}") from None
        return mapping

    def _new_address(self, address: bytes) -> bytes:
        if addresses.is_kept(address) or address in self._kept_addresses:
            return address
        for prefix in addresses.EMBEDDING:
            if len(address) == 16 and address.startswith(prefix):
                return prefix + self.address(address[12:])
        length = addresses.prefix_length(address)
        network = address[:length] + bytes(len(address) - length)
        prefix = self._assigned("networks", network, lambda draw: addresses.candidates(network, None, draw))[:length]
        return self._assigned("addresses", address, lambda draw: addresses.candidates(address, prefix, draw))

    def _known_host(self, word: bytes) -> bytes:
        return self.host(word) if word.lower() in self.tables["hosts"] else word

    def _literal(self, host: bytes, packed: bytes) -> bytes:
        if b"%" in host:  # a zone (RFC 4007, 11) is an interface's name
            return self.word(host)
        replaced = self.address(packed)
        if replaced == packed:
            return host
        text = str(ipaddress.ip_address(replaced)).encode()
        if len(packed) == 16:
            before, after = (b"[", b"]") if host.startswith(b"[") else (b"", b"")
            text = before + text + after
        # Another spelling than the usual one (RFC 5952): only its length can be kept.
        return text if len(text) == len(host) else self.word(host)

    def _assigned(self, kind: str, original: bytes, made: Callable[[Iterator[int]], Iterator[bytes]]) -> bytes:
        """What stands for something: the first candidate that nothing else has."""
        table, used = self.tables[kind], self._used[kind]
        known = table.get(original)
        if known is not None:
            return known
        candidate = original
        for tried, found in enumerate(made(self._draw(kind, original))):
            if tried >= _TRIES:  # all are taken: rather the thing itself than what stands for another one
                candidate = found if original in used else original
                break
            candidate = found
            if candidate not in used and candidate != original:
                break
        if len(table) < LIMIT:
            table[original] = candidate
            used.add(candidate)
        return candidate

    def _draw(self, kind: str, original: bytes) -> Iterator[int]:
        """Numbers of 16 bits, without end, from the key and what is replaced."""
        block = 0
        while True:
            data = hashlib.blake2b(block.to_bytes(4) + kind.encode() + b"\0" + original, key=self.key).digest()
            for at in range(0, len(data), 2):
                yield int.from_bytes(data[at : at + 2])
            block += 1


def _bytes(length: int, draw: Iterator[int]) -> Iterator[bytes]:
    while True:
        yield b"".join(next(draw).to_bytes(2) for _ in range(-(-length // 2)))[:length]


def _spelled(kind: str, value: bytes) -> str:
    if kind in ("addresses", "networks"):
        return str(ipaddress.ip_address(value))
    return value.hex(":") if kind == "macs" else value.hex() if kind == "connection_ids" else value.decode("latin-1")


def _key(text: str) -> bytes:
    key = bytes.fromhex(text)
    if len(key) != KEY_SIZE:
        raise ValueError(f"its key has {len(key)} bytes")
    return key


def _pair(kind: str, original: str, replacement: str) -> tuple[bytes, bytes]:
    """An entry as it is in a table; one that would move bytes, or write others than letters, was made by nobody."""
    a, b = _packed(kind, original), _packed(kind, replacement)
    if len(a) != len(b) or (kind in {"labels", "words"} and a != b and b.strip(names.LETTERS)):
        raise ValueError(f"{original!r} cannot become {replacement!r}")
    return a, b


def _packed(kind: str, text: str) -> bytes:
    if kind in ("addresses", "networks"):
        return ipaddress.ip_address(text).packed
    if kind == "macs":
        return bytes.fromhex(text.replace(":", ""))
    return bytes.fromhex(text) if kind == "connection_ids" else text.encode("latin-1")
