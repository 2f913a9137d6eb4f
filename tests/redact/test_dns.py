"""DNS messages."""

from __future__ import annotations

import struct

import dns.edns
import dns.message
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from h3probe.redact.dns import rewrite
from h3probe.redact.mapping import Mapping
from h3probe.wire.dns import AddressRecord, AliasRecord, ServiceBinding, parse_message

KEY = bytes(range(32))
ANSWER = """id 7
opcode QUERY
rcode NOERROR
flags QR RD RA
;QUESTION
www.secret.org. IN HTTPS
;ANSWER
www.secret.org. 60 IN CNAME edge.hidden.net.
edge.hidden.net. 60 IN HTTPS 1 svc.hidden.net. alpn="h3,h2" port=8443 ipv4hint=203.0.114.9 ipv6hint=2001:470:1::9
edge.hidden.net. 60 IN A 203.0.114.9
edge.hidden.net. 60 IN AAAA 2001:470:1::9
edge.hidden.net. 60 IN TXT "owner=ann"
;AUTHORITY
hidden.net. 60 IN SOA ns.hidden.net. ann.hidden.net. 1 2 3 4 5
hidden.net. 60 IN NS ns.hidden.net.
;ADDITIONAL
_443._https.edge.hidden.net. 60 IN SRV 1 2 443 edge.hidden.net.
hidden.net. 60 IN MX 10 mail.hidden.net.
hidden.net. 60 IN RRSIG A 8 2 60 20300101000000 20200101000000 7 hidden.net. c2VjcmV0c2VjcmV0
hidden.net. 60 IN CAA 0 issue "ca.hidden.net"
"""


def answer() -> bytes:
    """The same on the wire."""
    message = dns.message.from_text(ANSWER)
    message.use_edns(0, options=[dns.edns.ECSOption("198.51.100.0", 24)])
    return message.to_wire()


def test_a_message() -> None:
    """Names and addresses are those of the mapping; types, times, ports and protocols stay."""
    mapping = Mapping(KEY)
    before = answer()
    made = rewrite(before, mapping)
    assert len(made) == len(before)
    for hidden in (
        b"www",
        b"secret",
        b"hidden",
        b"edge",
        b"mail",
        b"ann",
        bytes((203, 0, 114, 9)),
        bytes((198, 51, 100)),
    ):
        assert hidden not in made
    message = parse_message(made)
    assert message.questions == ((mapping.host(b"www.secret.org").decode(), 65),)
    alias, service, v4, v6 = message.answers
    edge = mapping.host(b"edge.hidden.net").decode()
    assert isinstance(alias, AliasRecord)
    assert alias.target == edge
    assert isinstance(service, ServiceBinding)
    assert service.target == mapping.host(b"svc.hidden.net").decode()
    assert (service.port, service.alpn) == (8443, ("h3", "h2"))
    assert isinstance(v4, AddressRecord)
    assert isinstance(v6, AddressRecord)
    assert service.ipv4hints == (v4.address,) == (mapping.address(bytes((203, 0, 114, 9))),)
    assert service.ipv6hints == (v6.address,)
    whole = dns.message.from_wire(made)
    assert {rrset.rdtype for rrset in whole.additional} == {
        rrset.rdtype for rrset in dns.message.from_wire(before).additional
    }
    assert any(rrset.name.to_text().startswith("_443._https.") for rrset in whole.additional)


def test_a_kept_host() -> None:
    """The name that is kept stays here too, and so do the addresses that the answer gives for it."""
    mapping = Mapping(KEY, kept=("www.secret.org",))
    made = parse_message(rewrite(answer(), mapping))
    assert made.questions[0][0] == "www.secret.org"
    assert mapping.address(bytes((203, 0, 114, 9))) == bytes((203, 0, 114, 9))


@pytest.mark.parametrize("cut", range(0, 300, 7))
def test_a_cut_message(cut: int) -> None:
    """A snaplen takes the end away and no name is left in what there is."""
    made = rewrite(answer()[:cut], Mapping(KEY))
    assert len(made) == min(cut, len(answer()))
    for hidden in (b"secret", b"hidden", bytes((203, 0, 114, 9))):
        assert hidden not in made


def test_ech_configurations() -> None:
    """Of an ECHConfigList the public name is a name, and the keys are noise (RFC 9849, section 4)."""
    mapping = Mapping(KEY)
    contents = b"\x07\x00\x20" + b"\x00\x04KEYS" + b"\x00\x04\0\1\0\1" + b"\x20" + b"\x0apublic.org" + b"\0\0"
    configs = struct.pack(">HHH", len(contents) + 4, 0xFE0D, len(contents)) + contents
    data = b"\0\1\0" + struct.pack(">HH", 5, len(configs)) + configs
    record = b"\0" + struct.pack(">HHIH", 65, 1, 60, len(data)) + data
    made = rewrite(struct.pack(">HHHHHH", 1, 0x8180, 0, 1, 0, 0) + record, mapping)
    assert mapping.host(b"public.org") in made
    assert b"KEYS" not in made


def test_a_name_that_points_at_itself() -> None:
    """A loop ends, and nothing of the message after it is believed."""
    made = rewrite(struct.pack(">HHHHHH", 1, 0, 1, 0, 0, 0) + b"\xc0\x0c" + b"secret", Mapping(KEY))
    assert b"secret" not in made


@settings(deadline=None)
@given(st.binary(max_size=200))
def test_any_bytes(data: bytes) -> None:
    """Whatever comes to a DNS port, it is as long afterwards."""
    assert len(rewrite(data, Mapping(KEY))) == len(data)


def test_a_reversed_name() -> None:
    """A pointer's name is that of the address that stands for it, and so is the zone that it shares labels with."""
    mapping = Mapping(KEY)
    message = dns.message.make_response(dns.message.make_query("35.216.184.93.in-addr.arpa", "PTR"))
    message.answer += dns.message.from_text(
        ";ANSWER\n35.216.184.93.in-addr.arpa. 60 IN PTR www.secret.org."
        "\n216.184.93.in-addr.arpa. 60 IN NS ns.secret.org."
    ).answer
    made = dns.message.from_wire(rewrite(message.to_wire(), mapping))
    a, b, c, d = mapping.address(bytes((93, 184, 216, 35)))
    assert str(made.question[0].name) == f"{d}.{c}.{b}.{a}.in-addr.arpa."
    assert str(made.answer[1].name) == f"{c}.{b}.{a}.in-addr.arpa."


@pytest.mark.parametrize("payload", [b"www.secret.", b"www.secret.org", b"hello, www.secret.org, are you there?"])
def test_what_is_not_dns(payload: bytes) -> None:
    """Another protocol on DNS's port leaves nothing behind, its first twelve bytes neither."""
    made = rewrite(payload, Mapping(KEY))
    assert len(made) == len(payload)
    assert not any(part in made for part in (b"www", b"secret", b"hello"))


@pytest.mark.parametrize("kind", [2, 5, 6, 12, 15, 33, 39])
def test_more_than_a_name(kind: int) -> None:
    """What stands behind the name that a record consists of does not stay."""
    before = {15: 2, 33: 6}.get(kind, 0)
    data = bytes(before) + b"\0" * (1 + 21 * (kind == 6)) + b"www.secret.org"
    record = b"\0" + struct.pack(">HHIH", kind, 1, 60, len(data)) + data
    made = rewrite(struct.pack(">HHHHHH", 1, 0x8000, 0, 1, 0, 0) + record, Mapping(KEY))
    assert b"secret" not in made
