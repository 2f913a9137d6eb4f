from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from h3probe.errors import DecodeError, TruncatedError
from h3probe.wire.quic.packets import LongPacket, ShortPacket, gquic_version, looks_like_quic, split_datagram
from tests.wire import quic_builder as build
from tests.wire.quic import vectors

RESERVED = 0x1A2A3A4A
SHORT = b"\x41" + bytes(range(30))
Q043 = b"\x0d" + bytes(8) + b"Q043" + b"\x01" + bytes(30)
Q046 = b"\xc3Q046\x50" + bytes(8) + bytes(1200)


def test_client_initial_of_rfc_9001() -> None:
    """The sample client Initial is one packet that takes the whole datagram."""
    (packet,) = split_datagram(vectors.V1_CLIENT)
    assert packet == LongPacket(
        version=1,
        kind="initial",
        dcid=vectors.DCID,
        scid=b"",
        token=b"",
        offset=0,
        pn_offset=18,
        data=vectors.V1_CLIENT,
    )


@pytest.mark.parametrize("version", build.VERSIONS)
@pytest.mark.parametrize("kind", ["zero-rtt", "handshake"])
def test_coalesced_packets_are_told_apart(version: int, kind: str) -> None:
    """Initial, another long packet and a 1-RTT packet in one datagram come back with their places in it."""
    first = build.initial(build.crypto(0, b"hello"), version=version, token=b"token", size=200)
    second = build.opaque(kind, bytes(40), version=version)
    packets = split_datagram(first + second + SHORT)
    initial, other, short = packets
    assert isinstance(initial, LongPacket)
    assert isinstance(other, LongPacket)
    assert (initial.kind, initial.token, initial.data, initial.scid) == ("initial", b"token", first, build.SCID)
    assert (other.kind, other.offset, other.data, other.token) == (kind, len(first), second, b"")
    assert second[other.pn_offset :] == bytes(40)
    assert short == ShortPacket(len(first) + len(second), SHORT)


@pytest.mark.parametrize(
    "tail",
    [
        bytes(50),
        b"\x3f" * 50,
        b"\x41short",
        b"\xc0\xde\xad\xbe\xef" + bytes(30),
        build.version_negotiation(1),
        b"\xc0",
        b"\x80\x00\x00\x00\x01" + bytes(30),
        build.long_header("handshake") + b"\x01\x00",
    ],
)
def test_what_follows_the_last_packet_is_ignored(tail: bytes) -> None:
    """Zeros, bytes without the fixed bit, too few for a packet, or of no known version end the list quietly."""
    first = build.opaque("handshake", bytes(40))
    assert len(split_datagram(first + tail)) == 1


def test_zero_length_connection_ids() -> None:
    """Both connection IDs may be empty."""
    (packet,) = split_datagram(build.opaque("handshake", bytes(30), dcid=b"", scid=b""))
    assert isinstance(packet, LongPacket)
    assert (packet.dcid, packet.scid, packet.pn_offset) == (b"", b"", 8)


@pytest.mark.parametrize("length", [20, 120, 1199])
def test_a_packet_cut_by_the_capture_is_kept(length: int) -> None:
    """A last packet that ends early keeps what is there of it and is marked as cut."""
    (packet,) = split_datagram(vectors.V1_CLIENT[:length])
    assert isinstance(packet, LongPacket)
    assert packet.truncated
    assert (packet.kind, packet.dcid, packet.data) == ("initial", vectors.DCID, vectors.V1_CLIENT[:length])


@pytest.mark.parametrize("length", range(15, 18))
def test_a_header_cut_after_its_connection_ids_is_kept(length: int) -> None:
    """A packet cut within its token or Length still tells its kind and its connection IDs."""
    (packet,) = split_datagram(vectors.V1_CLIENT[:length])
    assert isinstance(packet, LongPacket)
    assert (packet.truncated, packet.kind, packet.dcid, packet.pn_offset) == (True, "initial", vectors.DCID, 0)


@pytest.mark.parametrize("length", range(15))
def test_a_header_cut_in_its_connection_ids_is_none(length: int) -> None:
    """Before the connection IDs are complete there is no packet to speak of."""
    with pytest.raises(TruncatedError):
        split_datagram(vectors.V1_CLIENT[:length])


@pytest.mark.parametrize(
    ("retry", "name"), [(vectors.V1_RETRY, "v1"), (vectors.V2_RETRY, "v2"), (vectors.DRAFT_29_RETRY, "draft-29")]
)
def test_retry_hands_out_a_token(retry: bytes, name: str) -> None:
    """A Retry takes the rest of the datagram, and its token ends before the integrity tag."""
    (packet,) = split_datagram(retry)
    assert isinstance(packet, LongPacket)
    assert (packet.kind, packet.token, packet.dcid) == ("retry", b"token", b""), name
    assert packet.scid.hex() == "f067a5502a4262b5"
    (cut,) = split_datagram(retry[:-10])
    assert isinstance(cut, LongPacket)
    assert (cut.truncated, cut.token) == (True, b"")


def test_version_negotiation_lists_versions() -> None:
    """A Version Negotiation gives the server's versions in their order, whatever the fixed bit is."""
    payload = build.version_negotiation(RESERVED, 1, dcid=bytes(30))
    (packet,) = split_datagram(payload)
    assert isinstance(packet, LongPacket)
    assert (packet.kind, packet.supported_versions) == ("version-negotiation", (RESERVED, 1))
    assert (len(packet.dcid), packet.scid, packet.truncated) == (30, build.SCID, False)
    (cut,) = split_datagram(payload[:-1])
    assert isinstance(cut, LongPacket)
    assert (cut.supported_versions, cut.truncated) == ((RESERVED,), True)
    with pytest.raises(DecodeError):
        split_datagram(payload[:-8])


def test_of_an_unknown_version_only_the_invariants_are_read() -> None:
    """A version nobody knows gives its number and connection IDs (RFC 8999), and takes the whole datagram."""
    payload = build.long_header("initial", version=RESERVED, dcid=bytes(40)) + bytes(100)
    (packet,) = split_datagram(payload)
    assert isinstance(packet, LongPacket)
    assert (packet.version, packet.kind, packet.dcid, packet.scid) == (RESERVED, "unknown", bytes(40), build.SCID)
    assert packet.data == payload


@pytest.mark.parametrize(
    "payload",
    [
        b"",
        bytes(100),
        b"\x3f" * 100,
        Q043,
        Q046,
        b"\x80" + vectors.V1_CLIENT[1:],
        build.long_header("handshake", dcid=bytes(21)) + b"\x40\x20" + bytes(40),
        build.long_header("handshake") + b"\x13" + bytes(40),
    ],
)
def test_what_does_not_begin_with_a_packet_is_an_error(payload: bytes) -> None:
    """No fixed bit, too long a connection ID, too short a packet or another protocol raise DecodeError."""
    with pytest.raises(DecodeError):
        split_datagram(payload)


@pytest.mark.parametrize(
    "payload",
    [
        vectors.V1_CLIENT,
        vectors.V2_CLIENT,
        vectors.V1_SERVER,
        vectors.V1_RETRY,
        build.opaque("handshake", bytes(30), version=0xFF00001D) + bytes(9),
        build.version_negotiation(0xFF00001D),
        build.version_negotiation(RESERVED),
        build.long_header("initial", version=RESERVED) + bytes(1200),
    ],
)
def test_quic_is_picked_out(payload: bytes) -> None:
    """Every kind of long packet of a known version, and a first datagram of a reserved one, looks like QUIC."""
    assert looks_like_quic(payload)


@pytest.mark.parametrize(
    "payload",
    [
        b"",
        SHORT,
        Q043,
        Q046,
        vectors.V1_CLIENT[:-1],
        vectors.V1_RETRY[:-10],
        b"\x80" + vectors.V1_CLIENT[1:],
        b"\xc0\xde\xad\xbe\xef" + bytes(1300),
        build.long_header("initial", version=RESERVED) + bytes(100),
        b"\x80" + build.long_header("initial", version=RESERVED)[1:] + bytes(1200),
        build.long_header("initial", version=RESERVED, dcid=bytes(21)) + bytes(1200),
        build.version_negotiation(0xDEADBEEF),
        build.version_negotiation(1) + b"\x00",
        build.version_negotiation(1, dcid=bytes(21)),
    ],
)
def test_other_traffic_is_left_alone(payload: bytes) -> None:
    """Short headers, gQUIC, lengths that do not fit, unknown versions and the like do not look like QUIC."""
    assert not looks_like_quic(payload)


@pytest.mark.parametrize("length", [16, 100, 1199])
def test_a_snaplen_does_not_hide_quic(length: int) -> None:
    """With the length on the wire given, a packet that the capture cut is still recognised."""
    assert looks_like_quic(vectors.V1_CLIENT[:length], 1200)
    assert not looks_like_quic(vectors.V1_CLIENT[:length], 1199 if length > 17 else length)


@pytest.mark.parametrize(
    ("payload", "name"),
    [
        (Q043, "Q043"),
        (Q046, "Q046"),
        (b"\xc0T051" + bytes(20), "T051"),
        (vectors.V1_CLIENT, None),
        (b"\x0c" + Q043[1:], None),
        (Q043[:12], None),
        (SHORT, None),
        (b"", None),
        (b"\x80Q0", None),
    ],
)
def test_gquic_is_named(payload: bytes, name: str | None) -> None:
    """A gQUIC packet with a version, in the old public header or the long one, is named; nothing else is."""
    assert gquic_version(payload) == name


def test_gquic_with_the_invariant_header_is_an_unknown_version() -> None:
    """From Q049 on the connection IDs are where RFC 8999 has them, so they are read and nothing more."""
    (packet,) = split_datagram(b"\xc0Q050\x08" + bytes(8) + b"\x00" + bytes(50))
    assert isinstance(packet, LongPacket)
    assert (packet.kind, packet.dcid) == ("unknown", bytes(8))


HEADER = st.builds(
    lambda first, version, rest: bytes((first,)) + version.to_bytes(4) + rest,
    st.integers(0, 255),
    st.sampled_from([0, *build.VERSIONS, RESERVED, 0x51303436]),
    st.binary(max_size=120),
)


@given(st.one_of(st.binary(max_size=200), HEADER, st.lists(HEADER, max_size=4).map(b"".join)))
def test_any_bytes_give_packets_or_decode_error(payload: bytes) -> None:
    """Whatever the bytes, packets are returned that lie one after the other in them, or DecodeError is raised."""
    gquic_version(payload)
    is_quic = looks_like_quic(payload)
    try:
        packets = split_datagram(payload)
    except DecodeError:
        assert not is_quic
        return
    position = 0
    for packet in packets:
        assert packet.offset == position
        assert payload.startswith(packet.data, position)
        position += len(packet.data)
    assert position <= len(payload)


@given(st.integers(0, 1200), st.binary(min_size=1, max_size=4))
def test_damage_to_a_real_packet_is_no_other_error(at: int, noise: bytes) -> None:
    """A sample packet with bytes overwritten anywhere is still packets or DecodeError."""
    damaged = vectors.V1_CLIENT[:at] + noise + vectors.V1_CLIENT[at + len(noise) :]
    try:
        packets = split_datagram(damaged)
    except DecodeError:
        return
    assert packets
