"""DNS messages, rewritten in place (RFC 1035; RFC 9460 for service bindings)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from h3probe.errors import DecodeError, TruncatedError
from h3probe.wire import dns
from h3probe.wire.buffer import Reader

if TYPE_CHECKING:
    from h3probe.redact.mapping import Mapping

_NS, _SOA, _PTR, _MX, _TXT, _SRV, _OPT, _RRSIG, _NSEC = 2, 6, 12, 15, 16, 33, 41, 46, 47
_CAA: Final = 257
_CLIENT_SUBNET: Final = 8
# Record types whose data is, or begins with, a name: so many bytes stand before it, and what is behind it stays.
_NAME_AT: Final = {_NS: 0, dns.CNAME: 0, _SOA: 0, _PTR: 0, _MX: 2, _SRV: 6, dns.DNAME: 0, _NSEC: 0}
_ECH, _IPV4HINT, _IPV6HINT, _DOHPATH = 5, 4, 6, 7
_ADDRESS_PARAMETERS: Final = {_IPV4HINT: 4, _IPV6HINT: 16}
_PLAIN_PARAMETERS: Final = frozenset({0, 1, 2, 3})
_HEADER: Final = 12
_MOST_LABELS: Final = 128
# What one message may cost: a name that is pointed to again and again is walked again and again.
_MOST_STEPS: Final = 20_000


def rewrite(payload: bytes, mapping: Mapping) -> bytes:
    """Rewrite a message; from the first byte that cannot be understood on it becomes zeros."""
    message = _Message(payload, mapping)
    try:
        message.all()
    except DecodeError:
        # A header alone tells nothing of DNS: any other protocol on its ports has twelve bytes as well.
        end = message.reader.position if message.reader.position > _HEADER else 0
        message.made[end:] = bytes(len(payload) - end)
    message.finish()
    return bytes(message.made)


def is_whole(segment: bytes) -> bool:
    """Whether a TCP segment holds one message behind its length (RFC 7766, 8), and no more."""
    return len(segment) > 2 + _HEADER and int.from_bytes(segment[:2]) == len(segment) - 2


class _Message:
    def __init__(self, data: bytes, mapping: Mapping) -> None:
        self.made = bytearray(data)
        self.reader = Reader(data)
        self._data = data
        self._mapping = mapping
        self._steps = 0
        self._labels: list[tuple[int, bytes]] = []  # written last: a pointer may lead into what became noise
        self._asked = ""

    def all(self) -> None:
        """Walk the whole message.

        Raises:
            DecodeError: It cannot be understood from the reader's position on.
        """
        reader = self.reader
        reader.take(4)
        questions, *sections = (reader.u16() for _ in range(4))
        for _ in range(questions):
            self._asked = self._name()
            reader.take(4)
        for _ in range(sum(sections)):
            self._record()
        self.made[reader.position :] = bytes(reader.remaining)

    def finish(self) -> None:
        """Write the names."""
        for at, label in reversed(self._labels):  # where two share labels, the first one's count
            self.made[at : at + len(label)] = label

    def _record(self) -> None:
        reader = self.reader
        owner = self._name()
        kind = reader.u16()
        reader.take(6)
        length = reader.u16()
        start = reader.position
        if length > reader.remaining:
            raise TruncatedError("a record reaches past its message")
        end = start + length
        if kind in (dns.A, dns.AAAA) and length in (4, 16):
            self._address(owner, start, end)
        elif kind in _NAME_AT:
            self._fill(start, start + _NAME_AT[kind], keep=True)
            self._name()
            if kind == _SOA:
                self._name()
                reader.take(20)
            self._behind(end, keep=kind == _NSEC)
        elif kind in (dns.HTTPS, dns.SVCB):
            self._service(owner, end)
        elif kind == _OPT:
            self._options(end)
        elif kind == _RRSIG:
            self._signature(end)
        elif kind in (_TXT, _CAA):
            self._texts(end, of_whom=kind == _CAA)
        else:
            self._fill(start, end)
        if reader.position > end:
            raise DecodeError("a name reaches past its record")
        reader.take(end - reader.position)

    def _behind(self, end: int, *, keep: bool) -> None:
        """What stands between a record's last field and its end: nothing, or the types that NSEC lists."""
        if not keep and self.reader.position < end:
            self.made[self.reader.position : end] = bytes(end - self.reader.position)

    def _address(self, owner: str, start: int, end: int) -> None:
        self.made[start:end] = self._replaced(self.reader.take(end - start), owner)

    def _replaced(self, address: bytes, owner: str) -> bytes:
        for name in {owner, self._asked}:
            self._mapping.keep_if_named(name, address)
        return self._mapping.address(address)

    def _fill(self, start: int, end: int, *, keep: bool = False) -> None:
        """Move on to `end`; what is passed becomes noise, unless it is kept."""
        value = self.reader.take(end - start)
        if not keep:
            self.made[start:end] = self._mapping.credential(value)

    def _name(self) -> str:
        """A name; its labels are rewritten where they stand, behind pointers too."""
        data = self._data
        labels: list[bytes] = []
        spots: list[int] = []
        offset = earliest = self.reader.position
        after = None
        while True:
            self._steps += 1
            if offset >= len(data) or self._steps > _MOST_STEPS:
                raise TruncatedError("a name that does not end")
            length = data[offset]
            if length >= 0xC0:
                pointer = int.from_bytes(data[offset : offset + 2]) & 0x3FFF
                after = offset + 2 if after is None else after
                if pointer >= earliest or offset + 2 > len(data):
                    raise DecodeError("a name points at itself or ahead")
                offset = earliest = pointer
                continue
            if length == 0:
                break
            label = data[offset + 1 : offset + 1 + length]
            if length >= 0x40 or len(label) < length or len(labels) >= _MOST_LABELS:
                raise DecodeError("no label")
            labels.append(label.lower())
            spots.append(offset + 1)
            offset += 1 + length
        self._labels += zip(spots, self._mapping.labels(labels), strict=True)
        self.reader.take((offset + 1 if after is None else after) - self.reader.position)
        return b".".join(labels).decode("latin-1")

    def _service(self, owner: str, end: int) -> None:
        """RFC 9460, section 2.2: priority, target, parameters."""
        reader = self.reader
        reader.take(2)
        self._name()
        while reader.position < end:
            key, length = reader.u16(), reader.u16()
            start = reader.position
            value = reader.take(length)
            size = _ADDRESS_PARAMETERS.get(key)
            if size and length % size == 0:
                parts = [value[at : at + size] for at in range(0, length, size)]
                self.made[start : start + length] = b"".join(self._replaced(part, owner) for part in parts)
            elif key == _ECH:
                self.made[start : start + length] = self._ech(value)
            elif key == _DOHPATH:
                self.made[start : start + length] = b"/".ljust(length, b"x")[:length]
            elif key not in _PLAIN_PARAMETERS:
                self.made[start : start + length] = self._mapping.credential(value)

    def _ech(self, value: bytes) -> bytes:
        """An ECHConfigList (RFC 9849, section 4): keys become noise, public names are replaced."""
        made = bytearray(value)
        reader = Reader(value)
        try:
            reader.u16()
            while reader.remaining:
                version, length = reader.u16(), reader.u16()
                start = reader.position
                contents = reader.take(length)
                if version != 0xFE0D:
                    made[start : start + length] = self._mapping.credential(contents)
                    continue
                inner = Reader(value, start, start + length)
                inner.take(3)
                key = inner.vector(2)
                made[inner.position - len(key) : inner.position] = self._mapping.credential(key)
                inner.vector(2)
                inner.u8()
                name = inner.vector(1)
                made[inner.position - len(name) : inner.position] = self._mapping.host(name)
                extensions = inner.vector(2)
                made[inner.position - len(extensions) : inner.position] = self._mapping.credential(extensions)
        except DecodeError:
            return self._mapping.credential(value)
        return bytes(made)

    def _options(self, end: int) -> None:
        """EDNS (RFC 6891): the codes and lengths stay; what is in them becomes zeros."""
        reader = self.reader
        while reader.position < end:
            code = reader.u16()
            value = reader.vector(2)
            shown = 4 if code == _CLIENT_SUBNET else 0  # the family, and how much of the address there is
            self.made[reader.position - len(value) + shown : reader.position] = bytes(max(len(value) - shown, 0))

    def _signature(self, end: int) -> None:
        """RFC 4034, section 3.1: what is signed, by whom, the signature."""
        self.reader.take(18)
        self._name()
        self._fill(self.reader.position, end)

    def _texts(self, end: int, *, of_whom: bool) -> None:
        """Strings, each behind its length (TXT), or one behind a flag and its name (RFC 8659, section 4.1)."""
        reader = self.reader
        if of_whom:
            reader.take(1)
            reader.vector(1)
            start, value = reader.position, reader.take(end - reader.position)
            self.made[start:end] = b"x" * len(value)
        while reader.position < end:
            value = reader.vector(1)
            self.made[reader.position - len(value) : reader.position] = b"x" * len(value)
