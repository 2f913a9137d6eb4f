"""Valid inputs of each target to start from: out of the recordings of the project, made up, or out of a folder."""

from __future__ import annotations

import io
import json
import random
import zipfile
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from fuzz.decoders import LINK_TYPES
from fuzz.explaining import explain
from fuzz.pieces import LARGEST, join
from h3probe.capture import read_capture
from h3probe.capture.bundle import CAPTURE, ENVIRONMENT, OBSERVED
from h3probe.errors import CaptureError, DecodeError
from h3probe.events import Frame
from h3probe.show.ndjson import to_json
from h3probe.vantage.proxy_events import OBSERVED_TYPES, format_observed
from h3probe.wire import tls
from h3probe.wire.http2 import PREFACE
from h3probe.wire.link import network_layer
from h3probe.wire.packet import PacketDecoder, TcpSegment, UdpDatagram
from h3probe.wire.tls_names import HANDSHAKE
from tests.redact.samples import sample
from tests.track import builders
from tests.vantage.clientlog import netlog_builder as netlog
from tests.wire.quic_builder import close, crypto

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).parents[1]
CAPTURES = ROOT / "captures"
LOGS = ROOT / "tests" / "vantage" / "clientlog" / "recordings"
MOST = 400
"""Inputs of one target that are taken from a folder."""
DNS_PORTS = {53, 5353}

_HTTP1 = b'CONNECT h3.test:443 HTTP/1.1\r\nHost: h3.test:443\r\nAlt-Svc: h3=":443"; ma=3600\r\n\r\n'
_RESPONSE = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhi\r\n0\r\n\r\n"
# A request in HPACK's static table and literals; the same in QPACK, behind SETTINGS and an insertion.
_FRAMES = bytes.fromhex("000006040000000000000100001000" + "000010010500000001" + "828784410b") + b"example.com"
_SECTION = bytes.fromhex("0000d1d7c1500b") + b"example.com"
_HTTP3 = (
    bytes.fromhex("0009 02 00 04 05 01 50 00 07 10" + "0008 06 02 3f e1 0f c1 01 78")
    + bytes.fromhex("0015 00 01 12")
    + _SECTION
)
_QPACK = join([b"\x01\x00\x10\x00", b"\x00\x3f\xe1\x0f\xc1\x01\x78", b"\x02" + _SECTION, b"\x02\x02\x00\x80"])
_KEY_LOG = b"CLIENT_RANDOM %064x %096x\nCLIENT_TRAFFIC_SECRET_0 %064x %064x\n" % (1, 2, 3, 4)
_DNS = (
    bytes.fromhex("000181800001000100000000")
    + b"\2h3\4test\0\0\x41\0\1"
    + (b"\xc0\x0c\0\x41\0\1\0\0\0\x3c\0\x0a\0\1\0\0\1\0\3\2h3")
)
_ALT_SVC = b'h3=":443"; ma=3600; persist=1, h3-29="alt.example:8443"\nclear\nh2="[::1]:443"'
_ENVIRONMENT = {
    "h3probe": "0.1",
    "os": "Linux 6.1",
    "packages": {"scapy": "2.6"},
    "interfaces": [{"name": "eth0", "addresses": ["192.0.2.1"], "up": True}],
    "proxy_settings": {"HTTPS_PROXY": "http://user@proxy.example:3128", "no_proxy": "*.example.org,10.0.0.0/8"},
    "client": {"program": "curl"},
    "clock": {"offset_from_utc_s": 0},
}


def seeds(target: str, folder: Path | None = None) -> list[bytes]:
    """Inputs that a target takes.

    Args:
        target: Its name.
        folder: Where more of them may be: any files; the same ones are chosen of them each time.
    """
    found = [*_made_up(target), *(each for path in _own(target) for each in _from_file(target, path))]
    if folder is not None:
        paths = sorted(path for path in folder.rglob("*") if path.is_file())
        more = list(dict.fromkeys(each for path in paths for each in _from_file(target, path)))
        random.Random(target).shuffle(more)  # noqa: S311 - a choice, nothing secret
        found += more[:MOST]
    return list(dict.fromkeys(each for each in found if len(each) <= LARGEST))


def _made_up(target: str) -> list[bytes]:
    hello = builders.client_hello()
    half = len(hello) // 2
    records = builders.handshake(hello), builders.TLS13_SERVER_FLIGHT
    made: dict[str, list[bytes]] = {
        "quic-frames": [bytes.fromhex("06000401000000"), bytes.fromhex("1c0c00024869"), bytes.fromhex("01026745")],
        "dns": [_DNS],
        "http1": [_HTTP1, _ALT_SVC, b"HTTP/1.1 407 Proxy Authentication Required\r\n\r\n"],
        "http1-stream": [_HTTP1, _RESPONSE],
        "http2": [PREFACE + _FRAMES, _FRAMES],
        "http3": [_HTTP3],
        "qpack": [_QPACK],
        "key-log": [_KEY_LOG],
        "bundle": [_bundle(b"", _events()[0])],
        "initials": [
            join([b"\x00" + crypto(0, hello[:half]), b"\x02" + crypto(half, hello[half:])]),
            join(
                [
                    b"\x00" + crypto(0, hello),
                    b"\x01" + crypto(0, builders.server_hello()),
                    b"\x02" + close(0x178, b"no"),
                ]
            ),
        ],
        "segments": [
            join([b"\x00\x00\x00" + records[0], b"\x01\x00\x00" + records[1]]),
            join([b"\x00\x00\x00" + _HTTP1, b"\x01\x00\x00" + _RESPONSE]),
        ],
        "one-rtt": [
            join(
                [b"\x00\x0a\x00\x14\x01\x12" + _SECTION, b"\x01\x08\x00\x01\x03\x00\x00\xd9", b"\x01\x1c\x00\x00\x00"]
            ),
            join(
                [
                    b"\x00\x0a\x02\x07\x00\x04\x05\x01\x50\x00\x07\x10",
                    b"\x00\x07\x02nt",
                    b"\x01\x18\x01\x00\x01\x05" + bytes(16),
                ]
            ),
        ],
        "tls-records": [
            b"\x00" + join([b"\x00" + PREFACE + _FRAMES, b"\x01" + bytes.fromhex("00000101050000000188")]),
            b"\x01"
            + join([b"\x00GET / HTTP/1.1\r\nHost: h3.test\r\n\r\n", b"\x01" + _RESPONSE, b"\x03\x18\x00\x00\x01\x00"]),
        ],
        "observed": [*_events(), b"\n".join(_events())],
        "events": [*_events(), b"\n".join(_events())],
        "json": [json.dumps(_ENVIRONMENT).encode()],
        "net-log": [netlog.file(*netlog.EVENTS).encode()],
        "live-log": [b"\x05" + _HTTP1],
    }
    for name in ("mix-decrypted", "mix-in-blocks", "mix-redacted"):
        made[name] = [bytes(400), bytes(range(5)) * 80, b"\x00\x00\x00\x00\x01\x02\x03\x04" * 60]
    return made.get(target, [])


def _own(target: str) -> list[Path]:
    """Files of the project with inputs for a target."""
    captures = [CAPTURES / f"{name}.pcap" for name in ("curl-alt-svc-cache", "jdk26-tinyproxy-any", "curl-retry")]
    return {
        "jdk-log": sorted(LOGS.glob("jdk26-*")),
        "curl-log": sorted(LOGS.glob("curl-*")),
        "live-log": sorted(LOGS.glob("*.log")),
    }.get(target, captures)


def _from_file(target: str, path: Path) -> list[bytes]:
    """What a file has for a target; each kind of file has something for other ones."""
    match target:
        case "jdk-log" | "curl-log" | "net-log" | "live-log":
            return [path.read_bytes()[:LARGEST]] if path.suffix in {".log", ".json", ".txt"} else []
        case "events" | "observed":
            return [path.read_bytes()[:LARGEST]] if path.suffix == ".ndjson" else []
        case "key-log":
            return [path.read_bytes()[:LARGEST]] if path.suffix == ".keys" else []
        case "capture":
            return [path.read_bytes()[:LARGEST]] if _frames(path) else []
        case "bundle":
            return [_bundle(path.read_bytes()[:LARGEST], _events()[0])] if _frames(path) else []
    return list(_from_frames(target, _frames(path)))


def _from_frames(target: str, frames: tuple[Frame, ...]) -> Iterator[bytes]:
    if target in {"engine", "redact", "shown"}:
        yield from _together(frames)
    elif target == "json":
        for record in explain(frames) if frames else ():
            yield to_json(record).encode()
    elif target == "frame":
        yield from (bytes((LINK_TYPES.index(f.link_type),)) + f.data for f in frames if f.link_type in LINK_TYPES)
    elif target in {"quic", "tls", "dns", "http1", "http1-stream", "http2"}:
        decoder = PacketDecoder()
        for fact in map(decoder.decode, frames):
            if isinstance(fact, UdpDatagram | TcpSegment) and fact.payload:
                yield from _from_payload(target, fact)


def _from_payload(target: str, fact: UdpDatagram | TcpSegment) -> Iterator[bytes]:
    over_udp = isinstance(fact, UdpDatagram)
    is_dns = bool({fact.source.port, fact.destination.port} & DNS_PORTS)
    if is_dns:
        if target == "dns":
            yield fact.payload
    elif over_udp and target == "quic":
        yield fact.payload
    elif not over_udp and target == "tls":
        yield fact.payload
        yield from _messages(fact.payload)
    elif not over_udp and target != "quic" and fact.payload[:1].isalpha():
        yield fact.payload


def _together(frames: tuple[Frame, ...]) -> Iterator[bytes]:
    """As many IP packets at a time as an input has room for."""
    taken: list[bytes] = []
    size = 0
    for frame in frames:
        with suppress(DecodeError):
            packet = frame.data[network_layer(frame.link_type, frame.data)[1] :]
            if size + len(packet) + 2 > LARGEST:
                yield join(taken)
                taken, size = [], 0
            taken.append(packet)
            size += len(packet) + 2
    if taken:
        yield join(taken)


@cache
def _frames(path: Path) -> tuple[Frame, ...]:
    """The frames of a capture, none where it is no capture."""
    with suppress(CaptureError, OSError), read_capture(path.open("rb")) as reader:
        return tuple(event for event in reader if isinstance(event, Frame))
    return ()


def _events() -> list[bytes]:
    """A line of each event that is no packet."""
    return [format_observed(sample(kind), 2).encode() for kind in OBSERVED_TYPES.values()]


def _bundle(capture: bytes, observed: bytes) -> bytes:
    """A bundle of a capture, as `h3probe bundle` would make it."""
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(CAPTURE, capture)
        archive.writestr(OBSERVED, observed + b"\n")
        archive.writestr(ENVIRONMENT, json.dumps(_ENVIRONMENT))
    return stream.getvalue()


def _messages(payload: bytes) -> list[bytes]:
    """The bodies of the handshake messages in a segment, where it begins with whole ones."""
    with suppress(DecodeError):
        stream = b"".join(record.payload for record in tls.records(payload)[0] if record.content_type == HANDSHAKE)
        return [body for _, body in tls.handshake_messages(stream)[0]]
    return []
