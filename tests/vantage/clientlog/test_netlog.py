from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from h3probe.errors import CaptureError
from h3probe.vantage.clientlog.netlog import NetLog
from tests.vantage.clientlog.netlog_builder import (
    CONSTANTS,
    CONTROLLER,
    EVENTS,
    JOB,
    OTHER_JOB,
    POOL,
    PROBE,
    PROBE_CLIENT,
    QUIC,
    TYPES,
    UDP,
    UDP_CLIENT,
    behind,
    event,
    file,
    request,
)
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


def attempt(port: int = 50_003, job: int = OTHER_JOB, pool: int = POOL, apart: int = 0) -> list[str]:
    """A job's own attempt over QUIC, as Chromium 156 tells of it, with its look for a way to IPv6 before."""
    probe_client, probe, client, udp, quic = (n + apart for n in (PROBE_CLIENT, PROBE, UDP_CLIENT, UDP, QUIC))
    return [
        behind(job, "BOUND_TO_QUIC_SESSION_POOL_JOB", pool),
        behind(probe, "SOCKET_ALIVE", probe_client),
        behind(probe_client, "SOCKET_ALIVE", pool),
        event(probe, "UDP_CONNECT", 1, {"address": "[2001:db8::8888]:443"}, phase=1),
        event(probe, "UDP_LOCAL_ADDRESS", 1, {"address": "[2001:db8::5]:50009"}),
        behind(udp, "SOCKET_ALIVE", client),
        behind(client, "SOCKET_ALIVE", pool),
        event(udp, "UDP_CONNECT", 1, {"address": "192.0.2.1:443"}, phase=1),
        event(udp, "UDP_CONNECT", 1, phase=2),
        event(udp, "UDP_LOCAL_ADDRESS", 1, {"address": f"10.0.0.5:{port}"}),
        behind(pool, "QUIC_SESSION_CREATED", quic),
    ]


def failing(error: int, *jobs: int, between: list[str]) -> list[str]:
    """A request that several jobs looked for a way for, and that failed."""
    return [
        event(1, "URL_REQUEST_START_JOB", 100, {"method": "GET", "url": "https://example.org/"}, phase=1),
        behind(1, "HTTP_STREAM_JOB_CONTROLLER_BOUND", CONTROLLER),
        behind(CONTROLLER, "HTTP_STREAM_JOB_CONTROLLER_BOUND", 1),
        *(behind(CONTROLLER, "HTTP_STREAM_REQUEST_STARTED_JOB", job) for job in jobs),
        *between,
        event(1, "REQUEST_ALIVE", 4_160, {"net_error": error}, phase=2),
    ]


def test_a_failure_over_quic_leads_to_its_attempt(tmp_path: Path) -> None:
    """The job's own socket is told of, not the one by which Chromium looked for a way to IPv6."""
    events = failing(-356, OTHER_JOB, JOB, between=attempt())
    (only,) = written(tmp_path / "netlog.json", file(*events)).exchanges
    assert only.error == "net::ERR_QUIC_PROTOCOL_ERROR"
    assert (str(only.client), str(only.server)) == ("10.0.0.5:50003", "192.0.2.1:443")


@pytest.mark.parametrize("error", [-356, -102])
def test_a_failure_that_may_be_of_several_attempts_is_of_none(tmp_path: Path, error: int) -> None:
    """With two QUIC attempts, and with an error that is not QUIC's, no connection is told."""
    second = attempt(50_004, JOB, POOL + 100, apart=100) if error == -356 else []
    events = failing(error, OTHER_JOB, JOB, between=[*attempt(), *second])
    (only,) = written(tmp_path / "netlog.json", file(*events)).exchanges
    assert (only.client, only.server) == (None, None)


@pytest.mark.parametrize("broken", [True, False])
def test_a_broken_alternative_is_told_of(tmp_path: Path, *, broken: bool) -> None:
    """What the controller knows of the alternative is told with the request that it looks for a way for."""
    known = {"alt_svc": "quic example.org:443, expires 2026-11-30 16:41:21", "is_broken": broken}
    events = request(1, "HTTP/2", "https://example.org/", 100)
    events[1:1] = [
        behind(1, "HTTP_STREAM_JOB_CONTROLLER_BOUND", CONTROLLER),
        event(CONTROLLER, "HTTP_STREAM_JOB_CONTROLLER_ALT_SVC_FOUND", 100, known),
    ]
    (only,) = written(tmp_path / "netlog.json", file(*events)).exchanges
    assert only.broken is broken


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
