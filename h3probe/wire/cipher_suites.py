"""The cipher suites whose traffic can be decrypted with given secrets, and how keys come from secrets."""

from __future__ import annotations

import hmac
from dataclasses import dataclass
from functools import lru_cache
from types import MappingProxyType
from typing import Literal

from cryptography.hazmat.primitives.ciphers.aead import AESGCM, ChaCha20Poly1305

Aead = AESGCM | ChaCha20Poly1305


@dataclass(frozen=True, slots=True)
class Suite:
    """What a cipher suite stands for.

    Attributes:
        name: Without the `TLS_`, and in TLS 1.2 without the key exchange, which is over by then.
        cipher: The kind of AEAD.
        key_length: Bytes.
        digest: The hash that keys are derived with.
    """

    name: str
    cipher: Literal["aes-gcm", "chacha20-poly1305"]
    key_length: int
    digest: Literal["sha256", "sha384"]

    @property
    def digest_length(self) -> int:
        """Bytes of the hash, and of every traffic secret."""
        return 48 if self.digest == "sha384" else 32

    def aead(self, key: bytes) -> Aead:
        """The cipher with a key."""
        return AESGCM(key) if self.cipher == "aes-gcm" else ChaCha20Poly1305(key)


AES_128_GCM = Suite("AES_128_GCM_SHA256", "aes-gcm", 16, "sha256")
AES_256_GCM = Suite("AES_256_GCM_SHA384", "aes-gcm", 32, "sha384")
CHACHA20_POLY1305 = Suite("CHACHA20_POLY1305_SHA256", "chacha20-poly1305", 32, "sha256")

# RFC 8446, B.4. AES-CCM is for devices that speak no HTTP.
TLS13_SUITES = MappingProxyType({0x1301: AES_128_GCM, 0x1302: AES_256_GCM, 0x1303: CHACHA20_POLY1305})

# RFC 5288 (RSA, DHE), RFC 5289 (ECDHE), RFC 7905. HTTP/2 forbids everything else (RFC 9113, A).
TLS12_SUITES = MappingProxyType(
    {
        **dict.fromkeys((0x009C, 0x009E, 0xC02B, 0xC02F), AES_128_GCM),
        **dict.fromkeys((0x009D, 0x009F, 0xC02C, 0xC030), AES_256_GCM),
        **dict.fromkeys((0xCCA8, 0xCCA9, 0xCCAA), CHACHA20_POLY1305),
    }
)


def expand_label(secret: bytes, label: bytes, length: int, digest: str = "sha256") -> bytes:
    """HKDF-Expand-Label without context (RFC 8446, 7.1).

    Args:
        secret: What is expanded.
        label: Without the `tls13 ` that goes before it.
        length: Of the result; at most that of the hash, so that one round of HMAC is enough (RFC 5869, 2.3).
        digest: The hash.
    """
    return hmac.digest(secret, _round(label, length), digest)[:length]


@lru_cache(maxsize=64)
def _round(label: bytes, length: int) -> bytes:
    """What the one round hashes: the HkdfLabel and the round's number."""
    full = b"tls13 " + label
    return length.to_bytes(2) + bytes((len(full),)) + full + b"\x00\x01"


def tls12_prf(secret: bytes, label: bytes, seed: bytes, length: int, digest: str) -> bytes:
    """TLS 1.2's pseudorandom function (RFC 5246, 5)."""
    seed = label + seed
    made, chained = b"", seed
    while len(made) < length:
        chained = hmac.digest(secret, chained, digest)
        made += hmac.digest(secret, chained + seed, digest)
    return made[:length]
