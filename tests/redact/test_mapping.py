"""The same for the same, another for another, and back from a file."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from h3probe.errors import UserError
from h3probe.redact.mapping import KEY_SIZE, Mapping
from h3probe.redact.names import reversed_address

KEY = bytes(range(KEY_SIZE))


@settings(deadline=None)
@given(st.text("abcxyz0-", min_size=1, max_size=12), st.text("abcxyz0-", min_size=1, max_size=12))
def test_labels(one: str, two: str) -> None:
    """A label becomes letters, as many; another label other letters."""
    mapping = Mapping(KEY)
    first, second = mapping.label(one.encode()), mapping.label(two.encode())
    assert first.isalpha()
    assert first.islower()
    assert len(first) == len(one)
    assert (first == second) == (one == two)


def test_names_share_what_they_end_in() -> None:
    """Two names of one domain are still of one, in any case of letters, with the final dot or without."""
    mapping = Mapping(KEY)
    www, api = mapping.host(b"www.secret.org").split(b"."), mapping.host(b"API.Secret.org.").split(b".")
    assert www[1:] == api[1:3]
    assert www[0] != b"www"
    assert api[3:] == [b""]


def test_what_names_nobody_stays() -> None:
    """Special-use names keep what makes them special."""
    mapping = Mapping(KEY)
    assert mapping.host(b"localhost") == b"localhost"
    assert mapping.host(b"ann-mac.local").endswith(b".local")
    assert not mapping.host(b"ann-mac.local").startswith(b"ann")


def test_kept_hosts() -> None:
    """A kept name stays, and its domain, and the addresses that DNS tells for it; its neighbours do not."""
    mapping = Mapping(KEY, kept=("www.Example.net", "203.0.113.7"))
    assert mapping.host(b"www.example.net") == b"www.example.net"
    neighbour = mapping.host(b"cdn.example.net")
    assert neighbour.endswith(b".example.net")
    assert neighbour != b"cdn.example.net"
    assert mapping.address(bytes((203, 0, 113, 7))) == bytes((203, 0, 113, 7))
    mapping.keep_if_named("www.example.net", bytes((198, 51, 99, 3)))
    mapping.keep_if_named("other.example.net", bytes((198, 51, 99, 4)))
    assert mapping.address(bytes((198, 51, 99, 3))) == bytes((198, 51, 99, 3))
    assert mapping.address(bytes((198, 51, 99, 4))) != bytes((198, 51, 99, 4))


def test_an_address_as_text() -> None:
    """A literal is replaced as the packed address is, and stays as long."""
    mapping = Mapping(KEY)
    replaced = mapping.host(b"[2001:470:1::25]")
    assert len(replaced) == 16
    assert replaced.startswith(b"[")
    assert mapping.host(b"8.8.4.4").count(b".") == 3
    assert len(mapping.host(b"2001:0470:0001::25")) == 18  # not the usual spelling


@settings(deadline=None)
@given(st.binary(max_size=20), st.binary(max_size=20))
def test_connection_ids(one: bytes, two: bytes) -> None:
    """As long as it was, none for none, and another one for another one."""
    mapping = Mapping(KEY)
    assert len(mapping.connection_id(one)) == len(one)
    assert (mapping.connection_id(one) == mapping.connection_id(two)) == (one == two)


def test_all_ids_of_one_byte() -> None:
    """Where every replacement is needed, none is used twice."""
    mapping = Mapping(KEY)
    assert len({mapping.connection_id(bytes((value,))) for value in range(256)}) == 256


def test_sentences() -> None:
    """Ordinary words stay; what looks like a name, and a name that is known, does not."""
    mapping = Mapping(KEY)
    mapping.host(b"intranet")
    made = mapping.sentence(b"No response from intranet or db.corp.net for 30 seconds")
    assert made.startswith(b"No response from ")
    assert made.endswith(b" for 30 seconds")
    assert b"intranet" not in made
    assert b"db.corp" not in made
    assert len(made) == 55


def test_a_run_goes_on_with_the_mapping_of_another() -> None:
    """What was replaced once is replaced alike by whoever has the file, and what is new by the same key."""
    first = Mapping()
    for text in (b"www.secret.org", b"10.1.2.3", b"[2001:470::9]"):
        first.host(text)
    first.mac(bytes.fromhex("0011223344ff"))
    first.connection_id(b"\x01\x02\x03")
    first.word(b"caf\xe9")
    second = Mapping.from_json(first.to_json())
    assert second.tables == first.tables
    assert second.host(b"new.secret.org") == first.host(b"new.secret.org")


@pytest.mark.parametrize("text", ["", "{}", "[]", '{"h3probe-redact": 1, "key": "zz"}', '{"h3probe-redact": 2}'])
def test_what_is_no_mapping(text: str) -> None:
    """Another file is refused in words."""
    with pytest.raises(UserError):
        Mapping.from_json(text)


@settings(deadline=None)
@given(st.binary(max_size=40), st.integers(0, 1 << 40), st.integers(0, 3000))
def test_noise(seed: bytes, offset: int, length: int) -> None:
    """Noise is the same wherever a piece of it begins."""
    mapping = Mapping(KEY)
    whole = mapping.noise(seed, length, offset)
    assert len(whole) == length
    assert (
        mapping.noise(seed, length // 2, offset) + mapping.noise(seed, length - length // 2, offset + length // 2)
        == whole
    )


def test_noise_is_not_what_it_stands_for() -> None:
    """Two runs have other noise, and credentials are their own."""
    one, two = Mapping(), Mapping()
    assert one.noise(b"x", 64) != two.noise(b"x", 64)
    assert one.credential(b"token") == one.credential(b"token") != two.credential(b"token")


@pytest.mark.parametrize(
    ("name", "address"),
    [
        (b"35.216.184.93.in-addr.arpa", bytes((93, 184, 216, 35))),
        (b"lb._dns-sd._udp.35.216.184.93.in-addr.arpa", bytes((93, 184, 216, 35))),
        (b"216.184.93.in-addr.arpa", bytes((93, 184, 216, 0))),
        (
            b"9.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.1.0.0.0.b.b.a.a.0.7.4.0.1.0.0.2.ip6.arpa",
            bytes.fromhex("20010470aabb00010000000000000009"),
        ),
    ],
)
def test_names_of_addresses(name: bytes, address: bytes) -> None:
    """A name that spells an address backwards spells the one that stands for it, and not letters digit by digit."""
    mapping = Mapping(KEY)
    made = mapping.host(name)
    spelled = reversed_address(made.split(b"."))
    assert len(made) == len(name)
    assert made != name
    assert spelled is not None
    assert spelled[1] == mapping.address(address) != address


def test_names_of_addresses_that_are_none() -> None:
    """What does not spell an address is a name like others; what names this host stays."""
    mapping = Mapping(KEY)
    assert mapping.host(b"1.0.0.127.in-addr.arpa") == b"1.0.0.127.in-addr.arpa"
    for name in (b"a.in-addr.arpa", b"256.in-addr.arpa", b"01.in-addr.arpa", b"xy.ip6.arpa"):
        assert mapping.host(name).partition(b".")[0].isalpha()


def test_a_zone_of_an_address_is_a_name() -> None:
    """An interface's name behind an address (RFC 4007, 11) does not stay with one that does."""
    assert b"annlaptop" not in Mapping(KEY).host(b"[::1%annlaptop]")


def test_digits_that_are_no_port() -> None:
    """Only what can be a port stays behind a colon."""
    assert b"4915112345678" not in Mapping(KEY).host(b"www.secret.org:4915112345678")


@pytest.mark.parametrize("text", [b"no site Intranet", b"no site intranet.", b"(intranet:443)", b"'intranet', sorry"])
def test_a_host_without_a_dot_in_a_sentence(text: bytes) -> None:
    """A name that is known is found with whatever stands around it."""
    mapping = Mapping(KEY)
    mapping.host(b"Intranet")
    made = mapping.sentence(text)
    assert b"intranet" not in made.lower()
    assert len(made) == len(text)


def test_a_kept_host_is_kept_by_one_run_alone() -> None:
    """Who goes on with a mapping and does not keep what its first run kept, does not have it."""
    first = Mapping(KEY, kept=("www.secret.org",))
    assert first.host(b"www.secret.org") == b"www.secret.org"
    assert b"secret" not in Mapping.from_json(first.to_json()).host(b"www.secret.org")


@pytest.mark.parametrize(
    ("kind", "entry"),
    [
        ("labels", {"secret": ""}),
        ("labels", {"secret": "a.b.c."}),
        ("words", {"ab": "\r\n"}),
        ("addresses", {"10.1.2.3": "::1"}),
        ("connection_ids", {"0102": "01"}),
    ],
)
def test_a_mapping_that_lies(kind: str, entry: dict[str, str]) -> None:
    """An entry that would move bytes, or write other ones than letters, is refused."""
    with pytest.raises(UserError, match="cannot become"):
        Mapping.from_json(json.dumps({"h3probe-redact": 1, "key": KEY.hex(), kind: entry}))


@pytest.mark.parametrize("text", ["[" * 100_000, '{"h3probe-redact": 1, "key": "00"}'])
def test_a_mapping_made_to_harm(text: str) -> None:
    """Nesting without end, and a key of another size, are refused."""
    with pytest.raises(UserError, match="no mapping"):
        Mapping.from_json(text)


def test_long_words_take_no_room() -> None:
    """They are replaced by letters, the same for the same, and not remembered."""
    mapping = Mapping(KEY)
    word = b"ann" * 1000
    assert len(mapping.word(word)) == len(word)
    assert mapping.word(word) == mapping.word(word)
    assert mapping.word(word).isalpha()
    assert not mapping.tables["words"]
