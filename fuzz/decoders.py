"""Decoders as functions of bytes. The invariant of each: it gives a fact or raises `DecodeError`, nothing else."""

from __future__ import annotations

from collections import deque
from contextlib import suppress

from fuzz.pieces import split
from h3probe.errors import DecodeError
from h3probe.events import Frame
from h3probe.run.peek import peek
from h3probe.vantage.bulk import Bulk
from h3probe.vantage.dns_filter import asks_for_bindings, without_bindings
from h3probe.vantage.duplicates import fingerprint
from h3probe.vantage.mitm.hello import QuicHello, TlsHello
from h3probe.wire import altsvc, dns, http1, tls, tls_hello
from h3probe.wire.http1_stream import Http1Reader
from h3probe.wire.http2 import Http2Reader
from h3probe.wire.http3 import Http3Reader
from h3probe.wire.ja4 import ja4
from h3probe.wire.keylog import KeyLog
from h3probe.wire.link_names import LINK_TYPE_NAMES
from h3probe.wire.packet import PacketDecoder
from h3probe.wire.qpack import QpackDecoder
from h3probe.wire.quic import frames, packets, protection, stream_frames, transport_parameters
from h3probe.wire.quic.versions import known

LINK_TYPES = sorted(LINK_TYPE_NAMES)
QUERY = bytes.fromhex("000101000001000000000000") + b"\2h3\4test\0\0\x41\0\1"
"""A question for the HTTPS record of `h3.test`."""


def quic(data: bytes) -> None:
    """A UDP payload: packets, their Initials opened with the keys that their own DCID gives."""
    packets.looks_like_quic(data)
    with suppress(DecodeError):
        for packet in packets.split_datagram(data):
            if isinstance(packet, packets.LongPacket) and known(packet.version) is not None:
                with suppress(DecodeError):
                    keys = protection.initial_keys(packet.version, packet.dcid)
                    frames.parse_frames(protection.open_packet(keys.client, packet).payload)
    QuicHello().feed(data)


def quic_frames(data: bytes) -> None:
    """The content of a QUIC packet, once opened."""
    with suppress(DecodeError):
        frames.parse_frames(data)
    with suppress(DecodeError):
        transport_parameters.parse(data)
    stream_frames.parse_stream_frames(data)


def tls_stream(data: bytes) -> None:
    """The begin of a TCP stream with TLS on it, and a handshake message in it."""
    tls.looks_like_client_hello(data)
    for parse in (tls.records, tls.handshake_messages, tls.parse_alert, tls_hello.parse_server_hello):
        with suppress(DecodeError):
            parse(data)
    with suppress(DecodeError):
        tls_hello.parse_encrypted_extensions(data)
    with suppress(DecodeError):
        ja4(tls_hello.parse_client_hello(data), "t")
    TlsHello().feed(data)


def dns_message(data: bytes) -> None:
    """A DNS message, over UDP and over TCP, and as an answer that is filtered."""
    with suppress(DecodeError):
        dns.parse_message(data)
    with suppress(DecodeError):
        dns.parse_tcp(data)
    asks_for_bindings(data)
    assert without_bindings(QUERY, data)[2:3] or len(data) < 12


def http1_head(data: bytes) -> None:
    """The head of an HTTP/1.1 request or response, and values of Alt-Svc, a line each."""
    with suppress(DecodeError):
        head = http1.parse_request_head(data)
        if head is not None:
            http1.connect_target(head)
            http1.connect_udp_target(head)
    with suppress(DecodeError):
        http1.parse_response_head(data)
    altsvc.parse(data.decode("latin-1").split("\n"))


def http1_stream(data: bytes) -> None:
    """A decrypted connection of HTTP/1.1."""
    for from_client in (True, False):
        with suppress(DecodeError):
            Http1Reader(from_client=from_client, asked=deque(["GET", "HEAD", "CONNECT"])).feed(data)


def http2(data: bytes) -> None:
    """A decrypted connection of HTTP/2, header compression included."""
    for from_client in (True, False):
        with suppress(DecodeError):
            Http2Reader(from_client=from_client).feed(data)


def http3(data: bytes) -> None:
    """Decrypted streams of HTTP/3, in pieces of which each begins with the number of its stream."""
    for from_client in (True, False):
        reader = Http3Reader(from_client=from_client)
        reader.allow_table(4096)
        for piece in split(data):
            with suppress(DecodeError):
                reader.feed(piece[0] if piece else 0, piece[1:])


def qpack(data: bytes) -> None:
    """Field sections and pieces of an encoder stream; the first byte of a piece says which."""
    decoder = QpackDecoder()
    for token, piece in enumerate(split(data)):
        with suppress(DecodeError):
            match piece[:1]:
                case b"\x00":
                    decoder.feed_encoder(piece[1:])
                case b"\x01":
                    decoder.allow(int.from_bytes(piece[1:4]))
                case _:
                    decoder.decode(token, piece[1:])


def key_log(data: bytes) -> None:
    """A file of TLS secrets."""
    KeyLog().add(data)


def frame(data: bytes) -> None:
    """A frame of any link type, which the first byte chooses, and the quick looks at it."""
    if data:
        each = Frame(1, 0, LINK_TYPES[data[0] % len(LINK_TYPES)], data[1:], len(data) - 1)
        PacketDecoder().decode(each)
        peek(each)
        fingerprint(each.data)
        Bulk().keep(each.data, 0, 0)
