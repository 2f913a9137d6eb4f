"""DNS messages (RFC 1035), as far as they tell where HTTP/3 is to be found.

That is: SVCB and HTTPS records (RFC 9460), addresses and aliases.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Final, NamedTuple

from h3probe.errors import DecodeError, TruncatedError

A: Final = 1
CNAME: Final = 5
AAAA: Final = 28
DNAME: Final = 39
SVCB: Final = 64
HTTPS: Final = 65

_INTERNET: Final = 1
_MAX_NAME: Final = 255
_U16: Final = struct.Struct(">H")
_HEADER: Final = struct.Struct(">HHHHHH")
_RECORD: Final = struct.Struct(">HHIH")

_MANDATORY, _ALPN, _NO_DEFAULT_ALPN, _PORT, _IPV4HINT, _ECH, _IPV6HINT = range(7)


@dataclass(frozen=True, slots=True)
class ServiceBinding:
    """An SVCB or HTTPS record.

    Attributes:
        name: The owner.
        qtype: 64 SVCB or 65 HTTPS.
        ttl: In seconds.
        priority: 0 for an alias, which has no parameters.
        target: Where the service is; `.` means the owner itself, and for an alias that there is no service.
        alpn: Protocol names, escaped as in a value list (RFC 9460, appendix A.1).
        no_default_alpn: Whether the protocol that the scheme implies is left out.
        port: Where it differs from the scheme's.
        ipv4hints: Addresses of 4 bytes.
        ipv6hints: Addresses of 16 bytes.
        ech: Whether there is an Encrypted ClientHello configuration.
        mandatory: Keys that a client must understand to use this record.
    """

    name: str
    qtype: int
    ttl: int
    priority: int
    target: str
    alpn: tuple[str, ...] = ()
    no_default_alpn: bool = False
    port: int | None = None
    ipv4hints: tuple[bytes, ...] = ()
    ipv6hints: tuple[bytes, ...] = ()
    ech: bool = False
    mandatory: tuple[int, ...] = ()

    @property
    def protocols(self) -> tuple[str, ...]:
        """The SVCB ALPN set (RFC 9460, section 7.1.2): an HTTPS record implies http/1.1; an alias has none."""
        implies_http11 = self.qtype == HTTPS and self.priority and not self.no_default_alpn
        return (*self.alpn, "http/1.1") if implies_http11 and "http/1.1" not in self.alpn else self.alpn


@dataclass(frozen=True, slots=True)
class AddressRecord:
    """An A or AAAA record.

    Attributes:
        name: The owner.
        address: 4 or 16 bytes.
        ttl: In seconds.
    """

    name: str
    address: bytes
    ttl: int


@dataclass(frozen=True, slots=True)
class AliasRecord:
    """A CNAME or DNAME record.

    Attributes:
        name: The owner.
        target: What it stands for.
    """

    name: str
    target: str


class _Owner(NamedTuple):
    name: str
    rtype: int
    ttl: int


Answer = ServiceBinding | AddressRecord | AliasRecord


@dataclass(frozen=True, slots=True)
class DnsMessage:
    """A query or a response.

    Attributes:
        id: Joins a response to its query.
        is_response: False for a query.
        rcode: 0 no error, 3 no such name, ...
        questions: Name and type of each; names in lower case, without the final dot.
        answers: Records of the answer section of the types known here.
    """

    id: int
    is_response: bool
    rcode: int
    questions: tuple[tuple[str, int], ...]
    answers: tuple[Answer, ...]


def parse_message(payload: bytes) -> DnsMessage:
    """Read a DNS message, as a UDP datagram carries it; the sections after the answers are not read.

    Raises:
        TruncatedError: It ends before its counts and lengths say.
        DecodeError: It is no DNS message, or one of its records is malformed.
    """
    if len(payload) < 12:
        raise TruncatedError("a DNS header takes 12 bytes")
    identifier, flags, question_count, answer_count, _, _ = _HEADER.unpack_from(payload)
    if flags & 0x7800:  # NOTIFY, UPDATE and the like give these sections other meanings (RFC 2136, section 2)
        question_count = answer_count = 0
    try:
        message = _Message(payload)
        offset = 12
        questions = []
        for _ in range(question_count):
            name, offset = message.name(offset)
            qtype, _ = struct.unpack_from(">HH", payload, offset)
            questions.append((name, qtype))
            offset += 4
        answers = []
        for _ in range(answer_count):
            answer, offset = _record(message, offset)
            if answer is not None:
                answers.append(answer)
    except (struct.error, IndexError):
        raise TruncatedError(f"a DNS message of {len(payload)} bytes ends inside its records") from None
    return DnsMessage(identifier, bool(flags & 0x8000), flags & 0x0F, tuple(questions), tuple(answers))


def parse_tcp(stream: bytes) -> tuple[tuple[DnsMessage, ...], int]:
    """Read the messages in one direction of a TCP connection, each behind its length (RFC 7766, section 8).

    Returns:
        The complete messages, and how many bytes of `stream` they took.

    Raises:
        DecodeError: One of them is malformed.
    """
    messages = []
    offset = 0
    while len(stream) - offset >= 2:
        (length,) = struct.unpack_from(">H", stream, offset)
        if len(stream) - offset - 2 < length:
            break
        messages.append(parse_message(stream[offset + 2 : offset + 2 + length]))
        offset += 2 + length
    return tuple(messages), offset


class _Message:
    """The bytes of a message and the names in it, each suffix that a pointer leads to read once.

    Otherwise a message of 64 KiB could make its reader walk the same 127 labels five thousand times.
    """

    def __init__(self, data: bytes) -> None:
        self.data = data
        self._suffixes: dict[int, tuple[list[str], int]] = {}

    def name(self, offset: int) -> tuple[str, int]:
        """A domain name, and where the bytes after it begin.

        A compression pointer must point before the part of the name that it ends (RFC 1035, 4.1.4), so
        the walk goes strictly backward; with the limit of 255 bytes that ends every loop.
        """
        data = self.data
        labels: list[str] = []
        followed: list[tuple[int, int, int]] = []
        size = 1
        after = None
        earliest = offset
        while (length := data[offset]) != 0:
            if length >= 0xC0:
                after = offset + 2 if after is None else after
                offset = self._pointer(offset, earliest)
                earliest = offset
                if offset in self._suffixes:
                    suffix, suffix_size = self._suffixes[offset]
                    labels += suffix
                    size += suffix_size
                    break
                followed.append((offset, len(labels), size))
                size += 1  # so that pointers to pointers are bounded like labels
            else:
                labels.append(self._label(offset))
                offset += 1 + length
                size += 1 + length
            if size > _MAX_NAME:
                break
        if size > _MAX_NAME:
            raise DecodeError("a DNS name of more than 255 bytes")
        for target, count, before in followed:
            self._suffixes[target] = labels[count:], size - before
        return ".".join(labels).lower() or ".", offset + 1 if after is None else after

    def _pointer(self, offset: int, earliest: int) -> int:
        (pointer,) = _U16.unpack_from(self.data, offset)
        target = int(pointer) & 0x3FFF
        if target >= earliest:
            raise DecodeError("a DNS name points at itself or ahead")
        return target

    def _label(self, offset: int) -> str:
        length = self.data[offset]
        if length >= 0x40:
            raise DecodeError(f"a DNS label of the unassigned type {length >> 6:#x}")
        label = self.data[offset + 1 : offset + 1 + length]
        if len(label) < length:
            raise TruncatedError("a DNS name ends inside a label")
        return _escape(label, b".\\")


def _escape(text: bytes, special: bytes) -> str:
    """Presentation format (RFC 1035, section 5.1): special characters behind a backslash, others in decimal."""
    if text.isalnum():
        return text.decode("ascii")
    return "".join(
        f"\\{byte:c}" if byte in special else chr(byte) if 0x21 <= byte <= 0x7E else f"\\{byte:03d}" for byte in text
    )


def _record(message: _Message, offset: int) -> tuple[Answer | None, int]:
    name, offset = message.name(offset)
    rtype, rclass, ttl, length = _RECORD.unpack_from(message.data, offset)
    offset += 10
    end = offset + length
    if end > len(message.data):
        raise TruncatedError("a DNS record reaches past its message")
    if rclass != _INTERNET:
        return None, end
    return _answer(_Owner(name, rtype, ttl), message, offset, end), end


def _answer(owner: _Owner, message: _Message, offset: int, end: int) -> Answer | None:
    name, rtype, ttl = owner
    if rtype in (A, AAAA):
        address = message.data[offset:end]
        if len(address) != (4 if rtype == A else 16):
            raise DecodeError(f"an address of {len(address)} bytes in a DNS record of type {rtype}")
        return AddressRecord(name, address, ttl)
    if rtype in (CNAME, DNAME):
        target, after = message.name(offset)
        if after != end:
            raise DecodeError("a DNS alias whose name does not fill its record")
        return AliasRecord(name, target)
    if rtype in (SVCB, HTTPS):
        return _service_binding(owner, message, offset, end)
    return None


def _service_binding(owner: _Owner, message: _Message, offset: int, end: int) -> ServiceBinding:
    """SVCB wire format (RFC 9460, section 2.2): priority, target, parameters in ascending order of keys."""
    (priority,) = _U16.unpack_from(message.data, offset)
    target, offset = message.name(offset + 2)
    if offset > end:
        raise DecodeError("an SVCB target reaches past its record")
    if priority == 0:  # an alias: "recipients MUST ignore any SvcParams" (section 2.4.2)
        return ServiceBinding(*owner, priority, target)
    params = _service_params(message.data, offset, end)
    port = params.get(_PORT)
    if port is not None and len(port) != 2:
        raise DecodeError(f"an SVCB port of {len(port)} bytes")
    if params.get(_NO_DEFAULT_ALPN) or (_NO_DEFAULT_ALPN in params and _ALPN not in params):
        raise DecodeError("no-default-alpn has no value and needs alpn beside it")
    mandatory = tuple(int.from_bytes(key) for key in _split(params.get(_MANDATORY), 2))
    if any(key not in params or key == _MANDATORY for key in mandatory):
        raise DecodeError("an SVCB record lacks a parameter that it calls mandatory")
    return ServiceBinding(
        *owner,
        priority,
        target,
        alpn=_alpn_ids(params.get(_ALPN)),
        no_default_alpn=_NO_DEFAULT_ALPN in params,
        port=None if port is None else int.from_bytes(port),
        ipv4hints=_split(params.get(_IPV4HINT), 4),
        ipv6hints=_split(params.get(_IPV6HINT), 16),
        ech=_ECH in params,
        mandatory=mandatory,
    )


def _service_params(data: bytes, offset: int, end: int) -> dict[int, bytes]:
    params: dict[int, bytes] = {}
    previous = -1
    while offset < end:
        if end - offset < 4:
            raise DecodeError("an SVCB record ends inside a parameter")
        key, length = struct.unpack_from(">HH", data, offset)
        offset += 4
        if key <= previous:
            raise DecodeError("SVCB parameters out of order")
        if offset + length > end:
            raise DecodeError("an SVCB parameter reaches past its record")
        params[key] = data[offset : offset + length]
        previous = key
        offset += length
    return params


def _alpn_ids(value: bytes | None) -> tuple[str, ...]:
    """Protocol names, each behind its length (RFC 9460, section 7.1.1); the list is not empty, nor is a name."""
    if value is None:
        return ()
    names = []
    offset = 0
    while offset < len(value):
        length = value[offset]
        name = value[offset + 1 : offset + 1 + length]
        if not length or len(name) < length:
            raise DecodeError("an SVCB alpn whose lengths do not fit")
        names.append(_escape(name, b",\\"))
        offset += 1 + length
    if not names:
        raise DecodeError("an empty SVCB alpn")
    return tuple(names)


def _split(value: bytes | None, size: int) -> tuple[bytes, ...]:
    """A parameter that is a list, not empty, of items of one size."""
    if value is None:
        return ()
    if not value or len(value) % size:
        raise DecodeError(f"an SVCB list of {len(value)} bytes with items of {size}")
    return tuple(value[i : i + size] for i in range(0, len(value), size))
