"""The fields of QUIC packets and TLS records."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from h3probe.show.report.secure_fields import COALESCED, quic_fields, tls_fields
from tests.wire.hello_builder import alpn, client_hello, message, record, server_hello, server_name, supported_versions
from tests.wire.quic_builder import close, crypto, initial, opaque, varint, version_negotiation

from .test_packet_fields import flat


def quic(payload: bytes) -> dict[str, str]:
    """The fields of a datagram."""
    return flat(tuple(quic_fields(payload, ())))


def tls(payload: bytes) -> dict[str, str]:
    """The fields of a segment."""
    return flat(tuple(tls_fields(payload)))


def test_an_initial_is_opened() -> None:
    """Version, IDs, packet number, frames, and the ClientHello in them; a token by its length."""
    hello = message(1, client_hello([server_name(b"example.org"), alpn(b"h3"), supported_versions(0x0304, 0x1A1A)]))
    fields = quic(initial(crypto(0, hello), token=b"secret", number=7, size=1200))
    assert fields["QUIC Initial/Version"] == "v1"
    assert fields["QUIC Initial/Packet number"] == "7"
    assert fields["QUIC Initial/Token"] == "6 bytes"
    assert fields["QUIC Initial/ClientHello/SNI"] == "example.org"
    assert fields["QUIC Initial/ClientHello/Versions"] == "TLS 1.3, 0x1a1a (GREASE)"
    assert fields["QUIC Initial/ClientHello/Session ID"] == "2 bytes"
    assert b"secret".hex() not in repr(fields)


def test_a_hello_in_pieces_is_put_together() -> None:
    """CRYPTO frames in any order; a piece whose beginning is elsewhere is called one."""
    hello = message(1, client_hello([server_name(b"example.org")]))
    fields = quic(initial(crypto(20, hello[20:]) + crypto(0, hello[:20])))
    assert fields["QUIC Initial/ClientHello/SNI"] == "example.org"
    assert "a part of a message" in quic(initial(crypto(20, hello[20:])))["QUIC Initial/TLS"]


def test_a_close_says_why() -> None:
    """Code, name and reason."""
    fields = quic(initial(close(0x178, b"no way")))
    assert fields["QUIC Initial/CONNECTION_CLOSE/Code"] == "0x178 CRYPTO_ERROR: no_application_protocol"
    assert fields["QUIC Initial/CONNECTION_CLOSE/Reason"] == "no way"


def test_other_packets_are_named() -> None:
    """Handshake packets are encrypted, Version Negotiation lists versions, acknowledgements are runs."""
    assert quic(opaque("handshake", bytes(40)))["QUIC Handshake/Contents"] == "encrypted"
    assert quic(version_negotiation(1, 0x6B3343CF))["QUIC Version Negotiation/Versions offered"] == "v1, v2"
    assert quic(b"\x40" + bytes(40))["QUIC 1-RTT/Contents"] == "encrypted"
    ack = b"\x02" + varint(5) + varint(0) + varint(1) + varint(1) + varint(0) + varint(0)
    assert quic(initial(ack))["QUIC Initial/ACK"] == "4 to 5, 2"


def test_tls_records_are_taken_apart() -> None:
    """Hellos by their fields, an alert by its name, the rest as encrypted."""
    fields = tls(record(22, message(1, client_hello([server_name(b"example.org"), alpn(b"h2", b"http/1.1")]))))
    assert fields["TLS Handshake/ClientHello/ALPN"] == "h2, http/1.1"
    fields = tls(record(22, message(2, server_hello([supported_versions(0x0304)]))) + record(23, bytes(20)))
    assert fields["TLS Handshake/ServerHello/Cipher suite"] == "TLS_AES_128_GCM_SHA256"
    assert fields["TLS Application data/Contents"] == "encrypted"
    assert tls(record(21, b"\x02\x30"))["TLS Alert/Alert"] == "48 unknown_ca, fatal"
    assert tls(record(21, bytes(19)))["TLS Alert/Contents"] == "encrypted"


def test_a_record_that_goes_on_is_said() -> None:
    """A segment that ends within a record says how much of it there is; what is no TLS is nothing."""
    assert "goes on in another segment" in tls(record(23, bytes(100))[:50])["TLS"]
    assert tls(b"GET / HTTP/1.1") == {}


def test_many_records_are_cut() -> None:
    """A segment full of tiny records makes no endless tree."""
    assert len(tls_fields(record(23, b"x") * 200)) == COALESCED


@given(st.binary(max_size=600))
def test_no_frames_are_an_obstacle(payload: bytes) -> None:
    """Whatever an Initial holds, once opened."""
    assert quic(initial(payload))
    tls(record(22, payload))
