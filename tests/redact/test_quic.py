"""QUIC datagrams: names inside Initials, connection IDs, and noise."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from h3probe.redact import Mapping
from h3probe.wire.quic.frames import Ack, ConnectionClose, Crypto, parse_frames
from h3probe.wire.quic.packets import LongPacket, split_datagram
from h3probe.wire.quic.protection import initial_keys, open_packet, retry_is_valid
from h3probe.wire.quic.versions import V1
from h3probe.wire.reassembly import Reassembler
from h3probe.wire.tls import handshake_messages
from h3probe.wire.tls_hello import parse_client_hello
from tests.redact.flows import KEY, NAME, Wire, hello, payloads, redacted, server_hello
from tests.track import builders
from tests.wire.quic_builder import DCID, SCID, VERSIONS, close, crypto, initial, opaque, version_negotiation

SERVER_ID = bytes.fromhex("5eb7e20102030405")
TOKEN = b"a token that tells the client's address"
MAPPING = Mapping(KEY)
NEW_DCID, NEW_SCID, NEW_SERVER_ID = map(MAPPING.connection_id, (DCID, SCID, SERVER_ID))


def opened(payload: bytes, *, key: bytes = NEW_DCID, from_client: bool = True) -> tuple[LongPacket, list[object]]:
    """The first packet of a datagram, and its frames, by h3probe's own decoder."""
    packet = split_datagram(payload)[0]
    assert isinstance(packet, LongPacket)
    keys = initial_keys(packet.version, key)
    return packet, list(parse_frames(open_packet(keys.client if from_client else keys.server, packet).payload))


def names_in(datagrams: list[bytes]) -> list[str | None]:
    """The names in the ClientHello that redacted Initials hold together."""
    stream = Reassembler()
    for datagram in datagrams:
        for frame in opened(datagram)[1]:
            if isinstance(frame, Crypto):
                stream.add(frame.offset, frame.data)
    return [parse_client_hello(body).sni for _, body in handshake_messages(stream.contiguous)[0]]


@pytest.mark.parametrize("version", VERSIONS)
def test_an_initial_and_its_answer(version: int) -> None:
    """Both sides' Initials open with the keys of the new ID, in each version; ACKs and closes are as they were."""
    wire = Wire()
    answer = initial(
        b"\x02\x00\x00\x00\x00" + crypto(0, server_hello()) + close(0x128, b"no peer at db.secret-host.org"),
        version=version, dcid=SCID, scid=SERVER_ID, key_dcid=DCID, from_client=False, number=7, number_length=2,
    )  # fmt: skip
    later = opaque("handshake", bytes(range(40)), version=version, dcid=SCID, scid=SERVER_ID)
    frames = [
        wire.udp(initial(crypto(0, hello()), version=version, token=TOKEN, size=1200)),
        wire.udp(answer + later, back=True),
    ]
    first, second = payloads(redacted(frames, Mapping(KEY)))
    packet, _ = opened(first)
    assert (packet.version, packet.dcid, packet.scid) == (version, NEW_DCID, NEW_SCID)
    assert len(first) == 1200
    assert len(packet.token) == len(TOKEN)
    assert TOKEN not in first
    assert names_in([first]) == [MAPPING.host(NAME).decode()]
    packet, inside = opened(second, from_client=False)
    assert packet.scid == NEW_SERVER_ID
    kinds = {type(frame) for frame in inside}
    assert {Ack, Crypto, ConnectionClose} <= kinds
    reason = next(frame.reason for frame in inside if isinstance(frame, ConnectionClose))
    assert reason.startswith("no peer at ")
    assert "secret" not in reason
    handshake = split_datagram(second)[1]
    assert isinstance(handshake, LongPacket)
    assert (handshake.kind, handshake.scid, len(handshake.data)) == ("handshake", NEW_SERVER_ID, len(later))
    assert bytes(range(20)) not in second


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow], max_examples=60)
@given(st.lists(st.integers(1, len(hello()) - 1), max_size=6), st.randoms(use_true_random=False), st.booleans())
def test_a_hello_cut_anywhere(cuts: list[int], random: object, together: bool) -> None:  # noqa: FBT001 - drawn
    """However a ClientHello is cut into frames and datagrams, in whatever order, twice, the name is the new one."""
    message = hello()
    bounds = [0, *sorted(set(cuts)), len(message)]
    parts = [crypto(begin, message[begin:end]) for begin, end in pairwise(bounds)]
    parts += parts[:1]
    random.shuffle(parts)  # type: ignore[attr-defined]
    if together:
        parts = [b"".join(parts)]
    wire = Wire()
    frames = [wire.udp(initial(part, number=number, size=400)) for number, part in enumerate(parts)]
    made = redacted(frames, Mapping(KEY))
    assert [frame.number for frame in made] == [frame.number for frame in frames]
    assert names_in(payloads(made)) == [MAPPING.host(NAME).decode()]


def test_every_single_cut() -> None:
    """A name split over two datagrams at each of its bytes gets the same replacement at the same offsets."""
    message = hello()
    start = message.index(NAME)
    for cut in range(start - 1, start + len(NAME) + 2):
        wire = Wire()
        parts = [crypto(cut, message[cut:]), crypto(0, message[:cut])]
        frames = [wire.udp(initial(part, number=number, size=1200)) for number, part in enumerate(parts)]
        assert names_in(payloads(redacted(frames, Mapping(KEY)))) == [MAPPING.host(NAME).decode()]


def test_half_a_hello() -> None:
    """A hello that is never whole leaves nothing of itself, and is none afterwards either."""
    wire = Wire()
    message = hello()
    half = message[: message.index(NAME) + 8]
    (made,) = payloads(redacted([wire.udp(initial(crypto(0, half), size=1200))]))
    (frame, *_) = (frame for frame in opened(made)[1] if isinstance(frame, Crypto))
    assert len(frame.data) == len(half)
    assert b"www" not in frame.data
    assert frame.data[0] & 0x80


def test_a_retry() -> None:
    """A Retry is valid for the new ID, and what follows opens with the keys that it gives."""
    wire = Wire()
    retry = builders.retry(dcid=SCID, scid=SERVER_ID, original=DCID, token=TOKEN)
    again = initial(crypto(0, hello()), dcid=SERVER_ID, token=TOKEN, size=1200, number=1)
    frames = [wire.udp(initial(crypto(0, hello()), size=1200)), wire.udp(retry, back=True), wire.udp(again)]
    _, second, third = payloads(redacted(frames, Mapping(KEY)))
    packet = split_datagram(second)[0]
    assert isinstance(packet, LongPacket)
    assert retry_is_valid(packet, NEW_DCID)
    assert packet.scid == NEW_SERVER_ID
    following, _ = opened(third, key=NEW_SERVER_ID)
    assert following.token == packet.token != TOKEN


def test_version_negotiation() -> None:
    """Both IDs are echoed as before; the versions stay."""
    wire = Wire()
    answer = version_negotiation(V1, 0x1A2A3A4A, dcid=SCID, scid=DCID)
    frames = [wire.udp(initial(crypto(0, hello()), size=1200)), wire.udp(answer, back=True)]
    packet = split_datagram(payloads(redacted(frames, Mapping(KEY)))[1])[0]
    assert isinstance(packet, LongPacket)
    assert (packet.dcid, packet.scid) == (NEW_SCID, NEW_DCID)
    assert packet.supported_versions == (V1, 0x1A2A3A4A)


def test_short_headers() -> None:
    """The ID is replaced, form and spin bit stay, the rest is noise: the same for the same packet."""
    wire = Wire()
    data = bytes((0x65,)) + SCID + b"application data of the user" * 3
    frames = [wire.udp(initial(crypto(0, hello()), size=1200)), *(wire.udp(data, back=True) for _ in range(2))]
    _, made, again = payloads(redacted(frames, Mapping(KEY)))
    assert made == again
    assert made[0] & 0xE0 == 0x60
    assert made[1:5] == NEW_SCID
    assert len(made) == len(data)
    assert b"user" not in made


def test_datagrams_that_the_kernel_joined() -> None:
    """A train of datagrams is replaced one by one."""
    wire = Wire()
    one = bytes((0x40,)) + SCID + b"u" * 1245
    frames = [wire.udp(initial(crypto(0, hello()), size=1200)), wire.udp(one * 3 + one[:700], back=True)]
    made = payloads(redacted(frames, Mapping(KEY)))[1]
    assert [made[at + 1 : at + 5] for at in (0, 1250, 2500, 3750)] == [NEW_SCID] * 4


def test_an_initial_that_does_not_open() -> None:
    """A damaged Initial keeps its header and its length, and nothing else."""
    wire = Wire()
    packet = bytearray(initial(crypto(0, hello()), size=1200))
    packet[-1] ^= 1
    (made,) = payloads(redacted([wire.udp(bytes(packet))], Mapping(KEY)))
    found = split_datagram(made)[0]
    assert isinstance(found, LongPacket)
    assert (found.kind, found.dcid, len(made)) == ("initial", NEW_DCID, 1200)
    assert bytes(packet[40:60]) not in made


@settings(deadline=None)
@given(st.lists(st.tuples(st.binary(max_size=60), st.booleans()), max_size=6))
def test_any_datagrams(sent: list[tuple[bytes, bool]]) -> None:
    """Whatever goes to and fro, each datagram is as long afterwards."""
    wire = Wire()
    frames = [wire.udp(initial(crypto(0, hello()), size=300)), *(wire.udp(data, back=back) for data, back in sent)]
    assert [len(p) for p in payloads(redacted(frames))] == [len(p) for p in payloads(frames)]


def test_other_protocols_become_noise() -> None:
    """A datagram that is not QUIC keeps its length, and does not look like QUIC afterwards."""
    wire = Wire()
    (made,) = payloads(redacted([wire.udp(b"\x16\xfe\xfdpassword=secret")]))
    assert len(made) == 18
    assert b"secret" not in made
    assert made[0] & 0xC0 == 0


def test_gquic_keeps_its_version() -> None:
    """Google's own versions are still named."""
    wire = Wire()
    (made,) = payloads(redacted([wire.udp(b"\x0d" + SERVER_ID + b"Q043" + b"CHLO secret" * 9)], Mapping(KEY)))
    assert made[1:9] == NEW_SERVER_ID
    assert made[9:13] == b"Q043"
    assert b"secret" not in made


def test_a_reserved_version() -> None:
    """Lengths that fit stay, so that Wireshark reads the header; what does not fit may be anything, and is noise."""
    plain = initial(crypto(0, hello()), size=1200)
    reserved = plain[:1] + bytes.fromhex("0a0a0a0a") + plain[5:]
    at = 7 + len(DCID) + len(SCID)
    odd = reserved[: at + 1] + b"\x45\x00" + reserved[at + 3 :]
    wire = Wire()
    made, other = payloads(redacted([wire.udp(reserved), wire.udp(odd)], Mapping(KEY)))
    for one in (made, other):
        assert one[:5] == reserved[:5]
        packet = split_datagram(one)[0]
        assert isinstance(packet, LongPacket)
        assert (packet.dcid, packet.scid) == (NEW_DCID, NEW_SCID)
        assert reserved[at + 3 : at + 11] not in one
    assert made[at : at + 3] == reserved[at : at + 3]
    assert other[at : at + 3] != odd[at : at + 3]


def test_packets_without_the_fixed_bit() -> None:
    """Where a sender made it random (RFC 9287) the headers stay readable, alone and behind another packet."""
    plain = opaque("handshake", bytes(range(40)), dcid=SCID, scid=SERVER_ID)
    grease = bytes((plain[0] & 0xBF,)) + plain[1:]
    wire = Wire()
    first = initial(crypto(0, hello()), size=600)
    made = payloads(
        redacted([wire.udp(first), wire.udp(grease + grease, back=True), wire.udp(first + grease)], MAPPING)
    )
    for one in (made[1][: len(grease)], made[1][len(grease) :], made[2][len(first) :]):
        assert len(one) == len(grease)
        assert one[0] & 0xF0 == grease[0] & 0xF0
        packet = split_datagram(bytes((one[0] | 0x40,)) + one[1:])[0]
        assert isinstance(packet, LongPacket)
        assert (packet.dcid, packet.scid) == (NEW_SCID, NEW_SERVER_ID)
        assert bytes(range(8)) not in one


def test_many_packets_without_the_fixed_bit() -> None:
    """After a few of them it is noise, so that no datagram costs more than it is long."""
    plain = opaque("handshake", bytes(range(40)), dcid=SCID, scid=SERVER_ID)
    grease = bytes((plain[0] & 0xBF,)) + plain[1:]
    wire = Wire()
    first = initial(crypto(0, hello()), size=600)
    made = payloads(redacted([wire.udp(first), wire.udp(grease * 20, back=True)], MAPPING))[1]
    assert len(made) == len(grease) * 20
    assert made.count(NEW_SERVER_ID) == 8
    assert SERVER_ID not in made
