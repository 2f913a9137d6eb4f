"""JA4, the fingerprint of a TLS client (FoxIO's public specification, BSD 3-Clause part: JA4 itself)."""

from __future__ import annotations

import hashlib
from functools import lru_cache
from typing import TYPE_CHECKING, Literal

from h3probe.wire.tls_extensions import LONGEST_SHARED
from h3probe.wire.tls_names import ALPN, SERVER_NAME, is_grease

if TYPE_CHECKING:
    from collections.abc import Iterable

    from h3probe.wire.tls_hello import ClientHello

_VERSIONS = {0x0304: "13", 0x0303: "12", 0x0302: "11", 0x0301: "10", 0x0300: "s3", 0x0002: "s2"}
_NOTHING = "000000000000"
_ALPHANUMERIC = frozenset(b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz")


def ja4(hello: ClientHello, transport: Literal["t", "q"]) -> str:
    """The fingerprint, as `q13d0311h3_55b375c5d22e_94cfb7b25dbc`.

    Args:
        hello: The ClientHello.
        transport: `t` for TCP, `q` for QUIC.
    """
    kinds = tuple(kind for kind, _ in hello.extensions)
    habits = (hello.supported_versions, hello.cipher_suites, kinds, hello.alpn_raw, hello.signature_algorithms)
    known = sum(map(len, habits)) <= LONGEST_SHARED
    return (_known_mark if known else _mark)(transport, hello.legacy_version, *habits)


def _mark(  # noqa: PLR0913, PLR0917 - what a fingerprint is made of
    transport: str,
    legacy_version: int,
    supported_versions: tuple[int, ...],
    cipher_suites: tuple[int, ...],
    kinds: tuple[int, ...],
    protocols: tuple[bytes, ...],
    algorithms: tuple[int, ...],
) -> str:
    version = max((v for v in supported_versions if not is_grease(v)), default=legacy_version)
    ciphers = [cipher for cipher in cipher_suites if not is_grease(cipher)]
    extensions = [kind for kind in kinds if not is_grease(kind)]
    reached_by_name = "d" if SERVER_NAME in extensions else "i"
    return (
        f"{transport}{_VERSIONS.get(version, '00')}{reached_by_name}"
        f"{min(len(ciphers), 99):02}{min(len(extensions), 99):02}{_alpn_mark(protocols)}"
        f"_{_digest(_codes(sorted(ciphers)))}"
        f"_{_digest(_extension_codes(extensions, algorithms))}"
    )


# Most clients offer what the one before offered.
_known_mark = lru_cache(maxsize=512)(_mark)


def _alpn_mark(protocols: tuple[bytes, ...]) -> str:
    """First and last character of the first protocol, or of its hex where those would not print."""
    if not protocols or not protocols[0]:
        return "00"
    first = protocols[0]
    if first[0] in _ALPHANUMERIC and first[-1] in _ALPHANUMERIC:
        return chr(first[0]) + chr(first[-1])
    return first.hex()[0] + first.hex()[-1]


def _extension_codes(extensions: list[int], algorithms: tuple[int, ...]) -> str:
    """Sorted extensions, without the two that change with the destination, and algorithms in their own order."""
    codes = _codes(sorted(kind for kind in extensions if kind not in (SERVER_NAME, ALPN)))
    signatures = _codes(algorithm for algorithm in algorithms if not is_grease(algorithm))
    return f"{codes}_{signatures}" if codes and signatures else codes


def _codes(values: Iterable[int]) -> str:
    return ",".join(f"{value:04x}" for value in values)


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:12] if text else _NOTHING
