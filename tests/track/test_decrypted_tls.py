from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from h3probe.errors import DecodeError, DecryptError
from h3probe.track.decrypted_tls import WAITING_LIMIT, DecryptedTls
from h3probe.wire.cipher_suites import AES_128_GCM, expand_label
from h3probe.wire.keylog import SessionSecrets
from h3probe.wire.tls_hello import ClientHello, ServerHello, parse_client_hello, parse_server_hello
from tests.track import builders
from tests.wire import hello_builder
from tests.wire.test_tls_records import seal13

if TYPE_CHECKING:
    from h3probe.wire.tls import Record

EARLY, CLIENT, SERVER, CLIENT_DATA, SERVER_DATA = (bytes((n,)) * 32 for n in range(5))
SECRETS = SessionSecrets(None, EARLY, CLIENT, SERVER, CLIENT_DATA, SERVER_DATA)


def hellos(*, early: bool = False) -> tuple[ClientHello, ServerHello]:
    """The two hellos of TLS 1.3."""
    return (
        parse_client_hello(builders.client_hello(early=early)[4:]),
        parse_server_hello(builders.server_hello()[4:]),
    )


def bare(record: Record) -> bytes:
    """A record as it is on the wire."""
    return hello_builder.record(record.content_type, record.payload, record.version)


def sealed(secret: bytes, number: int, data: bytes, kind: int = 23) -> bytes:
    """A protected record on the wire."""
    return bare(seal13(AES_128_GCM, secret, number, data, kind))


def extensions(alpn: bytes | None = b"h2", *, early: bool = False) -> bytes:
    """EncryptedExtensions with their message header."""
    found = [hello_builder.alpn(alpn)] if alpn is not None else []
    found += [(42, b"")] if early else []
    block = b"".join(kind.to_bytes(2) + len(body).to_bytes(2) + body for kind, body in found)
    return hello_builder.message(8, len(block).to_bytes(2) + block)


def test_data_in_both_directions() -> None:
    """Records come in any pieces; handshake messages, alerts and what is not protected say nothing."""
    tls = DecryptedTls(*hellos(), SECRETS)
    stream = builders.handshake(builders.server_hello()) + builders.CHANGE_CIPHER + sealed(SERVER, 0, extensions(), 22)
    stream += sealed(SERVER_DATA, 0, b"\x01\x00", 21) + sealed(SERVER_DATA, 1, b"answer")
    assert b"".join(tls.feed(stream[at : at + 7], from_client=False) for at in range(0, len(stream), 7)) == b"answer"
    assert (tls.alpn, tls.negotiated, tls.held) == ("h2", True, 0)
    assert tls.feed(builders.handshake(builders.client_hello()), from_client=True) == b""
    assert tls.feed(sealed(CLIENT, 0, b"finished", 22) + sealed(CLIENT_DATA, 0, b"ask"), from_client=True) == b"ask"


def test_a_key_update() -> None:
    """After a KeyUpdate its sender's next record has the next keys (RFC 8446, 4.6.3)."""
    tls = DecryptedTls(*hellos(), SECRETS)
    updated = expand_label(SERVER_DATA, b"traffic upd", 32)
    stream = sealed(SERVER, 0, extensions(None), 22) + sealed(SERVER_DATA, 0, b"before")
    stream += sealed(SERVER_DATA, 1, hello_builder.message(24, b"\x01"), 22) + sealed(updated, 0, b" and after")
    assert tls.feed(stream, from_client=False) == b"before and after"
    assert tls.alpn is None


@pytest.mark.parametrize("accepted", [True, False])
def test_early_data_waits_for_the_servers_word(*, accepted: bool) -> None:
    """0-RTT data is taken where the server takes it; where it is refused it comes again, and counts once."""
    tls = DecryptedTls(*hellos(early=True), SECRETS)
    assert tls.feed(sealed(EARLY, 0, b"early "), from_client=True) == b""
    assert tls.waited() == b""
    assert tls.held > 0
    tls.feed(sealed(SERVER, 0, extensions(early=accepted), 22), from_client=False)
    assert tls.waited() == (b"early " if accepted else b"")
    later = sealed(EARLY, 1, hello_builder.message(5, b""), 22) if accepted else b""
    later += sealed(CLIENT, 0, b"finished", 22) + sealed(CLIENT_DATA, 0, b"later")
    assert tls.feed(later, from_client=True) == b"later"


def test_data_without_an_answer_is_bounded() -> None:
    """A client's data that nobody answers fills no memory."""
    tls = DecryptedTls(*hellos(early=True), SECRETS)
    stream = b"".join(sealed(EARLY, number, bytes(16_000)) for number in range(WAITING_LIMIT // 16_000 + 1))
    with pytest.raises(DecodeError):
        tls.feed(stream, from_client=True)


def test_what_cannot_be_followed() -> None:
    """Secrets that are missing, a suite that is unknown and records that nobody sealed are errors."""
    hello, server_hello = hellos()
    with pytest.raises(DecryptError):
        DecryptedTls(hello, server_hello, SessionSecrets(client_handshake=CLIENT, server_handshake=SERVER))
    old = parse_server_hello(builders.server_hello(tls12=True)[4:])
    with pytest.raises(DecryptError):
        DecryptedTls(hello, old, SECRETS)
    tls = DecryptedTls(hello, server_hello, SECRETS)
    with pytest.raises(DecodeError):
        tls.feed(sealed(CLIENT_DATA, 0, b"whose?"), from_client=False)
    with pytest.raises(DecodeError):
        tls.feed(b"no record", from_client=True)
    assert "\\x03" not in repr(tls)
