"""Frames are held while a name is not whole, within bounds."""

from __future__ import annotations

from dataclasses import replace

import pytest

from h3probe.redact import Mapping, Redactor, redactor
from tests.redact.flows import KEY, NAME, Wire, hello
from tests.wire.quic_builder import crypto, initial

HALF = hello()[:70]


def test_nothing_waits_without_a_reason() -> None:
    """A frame that needs no other one comes out at once."""
    wire, one = Wire(), Redactor(Mapping(KEY))
    for frame in (wire.udp(b"other"), *wire.connected(), wire.udp(initial(crypto(0, hello()), size=1200))):
        assert [made.number for made in one.frame(frame)] == [frame.number]


def test_order_is_kept() -> None:
    """What comes meanwhile waits too, and all come out in order once the name is whole."""
    wire, one = Wire(), Redactor(Mapping(KEY))
    assert one.frame(wire.udp(initial(crypto(0, HALF), size=1200))) == []
    assert one.frame(wire.udp(b"other")) == []
    last = wire.udp(initial(crypto(70, hello()[70:]), number=1, size=1200))
    assert [made.number for made in one.frame(last)] == [1, 2, 3]
    assert one.unfinished == 0
    assert one.written == 3


def test_time_is_bounded() -> None:
    """After ten seconds of the capture's time a piece of a name becomes noise, and the file goes on."""
    wire, one = Wire(), Redactor(Mapping(KEY))
    first = wire.udp(initial(crypto(0, HALF), size=1200))
    assert one.frame(first) == []
    later = replace(wire.udp(b"other"), time_ns=first.time_ns + redactor.HELD_NS + 1)
    assert [made.number for made in one.frame(later)] == [1, 2]
    assert one.unfinished == 1


@pytest.mark.parametrize("limit", ["HELD_FRAMES", "HELD_BYTES"])
def test_room_is_bounded(monkeypatch: pytest.MonkeyPatch, limit: str) -> None:
    """Neither frames nor bytes pile up without end."""
    monkeypatch.setattr(redactor, limit, 3 if limit == "HELD_FRAMES" else 1500)
    wire, one = Wire(), Redactor(Mapping(KEY))
    one.frame(wire.udp(initial(crypto(0, HALF), size=1200)))
    made = [out for _ in range(8) for out in one.frame(wire.udp(bytes(100)))]
    assert made[0].number == 1
    assert one.unfinished == 1


def test_the_end() -> None:
    """What still waits at the end is given out, without the name."""
    wire, one = Wire(), Redactor(Mapping(KEY))
    message = hello()
    part = message[: message.index(NAME) + 9]
    assert one.frame(wire.tcp(b"\x16\x03\x01" + len(message).to_bytes(2) + part)) == []
    (made,) = one.finish()
    assert NAME[:9] not in made.data


def test_interfaces() -> None:
    """Names that kernels give stay; others, which may hold an address or a person's name, are numbered."""
    one = Redactor(Mapping(KEY))
    names = [one.interface(name) for name in ("eth0", "wlp3s0", None, "enx005056aabb01", "ann-vpn", "enx005056aabb01")]
    assert names == ["eth0", "wlp3s0", None, "interface1", "interface2", "interface1"]
