"""The recordings, redacted: the same answer, and nothing of the original.

They were made on loopback, where there is little to hide. So each is first disguised: loopback addresses become a
company's, `localhost` becomes a host in its domain, and all zeros become the hardware addresses of two stations. The
disguised recording is the original.
"""

from __future__ import annotations

import json
import shutil
import subprocess
from functools import cache
from typing import TYPE_CHECKING, Any

import pytest

from h3probe.capture import PcapngWriter
from h3probe.engine import Engine
from h3probe.errors import DecodeError
from h3probe.events import Frame
from h3probe.redact import Mapping, Redactor
from h3probe.redact.records import RecordRedactor
from h3probe.show.ndjson import to_json
from h3probe.vantage.files import open_capture
from h3probe.wire.packet import IcmpError, PacketDecoder, TcpSegment, UdpDatagram
from h3probe.wire.quic.packets import LongPacket, split_datagram
from h3probe.wire.quic.protection import initial_keys, open_packet
from tests.captures.recordings import FOLDER, NAMES

if TYPE_CHECKING:
    from pathlib import Path

each = pytest.mark.parametrize("name", NAMES)

HOST = b"db.corp.x"
STATIONS = (bytes.fromhex("d4bed9a1b2c3"),)


class Disguise(Mapping):
    """Maps what the recordings hold to what a user's capture would hold."""

    def address(self, address: bytes) -> bytes:
        """127.0.0.x is 10.61.7.x, and ::1 an address of a provider's."""
        if len(address) == 4:
            return bytes((10, 61, 7, address[3]))
        return bytes.fromhex("200104705a3b0007") + address[8:]

    def mac(self, address: bytes) -> bytes:
        """All zeros are one station."""
        return STATIONS[0] if not any(address) else address

    def connection_id(self, connection_id: bytes) -> bytes:
        """As they are."""
        return connection_id

    def keeps(self, suffix: str) -> bool:  # noqa: ARG002 - the signature of what it replaces
        """Nothing is reserved."""
        return False

    def host(self, host: bytes) -> bytes:
        """`localhost` is a host of a company's."""
        return HOST if host.lower() == b"localhost" else super().host(host)


@cache
def original(name: str) -> tuple[Frame, ...]:
    """The disguised recording."""
    disguise = Redactor(Disguise(bytes(32)))
    with open_capture(FOLDER / f"{name}.pcap") as reader:
        frames = [made for frame in reader if isinstance(frame, Frame) for made in disguise.frame(frame)]
    frames += disguise.finish()
    assert not disguise.dropped
    return tuple(frames)


@cache
def redaction(name: str) -> tuple[Mapping, tuple[Frame, ...]]:
    """The same, redacted."""
    redactor = Redactor(Mapping())
    frames = [made for frame in original(name) for made in redactor.frame(frame)]
    frames += redactor.finish()
    assert not redactor.dropped
    assert not redactor.unfinished
    return redactor.mapping, tuple(frames)


def answer(frames: tuple[Frame, ...]) -> list[dict[str, Any]]:
    """H3probe's records."""
    engine = Engine("a capture", "pcapng")
    records = [record for frame in frames for record in engine.feed(frame)]
    records += engine.finish(truncated=False, dropped=None)
    return [json.loads(to_json(record)) for record in records]


def readable(frames: tuple[Frame, ...]) -> list[bytes]:
    """All that can be read: the frames, and what is in the Initials, opened with every ID that is seen."""
    decoder = PacketDecoder()
    packets: list[LongPacket] = []
    for frame in frames:
        fact = decoder.decode(frame)
        if isinstance(fact, UdpDatagram):
            try:
                packets += [p for p in split_datagram(fact.payload) if isinstance(p, LongPacket)]
            except DecodeError:
                continue
    found = [frame.data for frame in frames]
    ids = {packet.dcid for packet in packets} | {packet.scid for packet in packets}
    for packet in packets:
        if packet.kind != "initial":
            continue
        opened = []
        for key in ids:
            keys = initial_keys(packet.version, key)
            for side in (keys.client, keys.server):
                try:
                    opened.append(open_packet(side, packet).payload)
                except DecodeError:
                    continue
        assert opened, "an Initial that nobody can open"
        found += opened
    return found


def secrets(frames: tuple[Frame, ...]) -> set[bytes]:
    """What must not be left: addresses, stations, names, connection IDs, tokens; short ones would turn up by chance."""
    decoder = PacketDecoder()
    found = {HOST, HOST.split(b".")[1] + b".", STATIONS[0]}
    for frame in frames:
        fact = decoder.decode(frame)
        if isinstance(fact, UdpDatagram | TcpSegment | IcmpError):
            found |= {fact.source.host, fact.destination.host, fact.source.address.encode()}
        if isinstance(fact, UdpDatagram):
            for packet in split_datagram(fact.payload):
                if isinstance(packet, LongPacket):
                    found |= {packet.dcid, packet.scid, packet.token}
    return {secret for secret in found if len(secret) >= 4}


@each
def test_the_answer_is_the_same(name: str) -> None:
    """Every record of the redacted recording is that of the original, in other names."""
    mapping, made = redaction(name)
    records = RecordRedactor(mapping)
    before = [records.record(record) for record in answer(original(name))]
    after = [{**record, "source": "redacted"} if record["type"] == "capture" else record for record in answer(made)]
    assert after == before


@each
def test_nothing_of_the_original_is_left(name: str) -> None:
    """No address, station, name, connection ID or token is found, neither in clear nor decrypted."""
    mapping, made = redaction(name)
    known = secrets(original(name))
    before, after = readable(original(name)), readable(made)
    assert len(after) == len(before)
    for secret in known:
        assert any(secret in data for data in before) or secret.isascii()
        assert not any(secret in data for data in after), secret
    assert mapping.tables["addresses"]


@each
def test_lengths_and_times_stay(name: str) -> None:
    """Frame by frame: number, time, length, and the protocol in it."""
    _, made = redaction(name)
    before, after = PacketDecoder(), PacketDecoder()
    for one, two in zip(original(name), made, strict=True):
        assert (one.number, one.time_ns, one.length, len(one.data)) == (
            two.number,
            two.time_ns,
            two.length,
            len(two.data),
        )
        assert type(before.decode(one)) is type(after.decode(two))


@pytest.mark.skipif(shutil.which("tshark") is None, reason="tshark is not installed")
@pytest.mark.parametrize("name", ["curl-retry", "curl-http3-tinyproxy", "jdk26-alt-svc"])
def test_tshark_reads_it(name: str, tmp_path: Path) -> None:
    """Wireshark's own decoder finds the new names, all checksums right, and nothing malformed."""
    mapping, made = redaction(name)
    path = tmp_path / "redacted.pcapng"
    with path.open("wb") as stream:
        writer = PcapngWriter(stream, application="test")
        for frame in made:
            writer.packet(frame)
    sums = [f"{layer}.check_checksum:TRUE" for layer in ("ip", "tcp", "udp")]
    command = ["tshark", "-r", str(path), *(part for one in sums for part in ("-o", one))]
    fields = ["-T", "fields", "-e", "tls.handshake.extensions_server_name"]
    bad = "_ws.malformed || ip.checksum.status == 0 || tcp.checksum.status == 0 || udp.checksum.status == 0"
    assert subprocess.run([*command, "-Y", bad], check=True, capture_output=True, text=True).stdout == ""
    hellos = subprocess.run(
        [*command, "-Y", "tls.handshake.type == 1", *fields], check=True, capture_output=True, text=True
    )
    assert set(hellos.stdout.split()) == {mapping.host(HOST).decode()}
