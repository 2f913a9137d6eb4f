from __future__ import annotations

import dataclasses
import json
import re
import typing
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from h3probe.errors import DecodeError
from h3probe.events import (
    AltSvcSeen,
    CaRejected,
    ClientHelloSeen,
    ConnectionEnded,
    ConnectionOwner,
    Dropped,
    Endpoint,
    Exchange,
    Process,
    ProxyDied,
    ProxyEvent,
    RunBegan,
    ToldAltSvc,
    ToldAsked,
    ToldExchange,
    TunnelAnswered,
    TunnelAsked,
)
from h3probe.vantage.proxy_events import (
    LONGEST_LINE,
    LONGEST_TEXT,
    MOST_ITEMS,
    OBSERVED_TYPES,
    TYPES,
    Observed,
    format_event,
    format_observed,
    looks_like_events,
    parse_event,
    parse_observed,
)

V4 = Endpoint(bytes([127, 0, 0, 1]), 50000)
V6 = Endpoint(bytes(15) + b"\x01", 8899)
ASKED = TunnelAsked(1_700_000_000_123_456_789, "t1", "c1", V4, V6, "example.org", 443, "CONNECT")

SCALARS: dict[Any, st.SearchStrategy[Any]] = {
    int: st.integers(0, 2**63 - 1),
    float: st.floats(0, 2**62),
    bool: st.booleans(),
    str: st.text(),
    bytes: st.binary(),
    Endpoint: st.builds(
        Endpoint, st.binary(min_size=4, max_size=4) | st.just(bytes(15) + b"\x01"), st.integers(0, 65535)
    ),
    Process: st.builds(Process, st.integers(0, 2**31), st.text()),
    type(None): st.none(),
}


def of(hint: Any) -> st.SearchStrategy[Any]:  # noqa: ANN401 - annotations have no common type
    """Any value of an annotation that events have."""
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin is tuple:
        return st.lists(of(arguments[0]), max_size=3).map(tuple)
    if origin is typing.Literal:
        return st.sampled_from(arguments)
    return SCALARS[hint] if origin is None else st.one_of([of(each) for each in arguments])


ORIGINS = st.from_regex(r"https?://[a-z.]{1,9}:[0-9]{1,4}", fullmatch=True)
PORTS = st.integers(0, 65535)
NAMED: dict[tuple[type, str], st.SearchStrategy[Any]] = {
    **{(kind, "origin"): ORIGINS for kind in (AltSvcSeen, Exchange, ToldAltSvc, ToldAsked, ToldExchange)},
    (TunnelAsked, "port"): PORTS,
    (ToldExchange, "local_port"): st.none() | PORTS,
    (ToldAltSvc, "local_port"): st.none() | PORTS,
    (RunBegan, "ports"): st.none() | st.lists(PORTS).map(tuple),
    (RunBegan, "local"): st.lists(st.binary(min_size=4, max_size=4) | st.binary(min_size=16, max_size=16)).map(tuple),
    (ClientHelloSeen, "quic_version"): st.none() | st.integers(0, 2**32 - 1),
}
"""Fields that hold less than their annotation says."""


def any_event(kind: type[Any]) -> st.SearchStrategy[Any]:
    """Any event of a type."""
    hints = typing.get_type_hints(kind)
    return st.builds(
        kind, **{name: NAMED[kind, name] if (kind, name) in NAMED else of(hint) for name, hint in hints.items()}
    )


@given(st.one_of([any_event(each) for each in TYPES.values()]))
def test_every_event_comes_back(event: ProxyEvent | Dropped) -> None:
    """Whatever an event holds, the line made of it is one line, and read again it is the same event."""
    line = format_event(event)
    assert "\n" not in line
    assert parse_event(line) == event
    assert parse_event(line.encode()) == event


@given(st.one_of([any_event(each) for each in OBSERVED_TYPES.values()]), st.integers(0, 2**40))
def test_everything_observed_comes_back(event: Observed, after: int) -> None:
    """A line of a bundle gives the event again, and the number of the frame before it."""
    line = format_observed(event, after)
    assert "\n" not in line
    assert parse_observed(line.encode("utf-8", "replace")) == (event, after)


def test_the_proxy_tells_nothing_of_a_run() -> None:
    """What a bundle alone may hold is no event of the proxy, and a line of a bundle has its place."""
    owner = ConnectionOwner(1, 6, V4, Process(7, "java"), wanted=True)
    line = format_observed(owner, 3)
    assert json.loads(line)["process"] == {"pid": 7, "name": "java"}
    with pytest.raises(DecodeError, match="no event of the proxy"):
        parse_event(line)
    with pytest.raises(DecodeError, match="after"):
        parse_observed(format_event(ASKED))
    with pytest.raises(DecodeError, match="process: not all of pid, name"):
        parse_observed(line.replace('"pid"', '"pit"'))


def test_every_event_of_the_proxy_has_a_type() -> None:
    """No event that the proxy can report is missing from the table."""
    assert set(typing.get_args(ProxyEvent)) | {Dropped} == set(TYPES.values())


def test_what_a_line_looks_like() -> None:
    """The spelling that docs/proxy.md promises."""
    hello = ClientHelloSeen(1, "c1", V4, V6, "udp", None, None, ("h3",), "q13", dcid=b"\xab\xcd")
    assert json.loads(format_event(hello)) == {
        "type": "client_hello",
        "time_ns": 1,
        "connection": "c1",
        "client": "127.0.0.1:50000",
        "proxy": "[::1]:8899",
        "transport": "udp",
        "tunnel": None,
        "sni": None,
        "alpn": ["h3"],
        "ja4": "q13",
        "ech": False,
        "quic_version": None,
        "dcid": "abcd",
        "scid": None,
    }


def test_a_field_with_a_default_may_be_missing_and_an_unknown_one_is_ignored() -> None:
    """A line of an older or a newer h3probe can be read."""
    line = {"type": "tunnel_answered", "time_ns": 1, "id": "t1", "status": 200, "seconds": 1, "by": "proxy", "new": {}}
    assert parse_event(json.dumps(line)) == TunnelAnswered(1, "t1", 200, 1.0, "proxy")


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("time_ns", -1),
        ("time_ns", 1.5),
        ("time_ns", True),
        ("time_ns", "1"),
        ("time_ns", 2**63),
        ("time_ns", None),
        ("client", "localhost:1"),
        ("client", "127.0.0.1"),
        ("client", "127.0.0.1:65536"),
        ("client", "999.0.0.1:1"),
        ("client", "[::g]:1"),
        ("client", "[127.0.0.1:1"),
        ("client", ["127.0.0.1", 1]),
        ("host", 1),
        ("host", "x" * (LONGEST_TEXT + 1)),
        ("method", "GET"),
        ("method", ["CONNECT"]),
        ("type", "frame"),
        ("type", ["tunnel_asked"]),
    ],
)
def test_a_field_of_another_kind_is_refused(field: str, value: object) -> None:
    """One wrong field makes the line no event, by the one error that a reader has to expect."""
    line = json.loads(format_event(ASKED)) | {field: value}
    with pytest.raises(DecodeError):
        parse_event(json.dumps(line))


@pytest.mark.parametrize("field", ["type", "time_ns", "client", "method"])
def test_a_missing_field_is_refused(field: str) -> None:
    """A field without a default must be there."""
    line = json.loads(format_event(ASKED))
    del line[field]
    with pytest.raises(DecodeError):
        parse_event(json.dumps(line))


@pytest.mark.parametrize(
    "line",
    [
        b"",
        b"null",
        b"[]",
        b'"tunnel_asked"',
        b"{",
        b"\xff\xfe",
        b'{"type":"proxy_died","time_ns":1,"exit_status":NaN}',
        b'{"type":"proxy_died","time_ns":1,"exit_status":' + b"9" * 5000 + b"}",
        b"[" * 200_000,
        b" " * (LONGEST_LINE + 1),
    ],
)
def test_no_event_at_all(line: bytes) -> None:
    """What is no line of JSON, or too long a one, is refused by the same error."""
    with pytest.raises(DecodeError):
        parse_event(line)


@pytest.mark.parametrize(
    ("event", "field", "values"),
    [
        (AltSvcSeen(1, "c1", V4, "https://h:1", (), ()), "origin", ["", "h:1", "https://h", "https://h:70000"]),
        (ASKED, "port", [65536]),
        (ToldExchange(1, "client-log", "https://h:1", "GET", ""), "local_port", [65536]),
        (RunBegan(1, "", "live", "wire"), "ports", [[443, 65536]]),
        (RunBegan(1, "", "live", "wire"), "local", [["7f0000"], [""]]),
        (ClientHelloSeen(1, "c1", V4, V6, "udp", None, None, (), ""), "quic_version", [2**32]),
    ],
)
def test_a_value_that_there_cannot_be_is_refused(event: Observed, field: str, values: list[object]) -> None:
    """A diagnosis is about a host and a port, and counts on versions and addresses being some."""
    line = json.loads(format_observed(event, 0))
    assert parse_observed(json.dumps(line)) == (event, 0)
    for value in values:
        with pytest.raises(DecodeError):
            parse_observed(json.dumps(line | {field: value}))


def test_a_list_is_bounded() -> None:
    """A list longer than any the proxy writes is refused."""
    line = json.loads(format_event(ProxyDied(1, 0))) | {"last_words": ["x"] * (MOST_ITEMS + 1)}
    with pytest.raises(DecodeError):
        parse_event(json.dumps(line))


@given(st.binary(max_size=300))
def test_any_bytes(data: bytes) -> None:
    """Any bytes are an event or raise the typed error, nothing else."""
    try:
        parse_event(data)
    except DecodeError:
        return


JSON: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)


@given(st.sampled_from(sorted(TYPES)), st.data())
def test_any_values(name: str, data: st.DataObject) -> None:
    """Any JSON in the place of any field is an event or raises the typed error, nothing else."""
    names = [field.name for field in dataclasses.fields(TYPES[name])]
    line = {"type": name} | {each: data.draw(JSON) for each in names}
    try:
        parse_event(json.dumps(line))
    except DecodeError:
        return


def test_bytes_that_are_no_text() -> None:
    """A byte that mitmproxy could not read as text is written as an escape, since JSON in UTF-8 cannot carry it."""
    event = CaRejected(1, "c1", V4, "caf\udce9", "tcp", None)
    parsed = parse_event(format_event(event).encode())
    assert parsed == dataclasses.replace(event, host="caf\\xe9")


def test_what_is_too_long_is_cut() -> None:
    """The proxy writes nothing that its reader would refuse: texts and lists are cut at their limits."""
    event = ProxyDied(1, 0, ("x" * (LONGEST_TEXT + 1), *["y"] * MOST_ITEMS))
    parsed = parse_event(format_event(event))
    assert parsed == ProxyDied(1, 0, ("x" * LONGEST_TEXT, *["y"] * (MOST_ITEMS - 1)))


def test_recognised_by_its_start() -> None:
    """A file of events is told from a capture and from other JSON by its first line."""
    ended = ConnectionEnded(1, "c1", V4, V6, "tcp", None, 1, 2, 0.5, "client")
    assert looks_like_events(format_event(ended).encode())
    assert not looks_like_events(b'{"type":"capture","schema":"1"}\n')
    assert not looks_like_events(b"\xd4\xc3\xb2\xa1")
    assert not looks_like_events(b"")


def test_documented() -> None:
    """docs/proxy.md lists every type with all its fields, in order, and nothing else."""
    text = (Path(__file__).parents[2] / "docs" / "proxy.md").read_text(encoding="utf-8")
    table = text[text.index("## Events") : text.index("## Limits")]
    rows = re.findall(r"^\| `(\w+)` \| (.*) \|$", table, re.MULTILINE)
    documented = {name: re.findall(r"`(\w+)`", re.sub(r"\(.*?\)", "", listed)) for name, listed in rows}
    assert documented == {name: [field.name for field in dataclasses.fields(kind)] for name, kind in TYPES.items()}
