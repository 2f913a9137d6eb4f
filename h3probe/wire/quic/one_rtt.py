"""1-RTT packets opened with a given secret, through updates of the keys (RFC 9001, 5 and 6)."""

from __future__ import annotations

from h3probe.errors import DecryptError
from h3probe.wire.cipher_suites import Suite, expand_label
from h3probe.wire.quic.protection import Opened, PacketKeys, packet_keys, unmask

_KEY_PHASE = 0x04
_SHORT_BITS = 0x1F
# Packet numbers that are remembered as missing; where more are, so many packets were lost that it does not matter.
_MISSING_LIMIT = 1024


class OneRttKeys:
    """The keys of one direction's 1-RTT packets.

    Follows its sender from key to key: of the keys that a packet's phase bit allows, the one that opens it is right.

    Args:
        secret: The first traffic secret, CLIENT_TRAFFIC_SECRET_0 or SERVER_TRAFFIC_SECRET_0.
        suite: The cipher suite.
        prefix: What the version's labels begin with.

    Attributes:
        largest: The largest packet number opened, -1 before the first.
        updates: How often the keys were updated.
    """

    __slots__ = (
        "_current",
        "_gapped",
        "_missing",
        "_next",
        "_next_secret",
        "_prefix",
        "_previous",
        "_suite",
        "largest",
        "updates",
    )

    def __init__(self, secret: bytes, suite: Suite, prefix: bytes) -> None:
        self.largest = -1
        self.updates = 0
        self._missing: set[int] = set()
        self._gapped = False
        self._suite = suite
        self._prefix = prefix
        self._previous: PacketKeys | None = None
        self._current = packet_keys(secret, suite, prefix)
        self._next_secret = secret
        self._next = self._update(self._current)

    def __repr__(self) -> str:
        return f"<OneRttKeys of {self._suite.name} after {self.updates} updates>"

    def open(self, data: bytes, dcid_length: int) -> Opened:
        """Remove header and packet protection.

        Args:
            data: The packet, from its first byte to the end of its datagram.
            dcid_length: Of the connection ID behind the first byte.

        Raises:
            DecryptError: The keys do not open it, or it is too short.
        """
        # Header protection stays as it is when the keys are updated (RFC 9001, 6).
        bare = unmask(self._current, data, 1 + dcid_length, _SHORT_BITS, self.largest)
        sealed = data[len(bare.header) :]
        if bool(bare.header[0] & _KEY_PHASE) == bool(self.updates & 1):
            payload = self._current.open(bare.number, sealed, bare.header)
        else:
            payload = self._other_phase(bare.number, sealed, bare.header)
        self._number(bare.number)
        return Opened(bare.number, payload)

    @property
    def complete(self) -> bool:
        """Whether every packet up to the latest was opened; never so where a sender skips numbers (RFC 9000, 21.4)."""
        return not self._missing and not self._gapped

    def _number(self, number: int) -> None:
        """Take note of a packet number."""
        if number <= self.largest:
            self._missing.discard(number)
            return
        if number - self.largest - 1 + len(self._missing) > _MISSING_LIMIT:
            self._gapped = True
        else:
            self._missing.update(range(self.largest + 1, number))
        self.largest = number

    def _other_phase(self, number: int, sealed: bytes, header: bytes) -> bytes:
        """Open a packet of the next phase, which then is the current one, or a late one of the phase before."""
        try:
            payload = self._next.open(number, sealed, header)
        except DecryptError:
            if self._previous is None:
                raise
            return self._previous.open(number, sealed, header)
        self._previous, self._current = self._current, self._next
        self._next = self._update(self._current)
        self.updates += 1
        return payload

    def _update(self, keys: PacketKeys) -> PacketKeys:
        """The keys after `keys` (RFC 9001, 6.1)."""
        suite = self._suite
        self._next_secret = expand_label(self._next_secret, self._prefix + b"ku", suite.digest_length, suite.digest)
        following = packet_keys(self._next_secret, suite, self._prefix)
        return PacketKeys(following.key, following.iv, keys.hp, suite)
