"""Packet protection (RFC 9001, 5): of Initials, whose keys anyone on the path can derive, and with given secrets."""

from __future__ import annotations

import hmac
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers import Cipher
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.ciphers.algorithms import AES, ChaCha20
from cryptography.hazmat.primitives.ciphers.modes import ECB

from h3probe.errors import DecryptError
from h3probe.facts import fact
from h3probe.wire.cipher_suites import AES_128_GCM, Suite, expand_label
from h3probe.wire.quic.versions import known

if TYPE_CHECKING:
    from collections.abc import Callable

    from h3probe.wire.cipher_suites import Aead
    from h3probe.wire.quic.packets import LongPacket

_TAG = 16
_SAMPLE = 16
_LARGEST_NUMBER = (1 << 62) - 1
_SINGLE_BLOCKS = ECB()  # noqa: S305 - what RFC 9001, 5.4.3 prescribes for the mask


@dataclass(slots=True)
class PacketKeys:
    """The keys of one direction (RFC 9001, 5.1).

    Attributes:
        key: For the payload, 16 or 32 bytes.
        iv: For the payload, 12 bytes.
        hp: For the header, 16 or 32 bytes.
        suite: The cipher suite; that of Initials where none is given.
    """

    key: bytes = field(repr=False)
    iv: bytes = field(repr=False)
    hp: bytes = field(repr=False)
    suite: Suite = AES_128_GCM
    _aead: Aead = field(init=False, repr=False, compare=False)
    _header: Callable[[bytes], bytes] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        # Set up once: either costs more than the packet it then protects.
        self._aead = self.suite.aead(self.key)
        self._header = _header_mask(self.suite, self.hp)

    def mask(self, sample: bytes) -> bytes:
        """The header's mask from 16 sampled bytes; its first 5 bytes are used (RFC 9001, 5.4.3 and 5.4.4)."""
        return self._header(sample)

    def nonce(self, packet_number: int) -> bytes:
        """The payload's nonce (RFC 9001, 5.3)."""
        return (int.from_bytes(self.iv) ^ packet_number).to_bytes(12)

    def seal(self, packet_number: int, payload: bytes, header: bytes) -> bytes:
        """Encrypt a payload; `header` is authenticated with it."""
        return self._aead.encrypt(self.nonce(packet_number), payload, header)

    def open(self, packet_number: int, sealed: bytes, header: bytes) -> bytes:
        """Decrypt a payload.

        Raises:
            DecryptError: It was sealed with other keys, another number or another header.
        """
        try:
            return self._aead.decrypt(self.nonce(packet_number), sealed, header)
        except InvalidTag:
            raise DecryptError("these keys do not open the packet") from None


class InitialKeys:
    """The keys of the Initial packets of one connection, each side's derived when it is asked for.

    Args:
        secret: What both sides' secrets come from (RFC 9001, 5.2).
        prefix: What the version's labels begin with.
    """

    __slots__ = ("_client", "_prefix", "_secret", "_server")

    def __init__(self, secret: bytes, prefix: bytes) -> None:
        self._secret = secret
        self._prefix = prefix
        self._client: PacketKeys | None = None
        self._server: PacketKeys | None = None

    @property
    def client(self) -> PacketKeys:
        """For what the client sends."""
        if self._client is None:
            self._client = _keys(self._secret, b"client in", self._prefix)
        return self._client

    @property
    def server(self) -> PacketKeys:
        """For what the server sends."""
        if self._server is None:
            self._server = _keys(self._secret, b"server in", self._prefix)
        return self._server


@fact
class Opened:
    """A packet without its protection.

    Attributes:
        packet_number: In full.
        payload: Its frames.
    """

    packet_number: int
    payload: bytes


@lru_cache(maxsize=1024)
def initial_keys(version: int, dcid: bytes) -> InitialKeys:
    """Derive the Initial keys (RFC 9001, 5.2; RFC 9369, 3.3.1).

    Args:
        version: Of the packets.
        dcid: The destination connection ID of the client's first Initial, or of the first after a Retry.

    Raises:
        DecryptError: Nobody but its makers knows that version's salt.
    """
    parameters = known(version)
    if parameters is None:
        raise DecryptError(f"no Initial keys for version 0x{version:08x}")
    secret = hmac.digest(parameters.salt, dcid, "sha256")
    return InitialKeys(secret, parameters.label_prefix)


def packet_keys(secret: bytes, suite: Suite, prefix: bytes) -> PacketKeys:
    """The keys of one direction and one level of encryption (RFC 9001, 5.1; RFC 9369, 3.3.2).

    Args:
        secret: Its traffic secret.
        suite: The cipher suite.
        prefix: What the version's labels begin with.
    """
    return PacketKeys(
        key=expand_label(secret, prefix + b"key", suite.key_length, suite.digest),
        iv=expand_label(secret, prefix + b"iv", 12, suite.digest),
        hp=expand_label(secret, prefix + b"hp", suite.key_length, suite.digest),
        suite=suite,
    )


def open_packet(keys: PacketKeys, packet: LongPacket, largest: int = -1) -> Opened:
    """Remove header and packet protection (RFC 9001, 5.3 and 5.4).

    Args:
        keys: Of the packet's sender.
        packet: An Initial, or another kind whose keys are known.
        largest: The largest packet number seen from that sender in this number space, -1 for none.

    Raises:
        DecryptError: The keys do not open it, or it is cut, or has nothing to open.
    """
    if not packet.pn_offset or packet.truncated:
        raise DecryptError(f"no whole protected packet: {packet.kind}, {len(packet.data)} bytes")
    bare = unmask(keys, packet.data, packet.pn_offset, 0x0F, largest)
    return Opened(bare.number, keys.open(bare.number, packet.data[len(bare.header) :], bare.header))


@lru_cache(maxsize=256)
def open_initial(dcid: bytes, packet: LongPacket, largest: int = -1, *, from_client: bool) -> Opened:
    """Open an Initial; a packet that was opened lately, or one with the same bytes, costs nothing.

    Args:
        dcid: The connection ID that the keys come from.
        packet: The Initial.
        largest: As in `open_packet`.
        from_client: Whose keys protect it.

    Raises:
        DecryptError: As `initial_keys` and `open_packet`.
    """
    keys = initial_keys(packet.version, dcid)
    return open_packet(keys.client if from_client else keys.server, packet, largest)


@fact
class Unmasked:
    """A packet's header without its protection.

    Attributes:
        header: As its sender wrote it; the payload begins after it.
        number: The packet number in full.
    """

    header: bytes
    number: int


def unmask(keys: PacketKeys, data: bytes, start: int, bits: int, largest: int) -> Unmasked:
    """Remove header protection (RFC 9001, 5.4.1).

    Args:
        keys: Of the packet's sender.
        data: The packet.
        start: Where its packet number begins.
        bits: Which bits of the first byte are masked: four of a long header, five of a short one.
        largest: The largest packet number seen from that sender in this number space, -1 for none.

    Raises:
        DecryptError: It is too short to be sampled.
    """
    sample = data[start + 4 : start + 4 + _SAMPLE]
    if len(sample) < _SAMPLE:
        raise DecryptError(f"no whole protected packet: {len(data)} bytes")
    mask = keys.mask(sample)
    first = data[0] ^ mask[0] & bits
    length = (first & 3) + 1
    masked = int.from_bytes(data[start : start + length])
    shortened = masked ^ int.from_bytes(mask[1 : 1 + length])
    header = bytes((first,)) + data[1:start] + shortened.to_bytes(length)
    return Unmasked(header, full_packet_number(shortened, length, largest))


def seal_packet(keys: PacketKeys, header: bytes, packet_number: int, payload: bytes, number_length: int = 4) -> bytes:
    """Protect a packet: the other direction of `open_packet`.

    Args:
        keys: Of the packet's sender.
        header: The long header up to its packet number, with a Length that counts the number, the payload and
            a tag of 16 bytes. The bits for the number's length are set here.
        packet_number: In full.
        payload: The frames; with the number at least 4 bytes, or there is nothing to sample.
        number_length: How many bytes of the number are sent, 1 to 4.
    """
    first = header[0] & 0xFC | number_length - 1
    shortened = (packet_number & (1 << 8 * number_length) - 1).to_bytes(number_length)
    sealed = keys.seal(packet_number, payload, bytes((first,)) + header[1:] + shortened)
    mask = keys.mask(sealed[4 - number_length : 4 - number_length + _SAMPLE])
    masked = int.from_bytes(shortened) ^ int.from_bytes(mask[1 : 1 + number_length])
    return bytes((first ^ mask[0] & 0x0F,)) + header[1:] + masked.to_bytes(number_length) + sealed


def full_packet_number(shortened: int, length: int, largest: int) -> int:
    """The packet number nearest to the one expected that ends in the bytes sent (RFC 9000, A.3).

    Args:
        shortened: The bytes sent, as a number.
        length: How many bytes that were, 1 to 4.
        largest: The largest packet number so far, -1 for none.
    """
    expected = largest + 1
    window = 1 << 8 * length
    candidate = expected & ~(window - 1) | shortened
    if candidate <= expected - window // 2 and candidate <= _LARGEST_NUMBER - window:
        return candidate + window
    if candidate > expected + window // 2 and candidate >= window:
        return candidate - window
    return candidate


def retry_is_valid(packet: LongPacket, original_dcid: bytes) -> bool:
    """Whether a Retry's integrity tag belongs to the Initial it answers (RFC 9001, 5.8).

    Args:
        packet: The Retry.
        original_dcid: The destination connection ID of the client's first Initial.
    """
    version = known(packet.version)
    if version is None or version.retry_key is None or version.retry_nonce is None or packet.kind != "retry":
        return False
    if len(packet.data) < _TAG or len(original_dcid) > 255:
        return False
    pseudo_packet = bytes((len(original_dcid),)) + original_dcid + packet.data[:-_TAG]
    tag = AESGCM(version.retry_key).encrypt(version.retry_nonce, b"", pseudo_packet)
    return hmac.compare_digest(tag, packet.data[-_TAG:])


def _keys(secret: bytes, side: bytes, prefix: bytes) -> PacketKeys:
    return packet_keys(expand_label(secret, side, 32), AES_128_GCM, prefix)


def _header_mask(suite: Suite, key: bytes) -> Callable[[bytes], bytes]:
    """What makes a mask of a sample."""
    if suite.cipher == "aes-gcm":
        return Cipher(AES(key), _SINGLE_BLOCKS).encryptor().update

    def mask(sample: bytes) -> bytes:
        # RFC 9001, 5.4.4: the sample is the block's counter and nonce, in the layout that the library takes.
        return Cipher(ChaCha20(key, sample), mode=None).encryptor().update(bytes(5))

    return mask
