from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from h3probe.errors import DecryptError
from h3probe.wire.cipher_suites import AES_128_GCM, AES_256_GCM, CHACHA20_POLY1305, Suite, expand_label
from h3probe.wire.tls import Record
from h3probe.wire.tls_records import Tls12Records, Tls13Records, tls12_records

SUITES = [AES_128_GCM, AES_256_GCM, CHACHA20_POLY1305]


def seal13(suite: Suite, secret: bytes, number: int, data: bytes, kind: int = 23, *, padding: int = 0) -> Record:
    """A protected record of TLS 1.3."""
    key = expand_label(secret, b"key", suite.key_length, suite.digest)
    iv = int.from_bytes(expand_label(secret, b"iv", 12, suite.digest))
    inner = data + bytes((kind,)) + bytes(padding)
    length = len(inner) + 16
    header = b"\x17\x03\x03" + length.to_bytes(2)
    return Record(23, 0x0303, suite.aead(key).encrypt((iv ^ number).to_bytes(12), inner, header), length, 0)


@pytest.mark.parametrize("suite", SUITES)
def test_epochs_and_updates(suite: Suite) -> None:
    """The keys that open a record tell its epoch; after a KeyUpdate the next ones do (RFC 8446, 7.2)."""
    early, handshake, data = (bytes((n,)) * suite.digest_length for n in (1, 2, 3))
    records = Tls13Records(suite, [("early", early), ("handshake", handshake), ("application", data)])
    first = records.open(seal13(suite, early, 0, b"early data", padding=7))
    assert (first.content_type, first.data, first.epoch) == (23, b"early data", "early")
    assert records.open(seal13(suite, handshake, 0, b"hello", 22)).epoch == "handshake"
    assert records.open(seal13(suite, handshake, 1, b"more", 22)).data == b"more"
    assert records.open(seal13(suite, data, 0, b"data")).epoch == "application"
    with pytest.raises(DecryptError):
        records.open(seal13(suite, handshake, 2, b"too late"))
    records.update()
    updated = expand_label(data, b"traffic upd", suite.digest_length, suite.digest)
    assert records.open(seal13(suite, updated, 0, b"updated")).data == b"updated"


@pytest.mark.parametrize("suite", SUITES)
def test_tls12(suite: Suite) -> None:
    """Each direction has its own keys, and each record its own number (RFC 5246, 6.2.3.3)."""
    master, client_random, server_random = bytes(48), b"c" * 32, b"s" * 32
    for side in (0, 1):
        sealing = tls12_records(suite, master, client_random, server_random)[side]
        opening = tls12_records(suite, master, client_random, server_random)[side]
        for number, text in enumerate((b"first", b"second")):
            explicit = b"explicit" if suite.cipher == "aes-gcm" else b""
            iv = sealing._iv + explicit
            nonce = int.from_bytes(iv) if explicit else int.from_bytes(iv) ^ number
            header = number.to_bytes(8) + b"\x17\x03\x03" + len(text).to_bytes(2)
            sealed = explicit + sealing._aead.encrypt(nonce.to_bytes(12), text, header)
            opened = opening.open(Record(23, 0x0303, sealed, len(sealed), 0))
            assert (opened.content_type, opened.data, opened.epoch) == (23, text, "application")
    assert "ssss" not in repr(opening)


@given(st.sampled_from(SUITES), st.binary(max_size=80), st.integers(20, 24))
def test_any_bytes(suite: Suite, payload: bytes, kind: int) -> None:
    """Records that nobody sealed raise nothing but `DecryptError`."""
    record = Record(kind, 0x0303, payload, len(payload), 0)
    iv = bytes(4 if suite.cipher == "aes-gcm" else 12)
    for records in (
        Tls13Records(suite, [("handshake", bytes(suite.digest_length))]),
        Tls12Records(suite, bytes(suite.key_length), iv),
    ):
        with pytest.raises(DecryptError):
            records.open(record)


def test_nothing_but_padding() -> None:
    """A record without a content type is an error of its sender's (RFC 8446, 5.4)."""
    secret = bytes(32)
    with pytest.raises(DecryptError):
        Tls13Records(AES_128_GCM, [("handshake", secret)]).open(seal13(AES_128_GCM, secret, 0, b"", 0, padding=5))
