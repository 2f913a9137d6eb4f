from __future__ import annotations

import dataclasses

import pytest
from aioquic.quic.crypto import CryptoPair
from hypothesis import given
from hypothesis import strategies as st

from h3probe.errors import DecodeError, DecryptError
from h3probe.wire.quic.packets import LongPacket, split_datagram
from h3probe.wire.quic.protection import (
    Opened,
    full_packet_number,
    initial_keys,
    open_packet,
    retry_is_valid,
    seal_packet,
)
from h3probe.wire.quic.versions import V1, V2
from tests.wire import quic_builder as build
from tests.wire.quic import vectors


def _only(payload: bytes) -> LongPacket:
    (packet,) = split_datagram(payload)
    assert isinstance(packet, LongPacket)
    return packet


@pytest.mark.parametrize(
    ("version", "client", "server"),
    [
        (
            V1,
            "1f369613dd76d5467730efcbe3b1a22d fa044b2f42a3fd3b46fb255c 9f50449e04a0e810283a1e9933adedd2",
            "cf3a5331653c364c88f0f379b6067e37 0ac1493ca1905853b0bba03e c206b8d9b9f0f37644430b490eeaa314",
        ),
        (
            V2,
            "8b1a0bc121284290a29e0971b5cd045d 91f73e2351d8fa91660e909f 45b95e15235d6f45a6b19cbcb0294ba9",
            "82db637861d55e1d011f19ea71d5d2a7 dd13c276499c0249d3310652 edf6d05c83121201b436e16877593c3a",
        ),
    ],
)
def test_keys_of_the_rfcs(version: int, client: str, server: str) -> None:
    """The keys of RFC 9001, A.1 and RFC 9369, A.1 come out of their connection ID."""
    keys = initial_keys(version, vectors.DCID)
    for side, expected in ((keys.client, client), (keys.server, server)):
        assert " ".join(part.hex() for part in (side.key, side.iv, side.hp)) == expected


@pytest.mark.parametrize(
    ("version", "client", "server"),
    [(V1, vectors.V1_CLIENT, vectors.V1_SERVER), (V2, vectors.V2_CLIENT, vectors.V2_SERVER)],
)
def test_packets_of_the_rfcs_open(version: int, client: bytes, server: bytes) -> None:
    """The sample Initials of RFC 9001 and RFC 9369 open to the frames printed beside them."""
    keys = initial_keys(version, vectors.DCID)
    assert open_packet(keys.client, _only(client)) == Opened(2, vectors.CLIENT_PAYLOAD)
    assert open_packet(keys.server, _only(server)) == Opened(1, vectors.SERVER_PAYLOAD)


@pytest.mark.parametrize(
    ("version", "header", "sealed"),
    [
        (V1, "c000000001088394c8f03e5157080000449e", vectors.V1_CLIENT),
        (V2, "d06b3343cf088394c8f03e5157080000449e", vectors.V2_CLIENT),
    ],
)
def test_packets_of_the_rfcs_are_sealed(version: int, header: str, sealed: bytes) -> None:
    """Sealing the frames of the sample client Initials gives the packets of the RFCs to the byte."""
    keys = initial_keys(version, vectors.DCID).client
    assert seal_packet(keys, bytes.fromhex(header), 2, vectors.CLIENT_PAYLOAD) == sealed


@pytest.mark.parametrize("version", [V1, V2])
def test_agrees_with_aioquic(version: int) -> None:
    """Another implementation opens what is sealed here."""
    packet = build.initial(b"\x01", version=version, number=7, number_length=2, size=300)
    other = CryptoPair()
    other.setup_initial(build.DCID, is_client=False, version=version)
    _, payload, number = other.decrypt_packet(packet, _only(packet).pn_offset, 0)
    assert (number, payload.rstrip(b"\x00")) == (7, b"\x01")


@given(
    version=st.sampled_from(build.VERSIONS),
    dcid=st.binary(max_size=20),
    number=st.integers(0, (1 << 62) - 1),
    number_length=st.integers(1, 4),
    payload=st.binary(min_size=4, max_size=60),
    from_client=st.booleans(),
)
def test_what_is_sealed_opens(
    *, version: int, dcid: bytes, number: int, number_length: int, payload: bytes, from_client: bool
) -> None:
    """Any payload under any connection ID, number and length of number comes back, in either direction."""
    sealed = build.initial(
        payload, version=version, dcid=dcid, number=number, number_length=number_length, from_client=from_client
    )
    keys = initial_keys(version, dcid)
    opened = open_packet(keys.client if from_client else keys.server, _only(sealed), number - 1)
    assert opened == Opened(number, payload)


def test_later_initials_keep_the_first_keys() -> None:
    """An Initial to the server's own connection ID opens with the keys of the client's first one."""
    packet = _only(build.initial(b"\x01" * 4, dcid=b"server", key_dcid=build.DCID))
    assert open_packet(initial_keys(V1, build.DCID).client, packet).payload == b"\x01" * 4
    with pytest.raises(DecryptError):
        open_packet(initial_keys(V1, b"server").client, packet)


def test_other_keys_and_damage_do_not_open() -> None:
    """The other direction's keys, another version's and a changed byte anywhere all raise DecryptError."""
    packet = _only(vectors.V1_SERVER)
    keys = initial_keys(V1, vectors.DCID)
    for wrong in (keys.client, initial_keys(V2, vectors.DCID).server, initial_keys(V1, b"other").server):
        with pytest.raises(DecryptError):
            open_packet(wrong, packet)
    for at in range(len(packet.data)):
        damaged = packet.data[:at] + bytes((packet.data[at] ^ 1,)) + packet.data[at + 1 :]
        with pytest.raises(DecryptError):
            open_packet(keys.server, dataclasses.replace(packet, data=damaged))


@pytest.mark.parametrize(
    "payload", [vectors.V1_CLIENT[:-1], vectors.V1_CLIENT[:16], vectors.V1_RETRY, build.version_negotiation(1)]
)
def test_what_is_not_whole_or_not_protected_does_not_open(payload: bytes) -> None:
    """A packet that was cut, a Retry and a Version Negotiation raise DecryptError."""
    with pytest.raises(DecryptError):
        open_packet(initial_keys(V1, vectors.DCID).client, _only(payload))


def test_no_keys_for_an_unknown_version() -> None:
    """A version without a public salt raises DecryptError."""
    with pytest.raises(DecryptError, match="0x51303530"):
        initial_keys(0x51303530, b"")


@pytest.mark.parametrize(
    ("shortened", "length", "largest", "number"),
    [
        (0x9B32, 2, 0xA82F30EA, 0xA82F9B32),
        (0x00, 1, 0xFF, 0x100),
        (0xFF, 1, 0x100, 0xFF),
        (0xFF, 1, -1, 0xFF),
        (0x05, 4, -1, 0x05),
        (0x00, 1, (1 << 62) - 2, (1 << 62) - 256),
    ],
)
def test_packet_numbers_in_full(shortened: int, length: int, largest: int, number: int) -> None:
    """The example of RFC 9000, A.3 and its edges: the nearest number to the one expected, within 0 and 2^62."""
    assert full_packet_number(shortened, length, largest) == number


@pytest.mark.parametrize("retry", [vectors.V1_RETRY, vectors.V2_RETRY, vectors.DRAFT_29_RETRY])
def test_retry_of_the_rfcs_is_valid_for_its_initial_alone(retry: bytes) -> None:
    """The sample Retry packets belong to their Initial's connection ID, and neither to another nor if changed."""
    assert retry_is_valid(_only(retry), vectors.DCID)
    assert not retry_is_valid(_only(retry), b"other")
    assert not retry_is_valid(_only(retry), bytes(256))
    assert not retry_is_valid(_only(retry[:-1] + bytes((retry[-1] ^ 1,))), vectors.DCID)
    assert not retry_is_valid(_only(retry[:-10]), vectors.DCID)


def test_what_is_no_retry_with_a_tag_is_not_valid() -> None:
    """Another kind of packet, and a Retry of a draft that had no tag, are not valid."""
    assert not retry_is_valid(_only(vectors.V1_CLIENT), vectors.DCID)
    assert not retry_is_valid(_only(build.long_header("retry", version=0xFF000017) + bytes(40)), vectors.DCID)


@given(st.binary(max_size=80), st.integers(-1, (1 << 62) - 1))
def test_any_protected_bytes_open_or_raise_decrypt_error(body: bytes, largest: int) -> None:
    """Whatever stands behind an Initial's header, it opens or raises DecryptError, and nothing else."""
    header = build.long_header("initial") + b"\x00" + build.varint(len(body)) + body
    try:
        packet = _only(header)
    except DecodeError:
        return
    with pytest.raises(DecryptError):
        open_packet(initial_keys(V1, build.DCID).client, packet, largest)
