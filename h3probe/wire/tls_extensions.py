"""What stands in the extensions of TLS messages: names, protocols, versions, groups (RFC 8446, 4.2).

One that is broken costs only the field it would have filled.
"""

from __future__ import annotations

import struct
from functools import lru_cache
from typing import TYPE_CHECKING

from h3probe.errors import DecodeError, TruncatedError
from h3probe.wire.buffer import Reader

if TYPE_CHECKING:
    from collections.abc import Callable

Extensions = tuple[tuple[int, bytes], ...]

LONGEST_SHARED = 256
"""Bytes of a list that equal ones are shared of; longer ones are nobody's habit."""

_EXTENSION = struct.Struct(">HH")


def read_extensions(reader: Reader) -> Extensions:
    """The rest of a hello: its extensions, or nothing at all (RFC 5246, 7.4.1.2).

    A single byte cannot be their length: some clients that send no compression method either leave one there.
    """
    if reader.remaining < 2:
        return ()
    block = reader.vector(2)
    found: list[tuple[int, bytes]] = []
    position = 0
    while position < len(block):
        if len(block) - position < 4:
            raise TruncatedError(f"an extension wanted at offset {position}, {len(block) - position} bytes there")
        kind, length = _EXTENSION.unpack_from(block, position)
        position += 4 + length
        if position > len(block):
            raise TruncatedError(f"an extension of {length} bytes ends {position - len(block)} bytes past the others")
        found.append((kind, block[position - length : position]))
    return tuple(found)


def extension_field[T, D](given: dict[int, bytes], extension: int, parse: Callable[[bytes], T], default: D) -> T | D:
    """What one extension says; `default` if it is not there or is broken."""
    if extension not in given:
        return default
    try:
        return parse(given[extension])
    except DecodeError:
        return default


def _whole(data: bytes, length_size: int) -> bytes:
    """The contents of an extension that is one vector and nothing else."""
    reader = Reader(data)
    contents = reader.vector(length_size)
    if reader.remaining:
        raise DecodeError(f"{reader.remaining} bytes after a vector")
    return contents


def _habitual[T](parse: Callable[[bytes], T]) -> Callable[[bytes], T]:
    """Parse the same bytes once: a client's hellos have the same lists each time, kept as long as its connections."""
    parse_new = lru_cache(maxsize=512)(parse)

    def parsed(data: bytes) -> T:
        return parse_new(data) if len(data) <= LONGEST_SHARED else parse(data)

    return parsed


@_habitual
def u16s(data: bytes) -> tuple[int, ...]:
    """A list of 16-bit values, without its length."""
    if len(data) % 2:
        raise DecodeError(f"{len(data)} bytes are no list of 16-bit values")
    return struct.unpack(f">{len(data) // 2}H", data)


@_habitual
def version_list(data: bytes) -> tuple[int, ...]:
    """The versions that a client offers (RFC 8446, 4.2.1)."""
    return u16s(_whole(data, 1))


@_habitual
def code_points(data: bytes) -> tuple[int, ...]:
    """Named groups, or signature algorithms (RFC 8446, 4.2.7 and 4.2.3)."""
    return u16s(_whole(data, 2))


def name_text(value: bytes) -> str:
    """A name from the network as text: UTF-8, and what is not UTF-8 as a backslash escape."""
    return value.decode("utf-8", "backslashreplace")


def server_name(data: bytes) -> str | None:
    """The first entry of type host_name (RFC 6066, 3)."""
    names = Reader(_whole(data, 2))
    while names.remaining:
        is_host_name = names.u8() == 0
        name = names.vector(2)
        if is_host_name:
            return name.decode("ascii", "backslashreplace") or None
    return None


@_habitual
def alpn_names(data: bytes) -> tuple[bytes, ...]:
    """The protocol names of RFC 7301, 3.1."""
    names = Reader(_whole(data, 2))
    found: list[bytes] = []
    while names.remaining:
        found.append(names.vector(1))
    return tuple(found)


@_habitual
def alpn_texts(data: bytes) -> tuple[str, ...]:
    """The same as text."""
    return tuple(map(name_text, alpn_names(data)))


def key_share_groups(data: bytes) -> tuple[int, ...]:
    """The groups of the key shares (RFC 8446, 4.2.8)."""
    shares = Reader(_whole(data, 2))
    found: list[int] = []
    while shares.remaining:
        found.append(shares.u16())
        shares.vector(2)
    return tuple(found)
