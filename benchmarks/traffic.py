"""The captures that the benchmarks read: made up, the same each time, and kept in a folder once they are made.

    uv run python -m benchmarks.traffic FOLDER

Handshakes are real ones as far as anyone without secrets can see: Initials with keys of their own, ClientHellos with a
name each; what is encrypted is random bytes. Times of many connections run into each other.
"""

from __future__ import annotations

import heapq
import struct
import sys
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING

from tests.wire.hello_builder import alpn, client_hello, message, record, server_hello, server_name, supported_versions
from tests.wire.quic_builder import crypto, initial, opaque

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import BinaryIO

BULK, SHORT, OFFICE, FLOOD, TEN = "bulk.pcap", "short.pcap", "office.pcap", "flood.pcap", "ten.pcap"
BULK_PACKETS = 1_000_000
BULK_CONNECTIONS = 1_000
SHORT_CONNECTIONS = 100_000
OFFICE_CONNECTIONS = 60_000
FLOOD_CONNECTIONS = 1_000_000
AT_ONCE = 100
"""Connections that are under way at the same time."""

TCP, UDP = 6, 17
FIN, SYN, PSH, ACK = 1, 2, 8, 16
MSS = 1400
START_S = 1_700_000_000
_NOISE = Random(3).randbytes(1 << 20)

type Packets = Iterator[tuple[int, bytes]]
"""(microseconds since the packet before, frame)."""


@dataclass(slots=True)
class Pair:
    """A client and a server, and how packets between them look.

    Attributes:
        number: Tells connections apart.
        port: The server's.
        office: Whether all clients are behind one address, and each two connections are for a name of their own.
    """

    number: int
    port: int = 443
    office: bool = False

    def hello(self, protocol: bytes) -> bytes:
        """A ClientHello."""
        name = b"host-%d.example.org" % (self.number // 2 if self.office else self.number % 1000)
        return message(1, client_hello([server_name(name), alpn(protocol), supported_versions(0x0304)]))

    def _frame(self, protocol: int, transport: bytes, *, back: bool) -> bytes:
        client = bytes((10, *(1 if self.office else 1 + self.number % 200).to_bytes(2), 2))
        server = bytes((198, 51, 100, 1 + self.number % 250))
        source, destination = (server, client) if back else (client, server)
        stations = b"\x02\0\0\0\0\x01\x02\0\0\0\0\x02" if back else b"\x02\0\0\0\0\x02\x02\0\0\0\0\x01"
        header = struct.pack(">BBHHHBBH", 0x45, 0, 20 + len(transport), 1, 0x4000, 57 if back else 64, protocol, 0)
        return stations + b"\x08\x00" + header + source + destination + transport

    def _ports(self, *, back: bool) -> tuple[int, int]:
        client = 1024 + self.number // (1 if self.office else 200) % 60_000
        return (self.port, client) if back else (client, self.port)

    def udp(self, payload: bytes, *, back: bool = False) -> bytes:
        """A frame with a UDP datagram."""
        header = struct.pack(">HHHH", *self._ports(back=back), 8 + len(payload), 0)
        return self._frame(UDP, header + payload, back=back)

    def tcp(self, flags: int, seq: int, ack: int, payload: bytes = b"", *, back: bool = False) -> bytes:
        """A frame with a TCP segment."""
        header = struct.pack(
            ">HHIIBBHHH", *self._ports(back=back), seq & 0xFFFFFFFF, ack & 0xFFFFFFFF, 0x50, flags, 65535, 0, 0
        )
        return self._frame(TCP, header + payload, back=back)


def _noise(random: Random, size: int) -> bytes:
    at = random.randrange(len(_NOISE) - size)
    return _NOISE[at : at + size]


def quic(pair: Pair, random: Random, packets: int) -> Packets:
    """A QUIC connection: its handshake, and then so many packets, two from the server for each from the client."""
    number = pair.number
    dcid, client_id, server_id = (number.to_bytes(4) + bytes((kind,)) * 4 for kind in (1, 2, 3))
    yield 0, pair.udp(initial(crypto(0, pair.hello(b"h3")), dcid=dcid, scid=client_id, size=1200))
    answer = b"\x02\0\0\0\0" + crypto(0, message(2, server_hello([(43, b"\x03\x04")])))
    sealed = initial(answer, dcid=client_id, scid=server_id, key_dcid=dcid, from_client=False)
    flight = opaque("handshake", _noise(random, 900), dcid=client_id, scid=server_id)
    yield 9000, pair.udp(sealed + flight, back=True)
    yield 10, pair.udp(opaque("handshake", _noise(random, 1100), dcid=client_id, scid=server_id), back=True)
    yield 900, pair.udp(initial(b"\x02\0\0\0\0", dcid=server_id, scid=client_id, key_dcid=dcid, number=1, size=1200))
    yield 10, pair.udp(opaque("handshake", _noise(random, 60), dcid=server_id, scid=client_id))
    for turn in range(packets):
        back = turn % 3 != 0
        head = bytes((0x40 | random.getrandbits(6),)) + (client_id if back else server_id)
        size = 1200 if back else 40
        yield (9000 if turn == 1 else 300), pair.udp(head + _noise(random, size if turn > 1 else 300), back=back)


def tls(pair: Pair, random: Random, packets: int) -> Packets:
    """A TLS 1.3 connection over TCP: its handshake, so many packets, and its end."""
    ours, theirs = pair.number * 7919, pair.number * 104_729
    yield 0, pair.tcp(SYN, ours, 0)
    yield 9000, pair.tcp(SYN | ACK, theirs, ours + 1, back=True)
    ours, theirs = ours + 1, theirs + 1
    yield 900, pair.tcp(ACK, ours, theirs)
    hello = record(22, pair.hello(b"h2"))
    yield 10, pair.tcp(ACK | PSH, ours, theirs, hello)
    ours += len(hello)
    answer = record(22, message(2, server_hello([(43, b"\x03\x04")])), 0x0303) + record(20, b"\x01", 0x0303)
    answer += record(23, _noise(random, 2500), 0x0303)
    for at in range(0, len(answer), MSS):
        part = answer[at : at + MSS]
        yield (9000 if at == 0 else 10), pair.tcp(ACK, theirs, ours, part, back=True)
        theirs += len(part)
    finished = record(20, b"\x01", 0x0303) + record(23, _noise(random, 53), 0x0303)
    for part in (finished, record(23, _noise(random, 200), 0x0303)):
        yield 500, pair.tcp(ACK | PSH, ours, theirs, part)
        ours += len(part)
    for turn in range(packets):
        back = turn % 3 != 2
        part = _noise(random, MSS) if back else b""
        yield (
            (9000 if turn == 0 else 300),
            pair.tcp(ACK, *((theirs, ours) if back else (ours, theirs)), part, back=back),
        )
        theirs += len(part)
    yield 500, pair.tcp(FIN | ACK, ours, theirs)
    yield 9000, pair.tcp(FIN | ACK, theirs, ours + 1, back=True)


def mixed(connections: int, at_once: int, length: int, *, office: bool = False) -> Packets:
    """Connections of both kinds that overlap; of each a handshake and so many packets."""
    waiting: list[tuple[int, int, bytes, Packets]] = []
    random = Random(3)
    started = now = 0

    def start(at: int) -> None:
        nonlocal started
        if started < connections:
            kind = quic if started % 2 else tls
            packets = kind(Pair(started, office=office), random, random.randrange(length // 2, length * 3 // 2))
            gap, frame = next(packets)
            heapq.heappush(waiting, (at + gap, started, frame, packets))
            started += 1

    for _ in range(at_once):
        start(random.randrange(50_000))
    while waiting:
        at, number, frame, packets = heapq.heappop(waiting)
        yield at - now, frame
        now = at
        following = next(packets, None)
        if following is None:
            start(at + random.randrange(20_000))
        else:
            heapq.heappush(waiting, (at + following[0], number, following[1], packets))


def flood(connections: int) -> Packets:
    """SYNs and Initials, one of each connection and never an answer; the Initials are copies with IDs of their own."""
    template = initial(crypto(0, Pair(0).hello(b"h3")), size=1200)
    for number in range(connections):
        pair = Pair(number, 443 + number // 12_000_000)
        if number % 2:
            # 8 bytes of connection ID stand behind flags, version and length: nobody's keys open it then.
            yield 20, pair.udp(template[:6] + number.to_bytes(8) + template[14:])
        else:
            yield 20, pair.tcp(SYN, number * 7919, 0)


def ten() -> Packets:
    """The first ten packets of one TLS connection."""
    packets = tls(Pair(1), Random(3), 10)
    for _ in range(10):
        yield next(packets)


def write(stream: BinaryIO, packets: Packets, limit: int | None = None) -> None:
    """Write a pcap file."""
    stream.write(struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 262_144, 1))
    now = START_S * 1_000_000
    for number, (gap, frame) in enumerate(packets):
        if number == limit:
            break
        now += gap
        stream.write(struct.pack("<IIII", *divmod(now, 1_000_000), len(frame), len(frame)) + frame)


def captures(folder: Path) -> dict[str, Path]:
    """The captures by name, made where they are missing."""
    folder.mkdir(parents=True, exist_ok=True)
    makers: dict[str, Callable[[], Packets]] = {
        BULK: lambda: mixed(BULK_CONNECTIONS * 2, AT_ONCE, BULK_PACKETS // BULK_CONNECTIONS),
        SHORT: lambda: mixed(SHORT_CONNECTIONS, AT_ONCE * 5, 6),
        OFFICE: lambda: mixed(OFFICE_CONNECTIONS, AT_ONCE * 5, 6, office=True),
        FLOOD: lambda: flood(FLOOD_CONNECTIONS),
        TEN: ten,
    }
    for name, make in makers.items():
        path = folder / name
        if path.exists():
            continue
        print(f"making {path}", file=sys.stderr)
        unfinished = path.with_suffix(".part")
        with unfinished.open("wb") as stream:
            write(stream, make(), BULK_PACKETS if name == BULK else None)
        unfinished.rename(path)
    return {name: folder / name for name in makers}


if __name__ == "__main__":
    captures(Path(sys.argv[1]))
