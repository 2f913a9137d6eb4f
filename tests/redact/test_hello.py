"""Handshake messages in the clear."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from h3probe.redact.hello import Hellos
from h3probe.redact.mapping import Mapping
from h3probe.wire.ja4 import ja4
from h3probe.wire.quic.transport_parameters import parse as parse_parameters
from h3probe.wire.tls import handshake_messages
from h3probe.wire.tls_hello import HELLO_RETRY_REQUEST, parse_client_hello, parse_server_hello
from tests.wire.hello_builder import alpn, client_hello, message, server_hello, server_name, supported_versions, vector
from tests.wire.quic_builder import varint

MAPPING = Mapping(bytes(range(32)))
HELLOS = Hellos(MAPPING)
NAME = b"www.secret.org"
SECRET = b"a secret of whatever kind"


def parameters(*values: tuple[int, bytes]) -> bytes:
    """QUIC's transport parameters."""
    return b"".join(varint(number) + varint(len(value)) + value for number, value in values)


def test_a_client_hello() -> None:
    """The name and every credential are others; what the client can do, and its fingerprint, is the same."""
    psk = vector(2, vector(2, SECRET) + b"\x01\x02\x03\x04") + vector(2, vector(1, SECRET + bytes(10)))
    ech = b"\x00\x00\x01\x00\x01\x07" + vector(2, SECRET) + vector(2, SECRET)
    tp = parameters((0x0F, b"\x0a\x0b\x0c\x0d"), (0x01, b"\x80\x00\x75\x30"), (0x1234, SECRET))
    extensions = [
        server_name(NAME),
        alpn(b"h3"),
        supported_versions(0x0304),
        (35, SECRET),
        (44, vector(2, SECRET)),
        (57, tp),
        (0xFE0D, ech),
        (47, vector(2, vector(2, SECRET))),
        (0x4A4A, b"\0"),
        (0x9999, SECRET),
        (41, psk),
    ]
    body = client_hello(extensions)
    made = HELLOS.message(1, body)
    before, after = parse_client_hello(body), parse_client_hello(made)
    assert len(made) == len(body)
    assert SECRET not in made
    assert NAME not in made
    assert after.sni == MAPPING.host(NAME).decode()
    assert ja4(after, "q") == ja4(before, "q")
    assert after.random == before.random
    assert (after.psk, after.ech, after.alpn) == (True, True, ("h3",))
    assert before.transport_parameters is not None
    assert after.transport_parameters is not None
    old, new = parse_parameters(before.transport_parameters), parse_parameters(after.transport_parameters)
    assert new.order == old.order
    assert new.values[0x0F] == MAPPING.connection_id(b"\x0a\x0b\x0c\x0d")
    assert new.max_idle_timeout == old.max_idle_timeout


def test_drafts() -> None:
    """Extensions as drafts had them keep their lengths inside: Encrypted SNI, transport parameters up to draft 26."""
    old = b"\x00\x01\x00\x04\x80\x00\x75\x30" + b"\x12\x34" + vector(2, SECRET)
    esni = b"\x13\x01\x00\x1d" + vector(2, SECRET) + vector(2, SECRET) + vector(2, SECRET)
    body = client_hello([server_name(NAME), (0xFFA5, vector(2, old)), (0xFFCE, esni), (40, vector(2, b"key"))])
    made = HELLOS.message(1, body)
    assert len(made) == len(body)
    assert SECRET not in made
    assert vector(2, old)[:12] in made  # the total, a limit with its length, the next number
    assert esni[:6] in made
    assert vector(2, b"key") in made


def test_lengths_that_lie() -> None:
    """A list of cipher suites that runs on into the name does not carry it along."""
    body = bytearray(client_hello([server_name(NAME)]))
    at = body.index(b"\x00\x04\x13\x01")
    body[at : at + 2] = (len(body) - at - 2 - 9).to_bytes(2)
    made = HELLOS.message(1, bytes(body))
    assert len(made) == len(body)
    assert NAME not in made


def test_session_ids_still_match() -> None:
    """What the server echoes is what the client sent (RFC 8446, 4.1.3)."""
    client = parse_client_hello(HELLOS.message(1, client_hello([])))
    server = parse_server_hello(HELLOS.message(2, server_hello([])))
    assert client.session_id == server.session_id != b"id"


def test_a_retry_request_is_still_one() -> None:
    """The random that marks it stays, and its cookie is what the client sends back."""
    cookie = (44, vector(2, SECRET))
    server = parse_server_hello(HELLOS.message(2, server_hello([cookie], random=HELLO_RETRY_REQUEST)))
    client = parse_client_hello(HELLOS.message(1, client_hello([cookie])))
    assert server.is_retry
    assert dict(server.extensions)[44] == dict(client.extensions)[44] != vector(2, SECRET)


@pytest.mark.parametrize(
    ("kind", "body"),
    [
        (4, bytes(4) + vector(2, SECRET)),
        (11, vector(3, vector(3, SECRET * 20) + vector(3, SECRET))),
        (12, b"\x03\x00\x1d" + vector(1, bytes(32)) + b"\x08\x04" + vector(2, SECRET)),
        (12, b"\x03\x00\x1d" + vector(1, bytes(32)) + vector(2, SECRET)),
        (12, vector(2, SECRET) + vector(2, b"\x02") + vector(2, SECRET) + b"\x06\x02" + vector(2, SECRET)),
        (12, SECRET),
        (13, vector(1, b"\x01") + vector(2, b"\x08\x04") + vector(2, vector(2, SECRET * 2))),
        (15, b"\x08\x04" + vector(2, SECRET)),
        (16, vector(1, SECRET)),
        (16, vector(2, SECRET)),
        (22, b"\x01" + vector(3, SECRET * 20)),
        (99, SECRET),
    ],
)
def test_messages_of_tls12(kind: int, body: bytes) -> None:
    """Certificates, signatures, tickets and what is not known are gone; every length stays."""
    made = HELLOS.message(kind, body)
    assert len(made) == len(body)
    assert SECRET not in made


@settings(deadline=None)
@given(st.integers(0, 30), st.binary(max_size=120))
def test_any_bytes(kind: int, body: bytes) -> None:
    """Whatever stands in a message, it is as long afterwards."""
    assert len(HELLOS.message(kind, body)) == len(body)


def test_several_messages() -> None:
    """Whole messages are rewritten, what is left of another is not taken."""
    first, second = message(1, client_hello([server_name(NAME)])), message(4, bytes(4) + vector(2, SECRET))
    made, used = HELLOS.messages(first + second + second[:9])
    assert used == len(first + second) == len(made)
    assert [kind for kind, _ in handshake_messages(made)[0]] == [1, 4]
    assert SECRET not in made


def test_what_names_a_certificate() -> None:
    """Signed timestamps (RFC 6962) lead to the certificate, and so to the name, in public logs: they do not stay."""
    sct = vector(2, vector(2, b"\0" + SECRET))
    assert SECRET not in HELLOS.message(2, server_hello([(18, sct)]))
    jdk = bytes.fromhex("000702000400000000")
    assert jdk in HELLOS.message(1, client_hello([(17, jdk)]))
    assert SECRET not in HELLOS.message(1, client_hello([(17, jdk + SECRET), (21, SECRET)]))
