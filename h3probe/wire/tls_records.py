"""TLS records opened with given secrets (RFC 8446, 5; RFC 5246, 6.2.3)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Literal

from cryptography.exceptions import InvalidTag

from h3probe.errors import DecryptError
from h3probe.wire.cipher_suites import Suite, expand_label, tls12_prf

if TYPE_CHECKING:
    from collections.abc import Sequence

    from h3probe.wire.cipher_suites import Aead
    from h3probe.wire.tls import Record

Epoch = Literal["early", "handshake", "application"]

APPLICATION_DATA: Final = 23
_TAG: Final = 16


@dataclass(frozen=True, slots=True)
class OpenedRecord:
    """A record without its protection.

    Attributes:
        content_type: The true one, which TLS 1.3 hides.
        data: The fragment.
        epoch: The keys that it was protected with.
    """

    content_type: int
    data: bytes = field(repr=False)
    epoch: Epoch


class Tls13Records:
    """One direction's protected records in TLS 1.3, in order.

    A sender goes from one epoch to the next without saying so in the clear: the keys that open a record tell.

    Args:
        suite: The cipher suite.
        secrets: The epochs and their traffic secrets, in the order in which a sender uses them.
    """

    __slots__ = ("_epochs", "_keys", "_number", "_suite")

    def __init__(self, suite: Suite, secrets: Sequence[tuple[Epoch, bytes]]) -> None:
        self._suite = suite
        self._epochs = list(secrets)
        self._keys: tuple[Aead, int] | None = None
        self._number = 0

    def __repr__(self) -> str:
        return f"<Tls13Records of {self._suite.name}>"

    def open(self, record: Record) -> OpenedRecord:
        """Remove a record's protection (RFC 8446, 5.2).

        Raises:
            DecryptError: No keys from the current epoch on open it, or nothing but padding is in it.
        """
        header = bytes((record.content_type,)) + record.version.to_bytes(2) + record.length.to_bytes(2)
        for index, (epoch, secret) in enumerate(self._epochs):
            keys, number = (self._keys, self._number) if index == 0 and self._keys else (self._derive(secret), 0)
            try:
                inner = _decrypt(keys[0], keys[1] ^ number, record.payload, header)
            except DecryptError:
                continue
            del self._epochs[:index]
            self._keys, self._number = keys, number + 1
            content = inner.rstrip(b"\x00")
            if not content:
                raise DecryptError("a record of nothing but padding")
            return OpenedRecord(content[-1], content[:-1], epoch)
        raise DecryptError("these secrets do not open the record")

    def update(self) -> None:
        """Take the next keys, after a KeyUpdate of this direction's sender (RFC 8446, 7.2)."""
        epoch, secret = self._epochs[0]
        secret = expand_label(secret, b"traffic upd", self._suite.digest_length, self._suite.digest)
        self._epochs[0] = (epoch, secret)
        self._keys, self._number = self._derive(secret), 0

    def _derive(self, secret: bytes) -> tuple[Aead, int]:
        key = expand_label(secret, b"key", self._suite.key_length, self._suite.digest)
        return self._suite.aead(key), int.from_bytes(expand_label(secret, b"iv", 12, self._suite.digest))


class Tls12Records:
    """One direction's records in TLS 1.2 after its ChangeCipherSpec, in order.

    Args:
        suite: The cipher suite.
        key: The direction's write key.
        iv: Its write IV: 4 bytes for AES-GCM (RFC 5288, 3), 12 for ChaCha20-Poly1305 (RFC 7905, 2).
    """

    __slots__ = ("_aead", "_iv", "_number", "_suite")

    def __init__(self, suite: Suite, key: bytes, iv: bytes) -> None:
        self._suite = suite
        self._aead = suite.aead(key)
        self._iv = iv
        self._number = 0

    def __repr__(self) -> str:
        return f"<Tls12Records of {self._suite.name}>"

    def open(self, record: Record) -> OpenedRecord:
        """Remove a record's protection.

        Raises:
            DecryptError: The keys do not open it.
        """
        explicit = 8 if self._suite.cipher == "aes-gcm" else 0
        sealed = record.payload[explicit:]
        if explicit:
            nonce = int.from_bytes(self._iv + record.payload[:8].ljust(8, b"\x00"))
        else:
            nonce = int.from_bytes(self._iv) ^ self._number
        length = max(len(sealed) - _TAG, 0)
        header = self._number.to_bytes(8) + bytes((record.content_type,))
        header += record.version.to_bytes(2) + length.to_bytes(2)
        data = _decrypt(self._aead, nonce, sealed, header)
        self._number += 1
        return OpenedRecord(record.content_type, data, "application")


def tls12_records(
    suite: Suite, master: bytes, client_random: bytes, server_random: bytes
) -> tuple[Tls12Records, Tls12Records]:
    """What opens the client's records, and the server's (RFC 5246, 6.3)."""
    iv_length = 4 if suite.cipher == "aes-gcm" else 12
    needed = 2 * (suite.key_length + iv_length)
    block = tls12_prf(master, b"key expansion", server_random + client_random, needed, suite.digest)
    keys, ivs = block[: 2 * suite.key_length], block[2 * suite.key_length :]
    return (
        Tls12Records(suite, keys[: suite.key_length], ivs[:iv_length]),
        Tls12Records(suite, keys[suite.key_length :], ivs[iv_length:]),
    )


def _decrypt(aead: Aead, nonce: int, sealed: bytes, header: bytes) -> bytes:
    if len(sealed) < _TAG:
        raise DecryptError(f"a protected record of {len(sealed)} bytes")
    try:
        return aead.decrypt(nonce.to_bytes(12), sealed, header)
    except InvalidTag:
        raise DecryptError("these keys do not open the record") from None
