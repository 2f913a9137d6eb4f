"""Builds TLS hello messages of any shape, for tests."""

from __future__ import annotations


def vector(length_size: int, contents: bytes) -> bytes:
    """Contents with their length before them."""
    return len(contents).to_bytes(length_size) + contents


def u16s(*values: int) -> bytes:
    """16-bit values, one after the other."""
    return b"".join(value.to_bytes(2) for value in values)


def server_name(name: bytes) -> tuple[int, bytes]:
    """A server_name extension with one host name."""
    return 0, vector(2, b"\x00" + vector(2, name))


def alpn(*protocols: bytes) -> tuple[int, bytes]:
    """An ALPN extension."""
    return 16, vector(2, b"".join(vector(1, protocol) for protocol in protocols))


def supported_versions(*versions: int) -> tuple[int, bytes]:
    """A client's supported_versions extension."""
    return 43, vector(1, u16s(*versions))


def extension_block(extensions: list[tuple[int, bytes]]) -> bytes:
    """Extensions as they end a hello."""
    return vector(2, b"".join(kind.to_bytes(2) + vector(2, contents) for kind, contents in extensions))


def client_hello(
    extensions: list[tuple[int, bytes]] | None = None,
    *,
    version: int = 0x0303,
    ciphers: tuple[int, ...] = (0x1301, 0x1302),
) -> bytes:
    """A ClientHello without its 4-byte header; `None` leaves the extensions out altogether."""
    block = b"" if extensions is None else extension_block(extensions)
    return version.to_bytes(2) + bytes(range(32)) + vector(1, b"id") + vector(2, u16s(*ciphers)) + b"\x01\x00" + block


def server_hello(
    extensions: list[tuple[int, bytes]] | None = None, *, version: int = 0x0303, random: bytes = bytes(32)
) -> bytes:
    """A ServerHello without its 4-byte header."""
    block = b"" if extensions is None else extension_block(extensions)
    return version.to_bytes(2) + random + vector(1, b"id") + b"\x13\x01\x00" + block


def message(kind: int, body: bytes) -> bytes:
    """A handshake message with its header."""
    return bytes((kind,)) + vector(3, body)


def record(kind: int, fragment: bytes, version: int = 0x0301) -> bytes:
    """A TLS record."""
    return bytes((kind,)) + version.to_bytes(2) + vector(2, fragment)
