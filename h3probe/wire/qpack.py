"""Compressed fields of HTTP/3 (RFC 9204), as an observer decodes one direction of them."""

from __future__ import annotations

from typing import Final

import pylsqpack

from h3probe.errors import DecodeError, TruncatedError

Fields = list[tuple[bytes, bytes]]

LARGEST_SECTION: Final = 64 << 10
"""Bytes of one message's compressed fields that are read."""
LARGEST_TABLE: Final = 64 << 10
"""The largest dynamic table that is kept for one direction: what Chromium and Firefox offer."""
LINES_LIMIT: Final = 1024
REFERENCES_LIMIT: Final = 256
"""Fields of one message that may come from the dynamic table: each can grow to the size of the whole table."""
BLOCKED_LIMIT: Final = 64
"""Field sections that may wait for the encoder stream at the same time."""
EARLY_LIMIT: Final = 64 << 10
"""Bytes of the encoder stream that may come before the SETTINGS that allow them."""
# RFC 9204, 4.1.1: an integer that takes more bytes than this is out of all proportion.
_LONGEST_INTEGER: Final = 6


class QpackDecoder:
    """Decodes what one side compressed.

    A section without references to the dynamic table can always be decoded, whatever of the encoder stream is missing.

    Attributes:
        lost: Whether nothing that refers to the dynamic table can be decoded any more.
    """

    __slots__ = ("_dynamic", "_early", "_held", "_static", "_waiting", "lost")

    def __init__(self) -> None:
        self.lost = False
        self._static = pylsqpack.Decoder(0, 0)
        self._dynamic: pylsqpack.Decoder | None = None
        self._early = bytearray()
        # Sections that came before the SETTINGS, and sections that wait in the library, by a number that is used once.
        self._held: list[tuple[int, bytes]] = []
        self._waiting: set[int] = set()

    def allow(self, capacity: int) -> list[tuple[int, Fields]]:
        """Take the other side's SETTINGS_QPACK_MAX_TABLE_CAPACITY; return the sections that had waited for it.

        Raises:
            DecodeError: What came before it cannot be decoded.
        """
        if self._dynamic is not None or self.lost:
            return []
        if capacity > LARGEST_TABLE:
            self._give_up()
            return []
        self._dynamic = pylsqpack.Decoder(capacity, BLOCKED_LIMIT)
        early, self._early = bytes(self._early), bytearray()
        held, self._held = self._held, []
        done = self.feed_encoder(early) if early else []
        for token, section in held:
            fields = self.decode(token, section)
            if fields is not None:
                done.append((token, fields))
        return done

    def feed_encoder(self, data: bytes) -> list[tuple[int, Fields]]:
        """Take bytes of the encoder stream (RFC 9204, 4.3); return the sections that had waited for them.

        Raises:
            DecodeError: They are no instructions; only sections without references can be decoded from now on.
        """
        if self.lost:
            return []
        if self._dynamic is None:
            self._early += data
            if len(self._early) > EARLY_LIMIT:
                self._give_up()
            return []
        try:
            ready = self._dynamic.feed_encoder(data)
        except pylsqpack.EncoderStreamError:
            self._give_up()
            raise DecodeError("an encoder stream that cannot be followed") from None
        done: list[tuple[int, Fields]] = []
        for token in ready:
            self._waiting.discard(token)
            try:
                done.append((token, self._dynamic.resume_header(token)[1]))
            except (pylsqpack.DecompressionFailed, pylsqpack.StreamBlocked):
                continue
        return done

    def decode(self, token: int, section: bytes) -> Fields | None:
        """Decode a field section.

        Args:
            token: A number used once, by which it is given back where it must wait.
            section: All of it.

        Returns:
            The fields; None where they must wait for the encoder stream.

        Raises:
            DecodeError: They cannot be decoded, or never will be.
        """
        references = check_section(section)
        if not references and section[:1] == b"\x00":
            return self._decoded(self._static, token, section)
        if self.lost or len(self._waiting) + len(self._held) >= BLOCKED_LIMIT:
            raise DecodeError("fields that refer to a table that is not known")
        if self._dynamic is None:
            self._held.append((token, section))
            return None
        return self._decoded(self._dynamic, token, section)

    def _decoded(self, decoder: pylsqpack.Decoder, token: int, section: bytes) -> Fields | None:
        try:
            return decoder.feed_header(token, section)[1]
        except pylsqpack.StreamBlocked:
            self._waiting.add(token)
            return None
        except pylsqpack.DecompressionFailed:
            raise DecodeError("fields that cannot be decompressed") from None

    def _give_up(self) -> None:
        self.lost = True
        self._dynamic = None
        self._early.clear()
        self._held.clear()
        self._waiting.clear()


def check_section(section: bytes) -> int:
    """Walk over a field section without decoding it, so that no length in it is taken on trust (RFC 9204, 4.5).

    Returns:
        How many of its lines refer to the dynamic table.

    Raises:
        DecodeError: Its lines do not end where it ends, or there are too many of them.
    """
    if len(section) > LARGEST_SECTION:
        raise DecodeError(f"a field section of {len(section)} bytes")
    _, at = _integer(section, 0, 8)
    _, at = _integer(section, at, 7)
    lines = references = 0
    while at < len(section):
        first = section[at]
        lines += 1
        if first & 0x80:  # indexed
            references += not first & 0x40
            _, at = _integer(section, at, 6)
        elif first & 0x40:  # literal with a name reference
            references += not first & 0x10
            _, at = _integer(section, at, 4)
            at = _string(section, at, 7)
        elif first & 0x20:  # literal with a literal name
            at = _string(section, at, 3)
            at = _string(section, at, 7)
        elif first & 0x10:  # indexed, after the base
            references += 1
            _, at = _integer(section, at, 4)
        else:  # literal with a name reference, after the base
            references += 1
            _, at = _integer(section, at, 3)
            at = _string(section, at, 7)
    if lines > LINES_LIMIT or references > REFERENCES_LIMIT:
        raise DecodeError(f"a field section of {lines} lines, {references} of them references")
    return references


def _integer(data: bytes, at: int, bits: int) -> tuple[int, int]:
    """The integer with a prefix of so many bits (RFC 7541, 5.1), and the offset after it."""
    if at >= len(data):
        raise TruncatedError("a field section that ends within a line")
    mask = (1 << bits) - 1
    value = data[at] & mask
    at += 1
    if value < mask:
        return value, at
    for index in range(_LONGEST_INTEGER):
        if at >= len(data):
            raise TruncatedError("a field section that ends within a line")
        byte = data[at]
        at += 1
        value += (byte & 0x7F) << 7 * index
        if not byte & 0x80:
            return value, at
    raise DecodeError("an integer that does not end")


def _string(data: bytes, at: int, bits: int) -> int:
    """The offset after a string whose length has a prefix of so many bits."""
    length, at = _integer(data, at, bits)
    if length > len(data) - at:
        raise TruncatedError("a field section that ends within a line")
    return at + length
