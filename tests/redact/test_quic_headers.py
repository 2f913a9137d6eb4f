"""Connection IDs, and noise."""

from __future__ import annotations

from h3probe.redact import Mapping
from h3probe.wire.quic.packets import LongPacket, split_datagram
from h3probe.wire.quic.versions import V1
from tests.redact.flows import KEY, Wire, hello, payloads, redacted
from tests.redact.initials import MAPPING, NEW_DCID, NEW_SCID, NEW_SERVER_ID, SERVER_ID
from tests.wire.quic_builder import DCID, SCID, crypto, initial, opaque, version_negotiation


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
