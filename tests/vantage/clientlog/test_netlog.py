from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from h3probe.errors import CaptureError
from h3probe.vantage.clientlog.netlog import NetLog
from tests.vantage.clientlog.netlog_builder import CONSTANTS, EVENTS, TYPES, event, file, request
from tests.vantage.clientlog.reading import Reading, utc, written

if TYPE_CHECKING:
    from pathlib import Path


def check(reading: Reading) -> None:
    """What is told of `EVENTS`."""
    one, other = reading.exchanges
    assert (one.version, one.status, one.url) == ("HTTP/2", 200, "https://example.org/a?b=…")
    assert (str(one.client), str(one.server)) == ("10.0.0.5:50001", "192.0.2.1:443")
    assert utc(one.time_ns) == "2026-11-30T13:14:40"
    assert one.began_ns is not None
    assert one.time_ns - one.began_ns == 50_000_000
    assert (other.version, str(other.client), str(other.server)) == ("HTTP/3", "[::1]:50002", "[::1]:443")
    (alt_svc,) = reading.alt_svc
    assert (alt_svc.origin, alt_svc.lines, alt_svc.client) == ("https://example.org:443", ('h3=":443"',), one.client)


@pytest.mark.parametrize("end", ["]}\n", '],\n"polledData": {}}\n', ",\n", ',\n{"phase":1,"sou'])
def test_requests_and_their_connections(tmp_path: Path, end: str) -> None:
    """Each request leads over job and session to the addresses, in a log that is whole, and one that is cut off."""
    check(written(tmp_path / "netlog.json", file(*EVENTS, end=end)))


def test_constants_that_are_not_whole(tmp_path: Path) -> None:
    """Without them no event means anything, and that is said."""
    with pytest.raises(CaptureError, match="constants, is not whole"):
        written(tmp_path / "netlog.json", file(*EVENTS)[:200])


def test_on_one_line(tmp_path: Path) -> None:
    """A log that a tool has written again is read as well."""
    check(written(tmp_path / "netlog.json", json.dumps(json.loads(file(*EVENTS)))))


def test_a_failure_has_chromiums_name(tmp_path: Path) -> None:
    """A request that ends with an error and without a response has failed."""
    events = [
        event(1, "URL_REQUEST_START_JOB", 100, {"method": "GET", "url": "https://example.org/"}, phase=1),
        event(1, "REQUEST_ALIVE", 160, {"net_error": -102}, phase=2),
    ]
    (only,) = written(tmp_path / "netlog.json", file(*events)).exchanges
    assert (only.status, only.version, only.error) == (None, None, "net::ERR_CONNECTION_REFUSED")


def test_long_words_are_cut(tmp_path: Path) -> None:
    """A log cannot make what is kept of it as long as it likes."""
    long = "x" * 1_000_000
    events = request(1, "HTTP/2", f"https://example.org/{long}", 100, f"Alt-Svc: {long}")
    events[0] = events[0].replace('"GET"', f'"{long}"')
    reading = written(tmp_path / "netlog.json", file(*events))
    (only,), (alt_svc,) = reading.exchanges, reading.alt_svc
    assert max(map(len, (only.url, only.method, *alt_svc.lines))) <= 4_096


def test_a_redirect_is_a_request_of_its_own(tmp_path: Path) -> None:
    """Both are told, each by its URL."""
    first = request(1, "HTTP/1.1", "http://example.org/", 100)[:-1]
    second = request(1, "HTTP/2", "https://example.org/", 200)
    assert [row[1:3] for row in written(tmp_path / "netlog.json", file(*first, *second)).rows] == [
        ("http://example.org/", "HTTP/1.1"),
        ("https://example.org/", "HTTP/2"),
    ]


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.sampled_from(["", "[::1]:5", "1" * 30, "https://["]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["id", "url", "headers"]), inner),
    max_leaves=6,
)
ANY_EVENT = st.fixed_dictionaries(
    {
        "type": st.sampled_from([*TYPES.values(), "x", True]),
        "source": st.fixed_dictionaries({"id": st.sampled_from([1, 2, True, "1", None])}) | JSON,
        "time": st.sampled_from(["5", "x", 5, 5.5, None]),
        "phase": st.sampled_from([0, 1, 2]),
        "params": st.dictionaries(
            st.sampled_from(
                [
                    *("url", "method", "headers", "source_dependency", "self_address", "peer_address"),
                    *("net_error", "address", "is_broken"),
                ]
            ),
            JSON | st.sampled_from(["https://h/", ["HTTP/1.1 200", "alt-svc: x", 5], {"id": 1}, -102]),
        )
        | JSON,
    }
)


@given(st.lists(ANY_EVENT.map(json.dumps) | st.text(max_size=20), max_size=30))
def test_any_lines_are_read(lines: list[str]) -> None:
    """Whatever stands in a log, nothing is raised, and what is told has an origin."""
    reader = NetLog()
    for line in [f'{{"constants":{json.dumps(CONSTANTS)},', *lines]:
        reader.line(line)
    reader.finish()
    for each in reader.take():
        assert each.origin.startswith(("http://", "https://"))


@given(st.dictionaries(st.sampled_from(["logEventTypes", "netError", "timeTickOffset", "events"]), JSON))
def test_any_constants_are_read(constants: dict[str, Any]) -> None:
    """Constants of another make tell nothing, and harm nothing."""
    reader = NetLog()
    reader.line(json.dumps({"constants": constants, "events": constants.get("events")}))
    for line in EVENTS:
        reader.line(line)
    reader.take()
