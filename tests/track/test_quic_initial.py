from __future__ import annotations

import pytest

from h3probe.track.quic_initial import InitialRead, read_initial
from h3probe.wire.quic.packets import LongPacket, split_datagram
from h3probe.wire.quic.versions import V2
from tests.track.builders import DCID, SERVER_ID, QuicWatch, ack, answer, client_hello, initial, server_hello
from tests.wire.quic_builder import close, crypto

HELLO = client_hello()


def packet(datagram: bytes) -> LongPacket:
    """The first packet of a datagram."""
    first = split_datagram(datagram)[0]
    assert isinstance(first, LongPacket)
    return first


def watched() -> QuicWatch:
    """A connection of which the first Initial, with half of the ClientHello, was seen."""
    watch = QuicWatch()
    watch.client(initial(HELLO[:40]))
    return watch


def test_a_part_of_the_hello() -> None:
    """An Initial with CRYPTO frames carries a part of the ClientHello, and a second copy of it counts for nothing."""
    c = watched().only
    rest = packet(initial(HELLO[40:], offset=40, number=1))
    assert read_initial(c, rest, from_client=True) == InitialRead(counts=True, hello_part=True)
    assert c.hello is not None
    assert read_initial(c, rest, from_client=True) == InitialRead(counts=False)
    assert c.history == ["I", "I", "S"]


@pytest.mark.parametrize("frames", [b"\x01", ack(0), b"\x00"])
def test_no_part_of_the_hello(frames: bytes) -> None:
    """PING, ACK and PADDING carry none."""
    read = read_initial(watched().only, packet(initial(frames=frames, number=1)), from_client=True)
    assert read == InitialRead(counts=True, hello_part=False)


def test_a_close() -> None:
    """CONNECTION_CLOSE is handed over as it stands; of two the first counts."""
    frames = close(0x178, b"no h3") + close(1)
    read = read_initial(watched().only, packet(answer(frames=frames)), from_client=False)
    assert read.close is not None
    assert (read.close.code, read.close.reason) == (0x178, "no h3")


def test_a_servers_initial_that_does_not_open_is_no_answer() -> None:
    """A server's Initial under other keys is one that no client would take: forged, or another connection's."""
    watch = watched()
    watch.server(answer(server_hello(), key_dcid=b"other-id"))
    assert (watch.only.answered, watch.only.unopened, watch.history) == (False, 1, "I")


def test_a_hello_that_is_sent_again_differently() -> None:
    """The bytes that came first stay, as a receiver may keep them; the rest completes the hello."""
    c = watched().only
    forged = bytes(len(HELLO))
    read_initial(c, packet(initial(forged[:40], number=1)), from_client=True)
    read_initial(c, packet(initial(frames=crypto(40, HELLO[40:]), number=2)), from_client=True)
    assert c.hello is not None
    assert c.hello.sni == "example.com"


def test_an_initial_after_the_handshake() -> None:
    """Once the hellos are let go of, an Initial is only noted."""
    c = watched().only
    c.release()
    late = packet(initial(frames=ack(1), number=9, dcid=SERVER_ID, key_dcid=DCID))
    assert read_initial(c, late, from_client=True) == InitialRead(counts=True)
    assert c.history == ["I", "I"]


def test_a_late_initial_does_not_switch_the_version_back() -> None:
    """Once the server has answered in another version (RFC 9368), a late Initial in the first one changes nothing."""
    watch = watched()
    watch.server(answer(server_hello(), version=V2))
    watch.client(initial(HELLO[40:], offset=40, number=1))
    assert (watch.only.version_name, watch.only.hello is not None) == ("v2", True)
