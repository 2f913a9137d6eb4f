from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from h3probe.errors import DecodeError, DecryptError
from h3probe.wire.cipher_suites import AES_128_GCM, AES_256_GCM, CHACHA20_POLY1305, Suite, expand_label
from h3probe.wire.quic.one_rtt import OneRttKeys
from h3probe.wire.quic.protection import PacketKeys, packet_keys

SECRET = bytes(range(32))
DCID = b"12345678"


class Sender:
    """Seals 1-RTT packets, and updates its keys."""

    def __init__(self, secret: bytes, suite: Suite) -> None:
        self._suite = suite
        self._secret = secret
        self._keys = packet_keys(secret, suite, b"quic ")
        self._phase = 0

    def update(self) -> None:
        """Take the next keys."""
        suite = self._suite
        self._secret = expand_label(self._secret, b"quic ku", suite.digest_length, suite.digest)
        made = packet_keys(self._secret, suite, b"quic ")
        self._keys = PacketKeys(made.key, made.iv, self._keys.hp, suite)
        self._phase ^= 4

    def seal(self, number: int, payload: bytes) -> bytes:
        """A packet with a packet number of 2 bytes."""
        header = bytes((0x41 | self._phase,)) + DCID + (number & 0xFFFF).to_bytes(2)
        sealed = self._keys.seal(number, payload, header)
        mask = self._keys.mask(sealed[2:18])
        masked = (int.from_bytes(header[-2:]) ^ int.from_bytes(mask[1:3])).to_bytes(2)
        return bytes((header[0] ^ mask[0] & 0x1F,)) + DCID + masked + sealed


def test_the_short_header_of_the_rfc() -> None:
    """RFC 9001, A.5: a packet protected with ChaCha20-Poly1305."""
    secret = bytes.fromhex("9ac312a7f877468ebe69422748ad00a15443f18203a07d6060f688f30f21632b")
    keys = OneRttKeys(secret, CHACHA20_POLY1305, b"quic ")
    keys.largest = 654360563
    opened = keys.open(bytes.fromhex("4cfe4189655e5cd55c41f69080575d7999c25a5bfb"), 0)
    assert (opened.packet_number, opened.payload) == (654360564, b"\x01")


@pytest.mark.parametrize("suite", [AES_128_GCM, AES_256_GCM, CHACHA20_POLY1305])
def test_updates_and_late_packets(suite: Suite) -> None:
    """Keys are followed through updates; a late packet of the phase before still opens, none of an earlier one."""
    secret = bytes(suite.digest_length)
    sender, keys = Sender(secret, suite), OneRttKeys(secret, suite, b"quic ")
    first, late = sender.seal(0, b"first packet"), sender.seal(1, b"late packet")
    assert keys.open(first, len(DCID)).payload == b"first packet"
    sender.update()
    assert keys.open(sender.seal(2, b"second phase"), len(DCID)).payload == b"second phase"
    assert keys.open(late, len(DCID)).payload == b"late packet"
    sender.update()
    assert keys.open(sender.seal(3, b"third phase"), len(DCID)).payload == b"third phase"
    assert (keys.updates, keys.complete) == (2, True)
    with pytest.raises(DecryptError):
        keys.open(first, len(DCID))


def test_gaps_are_known() -> None:
    """`complete` is false while a packet is missing."""
    sender, keys = Sender(SECRET, AES_128_GCM), OneRttKeys(SECRET, AES_128_GCM, b"quic ")
    for number, complete in ((0, True), (2, False), (1, True), (9000, False)):
        keys.open(sender.seal(number, b"payload"), len(DCID))
        assert keys.complete is complete


def test_no_secret_is_shown() -> None:
    """Keys are in no `repr`."""
    assert SECRET.hex() not in repr(OneRttKeys(SECRET, AES_128_GCM, b"quic "))
    keys = packet_keys(SECRET, AES_128_GCM, b"quic ")
    assert repr(keys.key) not in repr(keys)


@given(st.binary(max_size=100), st.integers(0, 20))
def test_any_bytes(data: bytes, length: int) -> None:
    """Bytes that nobody sealed raise nothing but `DecodeError`."""
    keys = OneRttKeys(SECRET, AES_128_GCM, b"quic ")
    with pytest.raises(DecodeError):
        keys.open(data, length)
