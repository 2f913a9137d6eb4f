"""What is fuzzed: functions of bytes, each with an invariant.

A decoder's invariant: it gives a fact or raises `DecodeError`, nothing else. The invariant of everything above it:
whatever the bytes, it raises nothing and ends with a summary; a capture file may also be refused with `CaptureError`.
"""

from __future__ import annotations

import io
import zipfile
from collections import deque
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from h3probe.capture import read_capture
from h3probe.capture.bundle import CAPTURE, MEMBERS, OBSERVED, Bundle
from h3probe.engine import Engine
from h3probe.errors import CaptureError, DecodeError
from h3probe.events import Frame, TimePassed
from h3probe.redact import Mapping, Redactor
from h3probe.show.ndjson import to_json
from h3probe.vantage.proxy_events import format_observed, parse_observed
from h3probe.wire import altsvc, dns, http1, tls
from h3probe.wire.http1_stream import Http1Reader
from h3probe.wire.http2 import PREFACE, Http2Reader
from h3probe.wire.http3 import Http3Reader
from h3probe.wire.ja4 import ja4
from h3probe.wire.keylog import KeyLog
from h3probe.wire.link import LINK_TYPE_NAMES
from h3probe.wire.packet import PacketDecoder, TcpSegment, UdpDatagram
from h3probe.wire.quic import frames, packets, protection, stream_frames, transport_parameters
from h3probe.wire.quic.versions import known
from h3probe.wire.tls_names import HANDSHAKE

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from h3probe.events import Event

CAPTURES = Path(__file__).parents[1] / "captures"
LINK_TYPES = sorted(LINK_TYPE_NAMES)
RAW = 101
MILLISECOND_NS = 1_000_000
CHUNK = 1 << 16


def quic(data: bytes) -> None:
    """A UDP payload: packets, their Initials opened with the keys that their own DCID gives."""
    packets.looks_like_quic(data)
    with suppress(DecodeError):
        for packet in packets.split_datagram(data):
            if isinstance(packet, packets.LongPacket) and known(packet.version) is not None:
                with suppress(DecodeError):
                    keys = protection.initial_keys(packet.version, packet.dcid)
                    frames.parse_frames(protection.open_packet(keys.client, packet).payload)


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
    for parse in (tls.records, tls.handshake_messages, tls.parse_alert, tls.parse_server_hello):
        with suppress(DecodeError):
            parse(data)
    with suppress(DecodeError):
        ja4(tls.parse_client_hello(data), "t")


def dns_message(data: bytes) -> None:
    """A DNS message, over UDP and over TCP."""
    with suppress(DecodeError):
        dns.parse_message(data)
    with suppress(DecodeError):
        dns.parse_tcp(data)


def http1_head(data: bytes) -> None:
    """The head of an HTTP/1.1 request or response, and an Alt-Svc value."""
    with suppress(DecodeError):
        head = http1.parse_request_head(data)
        if head is not None:
            http1.connect_target(head)
            http1.connect_udp_target(head)
    with suppress(DecodeError):
        http1.parse_response_head(data)
    altsvc.parse(data.decode("latin-1").split("\n"))


def http_streams(data: bytes) -> None:
    """What decrypted connections carry: HTTP/1.1, HTTP/2, and HTTP/3 in pieces of streams behind their length."""
    for from_client in (True, False):
        with suppress(DecodeError):
            Http1Reader(from_client=from_client, asked=deque(["GET"])).feed(data)
        with suppress(DecodeError):
            Http2Reader(from_client=from_client).feed(data)
        reader = Http3Reader(from_client=from_client)
        reader.allow_table(4096)
        for piece in _split(data):
            with suppress(DecodeError):
                reader.feed(piece[0] if piece else 0, piece[1:])


def key_log(data: bytes) -> None:
    """A file of TLS secrets."""
    KeyLog().add(data)


def frame(data: bytes) -> None:
    """A frame of any link type, which the first byte chooses."""
    if data:
        link_type = LINK_TYPES[data[0] % len(LINK_TYPES)]
        PacketDecoder().decode(Frame(1, 0, link_type, data[1:], len(data) - 1))


def engine(data: bytes) -> None:
    """IP packets, each behind its length in two bytes, a millisecond apart: everything from decoding to verdicts."""
    _explain(
        Frame(number, number * MILLISECOND_NS, RAW, each, len(each)) for number, each in enumerate(_split(data), 1)
    )


def capture(data: bytes) -> None:
    """A file that may be a capture."""
    with suppress(CaptureError):
        _explain(read_capture(io.BytesIO(data)))


def bundle(data: bytes) -> None:
    """A file that may be a bundle, of which every member is read; and a line of one."""
    with suppress(DecodeError):
        parse_observed(data)
    with suppress(CaptureError, OSError):
        found = Bundle(io.BytesIO(data), name="fuzz")
        for name in MEMBERS:
            member = found.open(name)
            while member is not None and member.read(CHUNK):
                pass


def redact(data: bytes) -> None:
    """The same, redacted: as many bytes in each frame that is let through."""
    redactor = Redactor(Mapping(bytes(32)))
    lengths = []
    made = []
    for number, each in enumerate(_split(data), 1):
        lengths.append(len(each))
        made += redactor.frame(Frame(number, number * MILLISECOND_NS, RAW, each, len(each)))
    made += redactor.finish()
    assert len(made) + redactor.dropped.total() == len(lengths)
    assert all(len(frame.data) == lengths[frame.number - 1] for frame in made)


def _explain(events: Iterable[Event]) -> None:
    """Run the engine, and hold it to its contract."""
    subject = Engine("fuzz", None)
    records = [record for event in events for record in subject.feed(event)]
    records += subject.finish()
    subject.take_moments()
    assert [record.type for record in (records[0], records[-1])] == ["capture", "summary"]
    for record in records:
        assert to_json(record).isprintable()


def _split(data: bytes) -> Iterator[bytes]:
    while len(data) > 2:
        end = 2 + int.from_bytes(data[:2])
        yield data[2:end]
        data = data[end:]


TARGETS: dict[str, Callable[[bytes], None]] = {
    "quic": quic,
    "quic-frames": quic_frames,
    "tls": tls_stream,
    "dns": dns_message,
    "http1": http1_head,
    "http-streams": http_streams,
    "key-log": key_log,
    "frame": frame,
    "engine": engine,
    "redact": redact,
    "capture": capture,
    "bundle": bundle,
}

_HTTP1 = b'CONNECT h3.test:443 HTTP/1.1\r\nHost: h3.test:443\r\nAlt-Svc: h3=":443"; ma=3600\r\n\r\n'
# A request in HPACK's static table and literals; the same in QPACK, behind SETTINGS and an insertion.
_HTTP2 = (
    PREFACE + bytes.fromhex("000006040000000000000100001000" + "000010010500000001" + "828784410b") + b"example.com"
)
_HTTP3 = (
    bytes.fromhex("0009 02 00 04 05 01 50 00 07 10" + "0008 06 02 3f e1 0f c1 01 78")
    + bytes.fromhex("0015 00 01 12 00 00 d1 d7 c1 50 0b")
    + b"example.com"
)
_KEY_LOG = b"CLIENT_RANDOM %064x %096x\nCLIENT_TRAFFIC_SECRET_0 %064x %064x\n" % (1, 2, 3, 4)
_DNS = (
    bytes.fromhex("000181800001000100000000")
    + b"\2h3\4test\0\0\x41\0\1"
    + (b"\xc0\x0c\0\x41\0\1\0\0\0\x3c\0\x0a\0\1\0\0\1\0\3\2h3")
)


def seeds(target: str, name: str = "curl-alt-svc-cache") -> list[bytes]:
    """Valid inputs of a target to start from, taken from a recording where it has any."""
    path = CAPTURES / f"{name}.pcap"
    events = list(read_capture(io.BytesIO(path.read_bytes())))
    recorded = [event for event in events if isinstance(event, Frame)]
    facts = [PacketDecoder().decode(each) for each in recorded]
    udp = [fact.payload for fact in facts if isinstance(fact, UdpDatagram)]
    tcp = [fact.payload for fact in facts if isinstance(fact, TcpSegment) and fact.payload]
    ethernet = 14
    ip_packets = b"".join(len(d := each.data[ethernet:]).to_bytes(2) + d for each in recorded)
    return {
        "quic": udp,
        "quic-frames": [bytes.fromhex("06000401000000"), bytes.fromhex("1c0c00024869"), bytes.fromhex("01026745")],
        "tls": tcp + [message for payload in tcp for message in _messages(payload)],
        "dns": [_DNS],
        "http1": [_HTTP1, b"HTTP/1.1 407 Proxy Authentication Required\r\n\r\n"],
        "http-streams": [_HTTP2, _HTTP3, _HTTP1, b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhi\r\n"],
        "key-log": [_KEY_LOG],
        "frame": [bytes([LINK_TYPES.index(each.link_type)]) + each.data for each in recorded],
        "engine": [ip_packets],
        "redact": [ip_packets],
        "capture": [path.read_bytes()],
        "bundle": [_bundle(path.read_bytes()), format_observed(TimePassed(1), 2).encode()],
    }[target]


def _bundle(capture: bytes) -> bytes:
    """A bundle of a capture, as `h3probe bundle` would make it."""
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(CAPTURE, capture)
        archive.writestr(OBSERVED, format_observed(TimePassed(1), 2) + "\n")
    return stream.getvalue()


def _messages(payload: bytes) -> list[bytes]:
    """The bodies of the handshake messages in a segment, where it begins with whole ones."""
    with suppress(DecodeError):
        stream = b"".join(record.payload for record in tls.records(payload)[0] if record.content_type == HANDSHAKE)
        return [body for _, body in tls.handshake_messages(stream)[0]]
    return []
