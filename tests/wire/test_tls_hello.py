from __future__ import annotations

import dataclasses
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from h3probe.errors import DecodeError, TruncatedError
from h3probe.wire.tls_hello import HELLO_RETRY_REQUEST, parse_client_hello, parse_server_hello
from tests.wire import hello_builder as build
from tests.wire.quic import vectors

FULL = [
    (0x2A2A, b""),
    build.server_name(b"example.com"),
    build.alpn(b"h2", b"http/1.1"),
    build.supported_versions(0x5A5A, 0x0304, 0x0303),
    (10, build.vector(2, build.u16s(0x11EC, 0x001D))),
    (13, build.vector(2, build.u16s(0x0403, 0x0804))),
    (51, build.vector(2, b"\x11\xec" + build.vector(2, b"share") + b"\x00\x1d" + build.vector(2, b"k"))),
    (57, b"parameters"),
    (0xFE0D, b"\x00outer"),
    (42, b""),
    (41, b"psk"),
]


def test_client_hello_of_rfc_9001() -> None:
    """The ClientHello in the sample Initial of RFC 9001, A.2 is read field by field."""
    hello = parse_client_hello(vectors.CLIENT_FRAMES[8:])
    assert hello.legacy_version == 0x0303
    assert hello.random.hex().startswith("ebf8fa56f129")
    assert hello.cipher_suites == (0x1301, 0x1302)
    assert hello.sni == "example.com"
    assert hello.alpn == ("alpn",)
    assert hello.supported_versions == (0x0304,)
    assert hello.groups == (0x001D, 0x0017, 0x0018)
    assert hello.key_share_groups == (0x001D,)
    assert hello.signature_algorithms[:2] == (0x0403, 0x0503)
    assert hello.transport_parameters is not None
    assert len(hello.transport_parameters) == 50
    assert (hello.ech, hello.psk, hello.early_data) == (False, False, False)


def test_client_hello_with_everything() -> None:
    """Every field comes from its own extension, in the order sent and with GREASE left in."""
    hello = parse_client_hello(build.client_hello(FULL, ciphers=(0xEAEA, 0x1301)))
    assert hello.session_id == b"id"
    assert hello.compression_methods == b"\x00"
    assert hello.cipher_suites == (0xEAEA, 0x1301)
    assert hello.extensions == tuple(FULL)
    assert (hello.sni, hello.alpn, hello.alpn_raw) == ("example.com", ("h2", "http/1.1"), (b"h2", b"http/1.1"))
    assert hello.supported_versions == (0x5A5A, 0x0304, 0x0303)
    assert (hello.groups, hello.key_share_groups) == ((0x11EC, 0x001D), (0x11EC, 0x001D))
    assert hello.signature_algorithms == (0x0403, 0x0804)
    assert (hello.ech, hello.psk, hello.early_data) == (True, True, True)
    assert hello.transport_parameters == b"parameters"


@pytest.mark.parametrize("tail", [b"", b"\x00"])
def test_client_hello_without_extensions(tail: bytes) -> None:
    """A hello may end after its compression methods (TLS 1.0, RFC 5246, 7.4.1.2), or one byte later."""
    hello = parse_client_hello(build.client_hello(version=0x0301) + tail)
    assert hello.legacy_version == 0x0301
    assert hello.extensions == ()
    assert (hello.sni, hello.alpn, hello.transport_parameters) == (None, (), None)


@pytest.mark.parametrize(
    ("kind", "field", "empty"),
    [
        (0, "sni", None),
        (16, "alpn", ()),
        (43, "supported_versions", ()),
        (10, "groups", ()),
        (13, "signature_algorithms", ()),
        (51, "key_share_groups", ()),
    ],
)
@pytest.mark.parametrize("broken", [b"", b"\x00", b"\xff\xff\x00", b"\x00\x03\x00\x00\x09", b"\x02\x03\x04\x00"])
def test_a_broken_extension_costs_only_its_own_field(
    kind: int, field: str, empty: tuple[()] | None, broken: bytes
) -> None:
    """Whatever stands in one extension, its field is empty and all other fields are as they were."""
    whole = parse_client_hello(build.client_hello(FULL))
    extensions = [(number, broken if number == kind else contents) for number, contents in FULL]
    hello = parse_client_hello(build.client_hello(extensions))
    expected: dict[str, Any] = {field: empty, "extensions": tuple(extensions)} | (
        {"alpn_raw": ()} if kind == 16 else {}
    )
    assert hello == dataclasses.replace(whole, **expected)


def test_the_first_of_two_equal_extensions_counts() -> None:
    """A repeated extension, which the RFC forbids, does not replace the first one."""
    hello = parse_client_hello(build.client_hello([build.server_name(b"first"), build.server_name(b"second")]))
    assert hello.sni == "first"


def test_an_inner_hello_is_not_taken_for_the_outer() -> None:
    """`ech` is true only for the outer form of the extension."""
    assert not parse_client_hello(build.client_hello([(0xFE0D, b"\x01")])).ech


def test_draft_transport_parameters_stand_in_for_the_final_ones() -> None:
    """The extension's number in drafts of QUIC is read where the final one is absent."""
    assert parse_client_hello(build.client_hello([(0xFFA5, b"draft")])).transport_parameters == b"draft"
    both = parse_client_hello(build.client_hello([(0xFFA5, b"draft"), (57, b"final")]))
    assert both.transport_parameters == b"final"


def test_a_hello_cut_anywhere_is_an_error_of_the_message() -> None:
    """A ClientHello that ends early raises TruncatedError wherever that is, except where it may end."""
    body = build.client_hello(FULL)
    may_end = len(build.client_hello())
    for length in range(len(body)):
        if length in (may_end, may_end + 1):
            continue
        with pytest.raises(TruncatedError):
            parse_client_hello(body[:length])


def test_an_odd_cipher_list_is_an_error_of_the_message() -> None:
    """A list of cipher suites with half a suite at its end raises DecodeError."""
    with pytest.raises(DecodeError, match="3 bytes"):
        parse_client_hello(b"\x03\x03" + bytes(32) + b"\x00" + build.vector(2, b"\x13\x01\x13") + b"\x01\x00")


def test_server_hello_of_rfc_9001() -> None:
    """The ServerHello in the sample Initial of RFC 9001, A.3 chose TLS 1.3 and x25519."""
    hello = parse_server_hello(vectors.SERVER_PAYLOAD[13:])
    assert (hello.legacy_version, hello.version) == (0x0303, 0x0304)
    assert (hello.cipher_suite, hello.key_share_group) == (0x1301, 0x001D)
    assert (hello.alpn, hello.is_retry) == (None, False)


def test_server_hello_of_tls_1_2_tells_the_protocol() -> None:
    """Up to TLS 1.2 the version is in its own field and the protocol chosen is in the clear."""
    hello = parse_server_hello(build.server_hello([build.alpn(b"h2")]))
    assert (hello.version, hello.alpn, hello.session_id, hello.key_share_group) == (0x0303, "h2", b"id", None)
    assert parse_server_hello(build.server_hello(version=0x0301)).extensions == ()


def test_hello_retry_request_is_known_by_its_random() -> None:
    """A ServerHello with the fixed random is a HelloRetryRequest, which names a group and sends no share."""
    hello = parse_server_hello(build.server_hello([(51, b"\x00\x17")], random=HELLO_RETRY_REQUEST))
    assert hello.is_retry
    assert hello.key_share_group == 0x0017


def test_server_hello_of_an_early_draft_has_no_session_id() -> None:
    """Drafts of TLS 1.3 that put their number into the version field left two fields out."""
    body = b"\x7f\x12" + bytes(32) + b"\x13\x01" + build.extension_block([(51, b"\x00\x1d\x00\x00")])
    hello = parse_server_hello(body)
    assert (hello.version, hello.session_id, hello.cipher_suite, hello.key_share_group) == (0x7F12, b"", 0x1301, 29)


@given(st.binary(max_size=400))
def test_any_bytes_give_facts_or_decode_error(data: bytes) -> None:
    """Whatever the bytes, either parser returns facts or raises from the DecodeError family, and nothing else."""
    for parse in (parse_client_hello, parse_server_hello):
        try:
            parse(data)
        except DecodeError:
            continue


@given(
    st.lists(
        st.tuples(st.sampled_from([0, 10, 13, 16, 41, 42, 43, 51, 57, 0xFE0D]), st.binary(max_size=40)), max_size=9
    )
)
def test_extensions_with_any_contents_never_fail_a_hello(extensions: list[tuple[int, bytes]]) -> None:
    """As long as the extensions are framed, nothing in them stops either hello from being read."""
    assert parse_client_hello(build.client_hello(extensions)).extensions == tuple(extensions)
    assert parse_server_hello(build.server_hello(extensions)).extensions == tuple(extensions)
