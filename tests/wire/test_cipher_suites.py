from __future__ import annotations

import pytest

from h3probe.wire.cipher_suites import AES_256_GCM, TLS12_SUITES, TLS13_SUITES, Suite, expand_label, tls12_prf


def test_the_quic_key_update_of_the_rfc() -> None:
    """RFC 9001, A.5: the secret after a key update."""
    secret = bytes.fromhex("9ac312a7f877468ebe69422748ad00a15443f18203a07d6060f688f30f21632b")
    expected = "1223504755036d556342ee9361d253421a826c9ecdf3c7148684b36b714881f9"
    assert expand_label(secret, b"quic ku", 32).hex() == expected


def test_the_tls12_function() -> None:
    """The test vector for SHA-256 that the TLS working group published (P_SHA256, 100 bytes)."""
    made = tls12_prf(
        bytes.fromhex("9bbe436ba940f017b17652849a71db35"),
        b"test label",
        bytes.fromhex("a0ba9f936cda311827a6f796ffd5198c"),
        100,
        "sha256",
    )
    assert made.hex() == (
        "e3f229ba727be17b8d122620557cd453c2aab21d07c3d495329b52d4e61edb5a6b301791e90d35c9c9a46b4e14baf9af0fa022f7077def17"
        "abfd3797c0564bab4fbc91666e9def9b97fce34f796789baa48082d122ee42c5a72e5a5110fff70187347b66"
    )


@pytest.mark.parametrize("suite", {*TLS12_SUITES.values(), *TLS13_SUITES.values()})
def test_every_suite_has_a_cipher(suite: Suite) -> None:
    """What a suite's cipher seals with a key of its length, it opens."""
    aead = suite.aead(bytes(suite.key_length))
    assert aead.decrypt(bytes(12), aead.encrypt(bytes(12), b"text", b"header"), b"header") == b"text"
    assert (suite.digest_length == 48) == (suite is AES_256_GCM)
