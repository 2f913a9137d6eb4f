from __future__ import annotations

import struct
from typing import Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from h3probe.errors import DecodeError, TruncatedError
from h3probe.wire.dns import AddressRecord, AliasRecord, DnsMessage, ServiceBinding, parse_message, parse_tcp

A, CNAME, TXT, AAAA, SVCB, HTTPS = 1, 5, 16, 28, 64, 65
OWNER: Final = b"\x07example\x03com\0"
FOO: Final = b"\x03foo" + OWNER
V6: Final = bytes.fromhex("20010db8000000000000000000000001")


def _message(*records: bytes, questions: tuple[bytes, ...] = (), flags: int = 0x8180) -> bytes:
    return struct.pack(">HHHHHH", 0xABCD, flags, len(questions), len(records), 0, 0) + b"".join(questions + records)


def _record(rtype: int, data: bytes, *, owner: bytes = OWNER, rclass: int = 1, ttl: int = 300) -> bytes:
    return owner + struct.pack(">HHIH", rtype, rclass, ttl, len(data)) + data


def _param(key: int, value: bytes = b"") -> bytes:
    return struct.pack(">HH", key, len(value)) + value


def _alpn(*names: bytes) -> bytes:
    return _param(1, b"".join(bytes([len(name)]) + name for name in names))


def _service(data: bytes, rtype: int = HTTPS) -> ServiceBinding:
    (answer,) = parse_message(_message(_record(rtype, data))).answers
    assert isinstance(answer, ServiceBinding)
    return answer


def test_query() -> None:
    """A query gives its id and its question, the name in lower case without the final dot."""
    query = _message(questions=(b"\x07eXample\x03COM\0" + struct.pack(">HH", HTTPS, 1),), flags=0x0100)
    message = DnsMessage(0xABCD, is_response=False, rcode=0, questions=(("example.com", HTTPS),), answers=())
    assert parse_message(query) == message


def test_response() -> None:
    """A response gives its code and those answers that matter here, in their order, names decompressed."""
    alias = b"\x03www\xc0\x0c"
    message = parse_message(
        _message(
            _record(CNAME, alias, owner=b"\xc0\x0c"),
            _record(TXT, b"\x01x"),
            _record(A, bytes(4), rclass=3),
            _record(A, b"\xc0\0\2\1", owner=b"\xc0\x29"),
            _record(AAAA, V6, ttl=60),
            questions=(OWNER + struct.pack(">HH", A, 1),),
            flags=0x8183,
        )
    )
    assert (message.is_response, message.rcode) == (True, 3)
    assert message.answers == (
        AliasRecord("example.com", "www.example.com"),
        AddressRecord("www.example.com", b"\xc0\0\2\1", 300),
        AddressRecord("example.com", V6, 60),
    )


def test_https_record() -> None:
    """Every parameter of RFC 9460 is read, and unknown ones are passed over."""
    data = (
        b"\0\1\0"
        + _param(0, b"\0\1")
        + _alpn(b"h3", b"h2")
        + _param(3, b"\x20\xfb")
        + _param(4, b"\xc0\0\2\1\xc0\0\2\2")
        + _param(5, b"ech")
        + _param(6, V6)
        + _param(667, b"hello")
    )
    binding = _service(data)
    assert binding == ServiceBinding(
        "example.com",
        HTTPS,
        300,
        1,
        ".",
        alpn=("h3", "h2"),
        port=8443,
        ipv4hints=(b"\xc0\0\2\1", b"\xc0\0\2\2"),
        ipv6hints=(V6,),
        ech=True,
        mandatory=(1,),
    )
    assert binding.protocols == ("h3", "h2", "http/1.1")


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (b"\0\0" + FOO, {"priority": 0, "target": "foo.example.com"}),
        (b"\0\1\0", {"priority": 1, "target": "."}),
        (b"\0\x10" + FOO + _param(3, b"\0\x35"), {"priority": 16, "target": "foo.example.com", "port": 53}),
        (b"\0\1" + FOO + _param(667, b"hello\xd2qoo"), {"priority": 1, "target": "foo.example.com"}),
        (
            b"\0\x10" + FOO + _param(0, b"\0\1\0\4") + _param(1, b"\x02h2\x05h3-19") + _param(4, bytes([192, 0, 2, 1])),
            {
                "priority": 16,
                "target": "foo.example.com",
                "alpn": ("h2", "h3-19"),
                "mandatory": (1, 4),
                "ipv4hints": (bytes([192, 0, 2, 1]),),
            },
        ),
        (
            b"\0\x10" + FOO + _param(1, b"\x08f\\oo,bar\x02h2"),
            {"priority": 16, "target": "foo.example.com", "alpn": (r"f\\oo\,bar", "h2")},
        ),
    ],
    ids=["alias", "owner as target", "port", "unknown key", "mandatory", "escaped alpn"],
)
def test_rfc_9460_appendix_d(data: bytes, expected: dict[str, object]) -> None:
    """The wire formats of RFC 9460's test vectors are read as their presentation formats say."""
    assert _service(data, SVCB) == ServiceBinding("example.com", SVCB, 300, **expected)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("data", "protocols"),
    [
        (b"\0\1\0", ("http/1.1",)),
        (b"\0\1\0" + _alpn(b"h3"), ("h3", "http/1.1")),
        (b"\0\1\0" + _alpn(b"h3") + _param(2), ("h3",)),
        (b"\0\1\0" + _alpn(b"http/1.1", b"h2"), ("http/1.1", "h2")),
        (b"\0\0" + FOO, ()),
    ],
    ids=["default alone", "default added", "no default", "named already", "alias"],
)
def test_protocols(data: bytes, protocols: tuple[str, ...]) -> None:
    """HTTPS implies http/1.1 unless the record says otherwise (RFC 9460, section 7.1.2)."""
    assert _service(data).protocols == protocols


def test_svcb_has_no_default() -> None:
    """Another scheme's default is not known, so SVCB has what it names."""
    assert _service(b"\0\1\0" + _alpn(b"dot"), SVCB).protocols == ("dot",)


def test_alias_ignores_parameters() -> None:
    """Parameters of an alias are ignored, even broken ones (RFC 9460, section 2.4.2)."""
    assert _service(b"\0\0" + FOO + b"\xff").target == "foo.example.com"


@pytest.mark.parametrize(
    "params",
    [
        _alpn(b"h3") + _alpn(b"h2"),
        _param(3, b"\1\xbb") + _alpn(b"h3"),
        _param(3, b"\1"),
        _param(1, b""),
        _param(1, b"\0"),
        _param(1, b"\3h3"),
        _param(2),
        _alpn(b"h3") + _param(2, b"x"),
        _param(4, b""),
        _param(4, b"abc"),
        _param(6, bytes(15)),
        _param(0, b"\0"),
        _param(0, b"\0\4"),
        _param(0, b"\0\0"),
        _param(3, b"\1\xbb") + b"\0\4\0",
        b"\0\4\0\4\1\1",
    ],
)
def test_malformed_service_binding(params: bytes) -> None:
    """A parameter that is repeated, out of order, missing or of the wrong size makes the message an error."""
    with pytest.raises(DecodeError):
        parse_message(_message(_record(HTTPS, b"\0\1\0" + params)))


def test_names_are_escaped() -> None:
    """Dots inside labels, backslashes, spaces and bytes that do not print come out in presentation format."""
    query = _message(questions=(b"\x06a.b\\ \xff\0" + struct.pack(">HH", A, 1),))
    assert parse_message(query).questions[0][0] == r"a\.b\\\032\255"


def test_other_operations_have_no_answers() -> None:
    """The sections of an UPDATE are no questions and no answers."""
    update = _message(_record(A, bytes(4)), questions=(OWNER + struct.pack(">HH", 6, 1),), flags=0x2800)
    assert parse_message(update) == DnsMessage(0xABCD, is_response=False, rcode=0, questions=(), answers=())


def test_names_share_suffixes() -> None:
    """Names that end in the same suffix, reached by pointers from different places, are each read in full."""
    message = parse_message(
        _message(
            _record(CNAME, b"\x01a\xc0\x10", owner=b"\xc0\x0c"),
            _record(CNAME, b"\x01b\xc0\x0c", owner=b"\xc0\x10"),
            _record(CNAME, b"\xc0\x10", owner=b"\xc0\x18"),
            questions=(b"\x03www\x07example\x03com\0" + struct.pack(">HH", A, 1),),
        )
    )
    assert message.answers == (
        AliasRecord("www.example.com", "a.example.com"),
        AliasRecord("example.com", "b.www.example.com"),
        AliasRecord("com", "example.com"),
    )


def test_root() -> None:
    """The root's name is a dot."""
    assert parse_message(_message(questions=(b"\0" + struct.pack(">HH", A, 1),))).questions == ((".", A),)


@pytest.mark.parametrize(
    "name",
    [
        b"\xc0\x0c",
        b"\xc0\x20",
        b"\x01a\xc0\x0c",
        b"\x41a\0",
        b"\x80\0",
        b"\x3f" + b"x" * 63 + (b"\x3f" + b"x" * 63) * 3 + b"\0",
    ],
    ids=["itself", "ahead", "a loop", "extended label", "unassigned", "257 bytes"],
)
def test_malformed_names(name: bytes) -> None:
    """Names that loop, point ahead, use unassigned labels or are too long are errors."""
    with pytest.raises(DecodeError):
        parse_message(_message(questions=(name + struct.pack(">HH", A, 1) + bytes(16),)))


@pytest.mark.parametrize(("pointers", "is_read"), [(100, True), (400, False)])
def test_chains_of_pointers_are_bounded(pointers: int, *, is_read: bool) -> None:
    """A name may walk over a few pointers to pointers, not over as many as a message can hold."""
    data_starts = 12 + 1 + 10
    chain = b"\0" + struct.pack(">H", 0xC000 | data_starts)
    chain += b"".join(struct.pack(">H", 0xC000 | (data_starts + 1 + 2 * link)) for link in range(pointers - 1))
    last = struct.pack(">H", 0xC000 | (data_starts + len(chain) - 2))
    message = _message(_record(TXT, chain, owner=b"\0"), _record(A, bytes(4), owner=last))
    if is_read:
        assert parse_message(message).answers == (AddressRecord(".", bytes(4), 300),)
    else:
        with pytest.raises(DecodeError):
            parse_message(message)


@pytest.mark.parametrize(
    "record",
    [
        _record(A, bytes(3)),
        _record(AAAA, bytes(4)),
        _record(CNAME, OWNER + b"x"),
        _record(SVCB, b"\0\1\x03foo"),
        _record(SVCB, b"\0\1\x03foo") + bytes(8),
    ],
    ids=["short A", "short AAAA", "long CNAME", "cut target", "target past its record"],
)
def test_malformed_records(record: bytes) -> None:
    """Records whose data do not fit their type are errors."""
    with pytest.raises(DecodeError):
        parse_message(_message(record))


def test_truncation_at_every_byte() -> None:
    """A message cut anywhere is reported as truncated."""
    message = _message(_record(HTTPS, b"\0\1\0" + _alpn(b"h3")), questions=(OWNER + struct.pack(">HH", HTTPS, 1),))
    for cut in range(len(message)):
        with pytest.raises(TruncatedError):
            parse_message(message[:cut])


def test_tcp() -> None:
    """Messages on a stream are read one after another, and an incomplete one waits for its rest."""
    message = _message(_record(A, bytes(4)))
    framed = struct.pack(">H", len(message)) + message
    messages, consumed = parse_tcp(framed * 2 + framed[:-1])
    assert messages == (parse_message(message),) * 2
    assert consumed == 2 * len(framed)
    assert parse_tcp(b"") == parse_tcp(b"\0") == ((), 0)


@given(st.binary(max_size=200), st.integers(0, 3), st.integers(0, 3))
def test_any_bytes(data: bytes, questions: int, answers: int) -> None:
    """Any bytes give a message or a DecodeError."""
    message = struct.pack(">HHHHHH", 1, 0x8180, questions, answers, 0, 0) + data
    for parse in (parse_message, parse_tcp):
        for payload in (data, message):
            try:
                parse(payload)
            except DecodeError:
                continue


@given(st.binary(max_size=60))
def test_any_service_parameters(params: bytes) -> None:
    """Any bytes as the parameters of an HTTPS record give a binding or a DecodeError."""
    try:
        binding = _service(b"\0\1\0" + params)
    except DecodeError:
        return
    assert binding.protocols
