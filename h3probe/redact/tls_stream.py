"""TLS on a TCP connection: handshake messages in the clear rewritten, up to the first protected record."""

from __future__ import annotations

from typing import TYPE_CHECKING

from h3probe.errors import DecodeError
from h3probe.redact.side import Handshake
from h3probe.wire import tls_names
from h3probe.wire.tls import LARGEST_RECORD
from h3probe.wire.tls_hello import parse_server_hello

if TYPE_CHECKING:
    from h3probe.redact.hello import Hellos
    from h3probe.redact.mapping import Mapping
    from h3probe.redact.side import Side, Step


class TlsMessages:
    """Rewrites the messages of one connection."""

    def __init__(self, mapping: Mapping, hellos: Hellos) -> None:
        self._mapping = mapping
        self._hellos = hellos
        self._tls13 = False

    def step(self, side: Side, *, from_client: bool) -> Step:
        """Rewrite the records up to the end of a handshake message; from a protected record on nothing is read."""
        data = side.waiting
        kind = data[0]
        if kind == tls_names.HANDSHAKE and not side.ciphered:
            return self._handshake(side, from_client=from_client)
        if len(data) < 5:
            return "waits"
        end = 5 + int.from_bytes(data[3:5])
        if not 20 <= kind <= 24 or data[1] != 3 or end > 5 + LARGEST_RECORD:
            return "ends"
        if (kind in {tls_names.CHANGE_CIPHER_SPEC, tls_names.ALERT}) and not side.ciphered and end <= 7:
            if len(data) < end:
                return "waits"
            side.made += data[:end]
            del data[:end]
            if kind == tls_names.CHANGE_CIPHER_SPEC and not self._tls13:
                side.ciphered = True
            return "moved"
        return "protected"

    def _handshake(self, side: Side, *, from_client: bool) -> Step:
        data, found = side.waiting, side.handshake
        while len(data) - found.position >= 5 and data[found.position] == tls_names.HANDSHAKE:
            begin = found.position
            end = begin + 5 + int.from_bytes(data[begin + 3 : begin + 5])
            if end > len(data) or end == begin + 5 or data[begin + 1] != 3:
                break
            found.spans.append((begin, end))
            found.position = end
            if not found.add(bytes(data[begin + 5 : end])):
                continue
            plain = bytes(found.plain)
            made, _ = self._hellos.messages(plain)
            if not from_client:
                self._chosen(plain)
            at = 0
            for start, stop in found.spans:
                size = stop - start - 5
                side.made += data[start : start + 5] + made[at : at + size]
                at += size
            del data[: found.position]
            side.handshake = Handshake()
            return "moved"
        if len(data) - found.position >= 2 and not (
            data[found.position] == tls_names.HANDSHAKE and data[found.position + 1] == 3
        ):
            return "protected"  # a message that is cut short, or an empty record
        return "waits"

    def _chosen(self, plain: bytes) -> None:
        """Note from a ServerHello which version is spoken: in TLS 1.3 a ChangeCipherSpec means nothing."""
        if plain[:1] != bytes((tls_names.SERVER_HELLO,)):
            return
        try:
            hello = parse_server_hello(plain[4 : 4 + int.from_bytes(plain[1:4])])
        except DecodeError:
            return
        self._tls13 = hello.is_tls13 or hello.is_retry

    def salvage(self, side: Side, start: int, waiting: bytes) -> None:
        """Rewrite what is whole in handshake records that never became so, and show how the next message begins.

        Args:
            side: A direction that has ended.
            start: Where what waited stands in what was made of it.
            waiting: That, as it was.
        """
        plain = bytearray()
        spans: list[tuple[int, int]] = []
        position = 0
        while waiting[position : position + 2] == b"\x16\x03":
            begin, position = position + 5, position + 5 + int.from_bytes(waiting[position + 3 : position + 5])
            spans.append((begin, min(position, len(waiting))))
            plain += waiting[begin:position]
        made, used = self._hellos.messages(bytes(plain))
        rest = bytes(plain[used:])
        shown = 6 if rest[:1] in (b"\x01", b"\x02") else 4  # a hello's version tells it from other bytes
        made += rest[:shown] + self._mapping.credential(rest[shown:])
        for begin, stop in spans:
            size = max(stop - begin, 0)
            side.made[start + begin : start + begin + size] = made[:size]
            made = made[size:]
