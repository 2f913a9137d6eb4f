"""The same for the same, another for another, and back from a file."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from h3probe.errors import UserError
from h3probe.redact.mapping import KEY_SIZE, Mapping

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
