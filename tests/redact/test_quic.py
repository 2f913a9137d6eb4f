"""QUIC datagrams."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from h3probe.redact import Mapping
from h3probe.wire.quic.frames import Ack, ConnectionClose, Crypto
from h3probe.wire.quic.packets import LongPacket, split_datagram
from h3probe.wire.quic.protection import retry_is_valid
from tests.redact.flows import KEY, NAME, Wire, hello, payloads, redacted, server_hello
from tests.redact.initials import MAPPING, NEW_DCID, NEW_SCID, NEW_SERVER_ID, SERVER_ID, TOKEN, names_in, opened
from tests.track import builders
from tests.wire.quic_builder import DCID, SCID, VERSIONS, close, crypto, initial, opaque


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


def test_datagrams_that_the_kernel_joined() -> None:
    """A train of datagrams is replaced one by one."""
    wire = Wire()
    one = bytes((0x40,)) + SCID + b"u" * 1245
    frames = [wire.udp(initial(crypto(0, hello()), size=1200)), wire.udp(one * 3 + one[:700], back=True)]
    made = payloads(redacted(frames, Mapping(KEY)))[1]
    assert [made[at + 1 : at + 5] for at in (0, 1250, 2500, 3750)] == [NEW_SCID] * 4


@settings(deadline=None)
@given(st.lists(st.tuples(st.binary(max_size=60), st.booleans()), max_size=6))
def test_any_datagrams(sent: list[tuple[bytes, bool]]) -> None:
    """Whatever goes to and fro, each datagram is as long afterwards."""
    wire = Wire()
    frames = [wire.udp(initial(crypto(0, hello()), size=300)), *(wire.udp(data, back=back) for data, back in sent)]
    assert [len(p) for p in payloads(redacted(frames))] == [len(p) for p in payloads(frames)]
