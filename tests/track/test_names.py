from __future__ import annotations

import struct
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from h3probe.events import Endpoint
from h3probe.track.names import NAMES_PER_ADDRESS, Names
from h3probe.wire.packet import UdpDatagram
from tests.track.builders import CLIENT, START

RESOLVER = Endpoint(bytes([192, 0, 2, 53]), 53)
ADDRESS = bytes([203, 0, 113, 7])
ADDRESS6 = bytes.fromhex("20010db8000000000000000000000007")


def name(text: str) -> bytes:
    """A name in wire form, uncompressed."""
    return b"".join(bytes((len(label),)) + label.encode() for label in text.split(".")) + b"\0"


def record(owner: str, rtype: int, data: bytes) -> bytes:
    """A resource record of class IN."""
    return name(owner) + struct.pack(">HHIH", rtype, 1, 300, len(data)) + data


def https(owner: str, *protocols: bytes) -> bytes:
    """An HTTPS record with an ALPN list."""
    value = b"".join(bytes((len(protocol),)) + protocol for protocol in protocols)
    return record(owner, 65, b"\x00\x01\x00" + struct.pack(">HH", 1, len(value)) + value)


def datagram(asked: str, *answers: bytes, source: Endpoint = RESOLVER, flags: int = 0x8180) -> UdpDatagram:
    """A DNS message from a resolver to a client."""
    head = struct.pack(">HHHHHH", 1, flags, 1, len(answers), 0, 0)
    payload = head + name(asked) + struct.pack(">HH", 65, 1) + b"".join(answers)
    return UdpDatagram(9, START, source, CLIENT, payload, len(payload))


def test_an_address_has_the_name_that_was_looked_up() -> None:
    """A and AAAA answers give addresses a name."""
    names = Names()
    names.feed(datagram("example.com", record("example.com", 1, ADDRESS), record("example.com", 28, ADDRESS6)))
    assert (names.name_of(ADDRESS), names.name_of(ADDRESS6)) == ("example.com", "example.com")
    assert names.name_of(bytes(4)) is None


def test_aliases_lead_back_to_the_question() -> None:
    """Behind CNAMEs the name is the one that was asked for, in whatever order the records stand."""
    names = Names()
    names.feed(
        datagram(
            "www.example.com",
            record("b.cdn.example", 1, ADDRESS),
            record("a.cdn.example", 5, name("b.cdn.example")),
            record("www.example.com", 5, name("a.cdn.example")),
        )
    )
    assert names.name_of(ADDRESS) == "www.example.com"


def test_aliases_in_a_circle_end() -> None:
    """CNAMEs that point at each other lead nowhere, and end."""
    names = Names()
    names.feed(
        datagram(
            "www.example.com",
            record("a.example", 5, name("b.example")),
            record("b.example", 5, name("a.example")),
            record("a.example", 1, ADDRESS),
        )
    )
    assert names.name_of(ADDRESS) in ("a.example", "b.example")


def test_a_shared_address_has_no_name() -> None:
    """An address that two names led to is not called by either."""
    names = Names()
    names.feed(datagram("one.example", record("one.example", 1, ADDRESS)))
    names.feed(datagram("two.example", record("two.example", 1, ADDRESS)))
    assert names.name_of(ADDRESS) is None


def test_service_bindings() -> None:
    """An HTTPS record is reported with its packet and who asked whom, and is found by the name asked for."""
    names = Names()
    (sighting,) = names.feed(datagram("example.com", https("example.com", b"h3", b"h2")))
    assert sighting.binding.alpn == ("h3", "h2")
    assert (sighting.mark, sighting.client, sighting.server) == ((9, START), CLIENT, RESOLVER)
    assert names.binding("example.com") is sighting
    assert names.binding("example.org") is None


def test_a_binding_behind_an_alias() -> None:
    """An HTTPS record at the end of a CNAME belongs to the name that was asked for."""
    names = Names()
    names.feed(datagram("example.com", record("example.com", 5, name("cdn.example")), https("cdn.example", b"h3")))
    assert names.binding("example.com") is not None


def test_several_bindings_of_a_name() -> None:
    """Of the records in one answer the one with HTTP/3 is kept, wherever it stands; a later answer takes its place."""
    names = Names()
    names.feed(datagram("example.com", https("example.com", b"h3"), https("example.com", b"h2")))
    binding = names.binding("example.com")
    assert binding is not None
    assert binding.binding.alpn == ("h3",)
    later = datagram("example.com", https("example.com", b"h2"))
    names.feed(replace(later, frame=later.frame + 1))
    binding = names.binding("example.com")
    assert binding is not None
    assert binding.binding.alpn == ("h2",)


def test_an_alias_is_followed_from_answer_to_answer() -> None:
    """A record in alias mode leads to the one that its client asks for next; in a circle it leads nowhere."""
    names = Names()
    for alias, target in (("example.com", "cdn.example"), ("a.example", "b.example"), ("b.example", "a.example")):
        names.feed(datagram(alias, record(alias, 65, bytes(2) + name(target))))
    names.feed(datagram("cdn.example", https("cdn.example", b"h3")))
    binding = names.binding("example.com")
    assert binding is not None
    assert binding.binding.alpn == ("h3",)
    assert names.binding("a.example") is not None


def test_a_binding_of_another_service_is_not_the_names_https() -> None:
    """An SVCB record at the same name speaks of something else than https://."""
    names = Names()
    answer = record("example.com", 64, b"\x00\x01\x00" + b"\x00\x01\x00\x03\x02h3")
    assert [s.binding.alpn for s in names.feed(datagram("example.com", answer))] == [("h3",)]
    assert names.binding("example.com") is None


def test_only_answers_of_resolvers_count() -> None:
    """Queries, and answers from ports that are not DNS's, say nothing."""
    names = Names()
    answer = record("example.com", 1, ADDRESS)
    assert names.feed(datagram("example.com", answer, flags=0x0100)) == []
    assert names.feed(datagram("example.com", https("example.com", b"h3"), source=Endpoint(ADDRESS, 5300))) == []
    names.feed(datagram("example.com", answer, source=Endpoint(ADDRESS, 5300)))
    assert names.name_of(ADDRESS) is None


def test_memory_is_bounded() -> None:
    """Addresses, and names of one address, are forgotten or left out past a limit."""
    names = Names(limit=2)
    for number in range(3):
        names.feed(datagram("example.com", record("example.com", 1, bytes((10, 0, 0, number)))))
    assert [names.name_of(bytes((10, 0, 0, number))) is not None for number in range(3)] == [False, True, True]
    for number in range(NAMES_PER_ADDRESS + 20):
        names.feed(datagram(f"n{number}.example", record(f"n{number}.example", 1, ADDRESS)))
    held = names._by_address.get(ADDRESS)
    assert held is not None
    assert len(held) == NAMES_PER_ADDRESS


@given(st.binary(max_size=200))
def test_hostile_messages_never_raise(payload: bytes) -> None:
    """Whatever comes from port 53 is an answer or nothing."""
    Names().feed(UdpDatagram(1, START, RESOLVER, CLIENT, payload, len(payload)))
    head = struct.pack(">HHHHHH", 1, 0x8180, 0, 3, 0, 0)
    Names().feed(UdpDatagram(1, START, RESOLVER, CLIENT, head + payload, len(payload)))
