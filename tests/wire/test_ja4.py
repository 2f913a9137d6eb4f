from __future__ import annotations

import hashlib

import pytest

from h3probe.wire.ja4 import ja4
from h3probe.wire.tls_hello import parse_client_hello
from tests.wire import hello_builder as build

# The worked example of FoxIO's specification: Chrome's ciphers, extensions and algorithms, in the order sent.
CIPHERS: tuple[int, ...] = (0x1301, 0x1302, 0x1303, 0xC02B, 0xC02F, 0xC02C, 0xC030, 0xCCA9, 0xCCA8, 0xC013, 0xC014)
CIPHERS += (0x009C, 0x009D, 0x002F, 0x0035)
ALGORITHMS = (0x0403, 0x0804, 0x0401, 0x0503, 0x0805, 0x0501, 0x0806, 0x0601)
ORDER: tuple[int, ...] = (0x001B, 0x0000, 0x0033, 0x0010, 0x4469, 0x0017, 0x002D, 0x000D)
ORDER += (0x0005, 0x0023, 0x0012, 0x002B, 0xFF01, 0x000B, 0x000A, 0x0015)


def _extensions(*extra: tuple[int, bytes]) -> list[tuple[int, bytes]]:
    contents = dict(
        [
            build.server_name(b"example.com"),
            build.alpn(b"h2", b"http/1.1"),
            build.supported_versions(0x0304, 0x0303),
            (13, build.vector(2, build.u16s(*ALGORITHMS))),
        ]
    )
    return [(kind, contents.get(kind, b"")) for kind in ORDER] + list(extra)


def _ja4(extensions: list[tuple[int, bytes]] | None, transport: str = "t", **kwargs: object) -> str:
    return ja4(parse_client_hello(build.client_hello(extensions, **kwargs)), transport)  # type: ignore[arg-type]


def test_worked_example_of_the_specification() -> None:
    """The example that FoxIO's specification works through gives the fingerprint printed there."""
    assert _ja4(_extensions(), ciphers=CIPHERS) == "t13d1516h2_8daaf6152771_e5627efa2ab1"


def test_grease_changes_nothing() -> None:
    """GREASE among ciphers, extensions, versions and algorithms leaves the fingerprint as it was."""
    extensions = [
        (43, build.vector(1, build.u16s(0xFAFA, 0x0304))) if kind == 43 else (kind, contents)
        for kind, contents in _extensions((0x1A1A, b""), (0xDADA, b"\x00"))
    ]
    assert _ja4(extensions, ciphers=(0x2A2A, *CIPHERS)) == "t13d1516h2_8daaf6152771_e5627efa2ab1"


def test_order_of_ciphers_and_extensions_does_not_count_but_of_algorithms_does() -> None:
    """Both lists are sorted before hashing, the signature algorithms are not."""
    shuffled = _ja4(list(reversed(_extensions())), ciphers=CIPHERS[::-1])
    assert shuffled == _ja4(_extensions(), ciphers=CIPHERS)
    turned = [
        (13, build.vector(2, build.u16s(*ALGORITHMS[::-1]))) if kind == 13 else (kind, contents)
        for kind, contents in _extensions()
    ]
    other = _ja4(turned, ciphers=CIPHERS)
    assert other.split("_")[:2] == shuffled.split("_")[:2]
    assert other != shuffled


def test_quic_without_a_name() -> None:
    """Over QUIC it begins with q, and with i where no name was asked for."""
    assert _ja4([build.supported_versions(0x0304), build.alpn(b"h3")], "q").startswith("q13i0202h3_")


@pytest.mark.parametrize(
    ("version", "mark"),
    [(0x0303, "12"), (0x0302, "11"), (0x0301, "10"), (0x0300, "s3"), (0x0002, "s2"), (0x7F1C, "00")],
)
def test_version_of_the_message_where_no_versions_are_listed(version: int, mark: str) -> None:
    """Without supported_versions the version field decides, and an unknown one is 00."""
    assert _ja4([], version=version).startswith(f"t{mark}i")


@pytest.mark.parametrize(
    ("protocol", "mark"),
    [
        (b"h2", "h2"),
        (b"http/1.1", "h1"),
        (b"h", "hh"),
        (b"\xab", "ab"),
        (b"\xab\xcd", "ad"),
        (b"\x30\xab", "3b"),
        (b"\x30\x31\xab\xcd", "3d"),
        (b"\x30\xab\xcd\x31", "01"),
        (b"", "00"),
    ],
)
def test_alpn_mark_of_the_specification(protocol: bytes, mark: str) -> None:
    """The specification's examples: characters if both are alphanumeric, else digits of the hex form."""
    assert _ja4([build.alpn(protocol, b"h2")]).split("_")[0][-2:] == mark


def test_counts_stop_at_99() -> None:
    """More than 99 ciphers or extensions are counted as 99."""
    many = _ja4([(0x4000 + n, b"") for n in range(120)], ciphers=tuple(range(0x4000, 0x4000 + 150)))
    assert many.startswith("t12i999900_")


def test_nothing_to_hash_is_zeros() -> None:
    """No ciphers, and no extensions but the two left out, give twelve zeros each."""
    assert _ja4(None, ciphers=()) == "t12i000000_000000000000_000000000000"
    assert _ja4([build.server_name(b"a.example"), build.alpn(b"h2")]).endswith("_000000000000")


def test_extensions_without_algorithms_have_no_underscore() -> None:
    """Without signature algorithms the last part is the hash of the extensions alone."""
    assert _ja4([(0x0017, b""), (0x000B, b"")]).endswith(hashlib.sha256(b"000b,0017").hexdigest()[:12])
