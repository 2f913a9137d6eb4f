from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from h3probe.events import ToldAsked
from h3probe.vantage.clientlog.jdk import JdkLog
from tests.vantage.clientlog.jdk_builder import SOURCE, URL, log, told
from tests.vantage.clientlog.reading import RECORDINGS, recording, utc, written

if TYPE_CHECKING:
    from pathlib import Path


def test_request_1_over_http2_and_the_next_over_http3() -> None:
    """Each response names its version and its port, and HTTP/3 the connection ID that the wire shows."""
    reading = recording("jdk26-client-any.log")
    assert reading.rows == [
        ("GET", URL, "HTTP/2", 200, 59746),
        ("GET", URL, "HTTP/3", 200, 52650),
        ("GET", URL, "HTTP/3", 200, 52650),
    ]
    first, second, _ = reading.exchanges
    assert first.scid is None
    assert second.scid == bytes.fromhex("c6812518ce8109acc34de67ae840fc75ac2aa9")
    assert [(a.origin, a.lines, a.local_port) for a in reading.alt_svc] == [
        ("https://localhost:4433", ('h3=":4433"; ma=3600',), None),
        ("https://localhost:4433", ('h3=":4433"; ma=3600',), 52650),
        ("https://localhost:4433", ('h3=":4433"; ma=3600',), 52650),
    ]


def test_a_proxys_connect_is_no_request() -> None:
    """What was asked of the proxy is left out; the requests have the port of the connection to it."""
    assert recording("jdk26-proxy.log").rows == [("GET", URL, "HTTP/2", 200, 49416)] * 2


def test_http1() -> None:
    """HTTP/1.1 is named as such."""
    assert {row[2] for row in recording("jdk26-http1.log").rows} == {"HTTP/1.1"}


@pytest.mark.parametrize("name", ["jdk26-german.log", "jdk26-japanese.log"])
def test_any_language(name: str) -> None:
    """Neither the date nor the level needs to be English, and the time is right all the same."""
    reading = recording(name)
    assert [row[2] for row in reading.rows] == ["HTTP/2", "HTTP/3"]
    assert all(utc(e.time_ns).startswith("2026-11-30T13:14:") for e in reading.exchanges)


@pytest.mark.parametrize(
    "date", ["Nov 30, 2026 6:44:46 PM", "30 nov. 2026, 22:14:46.250", "2026-12-01T03:14:46,5+1400"]
)
def test_any_zone(tmp_path: Path, date: str) -> None:
    """A `Date` from a server places a clock of any zone, half-hour and quarter-hour ones too."""
    text = (
        f"{date} jdk.internal.net.http.Stream handleResponse\n"
        "INFO: HEADERS: RESPONSE HEADERS (streamid=1):\n"
        f"  GET {URL} 200\n"
        "    date: Mon, 30 Nov 2026 13:14:50 GMT\n\n"
        f"{date} jdk.internal.net.http.Exchange lambda\n"
        f"INFO: RESPONSE: (GET {URL}) 200 HTTP_2 Local port:  40752\n"
    )
    (only,) = written(tmp_path / "java.log", text, at="2001-01-01T00:00:00").exchanges
    assert utc(only.time_ns) == "2026-11-30T13:14:46"


def test_without_a_date_the_files_own_time_counts(tmp_path: Path) -> None:
    """A log that names no date ended when its file did."""
    text = f"{SOURCE}\nINFO: RESPONSE: (GET {URL}) 200 HTTP_2 Local port:  40752\n"
    (only,) = written(tmp_path / "java.log", text, at="2026-11-30T12:16:00").exchanges
    assert utc(only.time_ns) == "2026-11-30T12:14:45"


def test_past_noon_and_midnight(tmp_path: Path) -> None:
    """A face that shows a smaller time has gone on, not back."""
    record = "%s jdk.internal.net.http.Exchange x\n" + f"INFO: RESPONSE: (GET {URL}) 200 HTTP_2 Local port:  40752\n"
    text = "".join(record % face for face in ("11:59:59 AM", "12:00:01 PM", "5:00:00 PM", "10:30:00 PM", "1:00:00 AM"))
    times = [e.time_ns for e in written(tmp_path / "java.log", text, at="2026-11-30T01:00:00").exchanges]
    assert [utc(time) for time in times] == [
        "2026-11-29T11:59:59",
        "2026-11-29T12:00:01",
        "2026-11-29T17:00:00",
        "2026-11-29T22:30:00",
        "2026-11-30T01:00:00",
    ]


def test_a_formatter_of_ones_own(tmp_path: Path) -> None:
    """A record on one line is read as well, where it names the logger."""
    text = (
        "2026-11-30 13:14:46.789 INFO [main] jdk.httpclient.HttpClient - "
        f"RESPONSE: (POST {URL}a?token=secret&x) 204 HTTP_3 Local port:  40752\n"
    )
    (only,) = written(tmp_path / "java.log", text).exchanges
    assert (only.method, only.url, only.status) == ("POST", f"{URL}a?token=…&…", 204)
    assert only.within_ns == 1_000_000


def test_what_is_the_logs_own() -> None:
    """Records, their headers and their stack traces are; what the program prints between them is not."""
    reader = JdkLog()
    own = [line for line in _lines("jdk26-stale-alt-svc.log") if reader.line(line)]
    assert own == _lines("jdk26-stale-alt-svc.log")
    reader = log(f"RESPONSE: (GET {URL}) 200 HTTP_2 Local port:  40752")
    for line in ("", "  indented", "\tat Probe.main(Probe.java:78)", "INFO: QUIC: mine", "x: REQUEST: y"):
        assert not reader.line(line)


def test_credentials_stay_out() -> None:
    """Neither user information nor the values of a query are told."""
    (only,) = told(log("RESPONSE: (GET https://me:pw@example.org/?token=x) 200 HTTP_2 Local port: 40752"))
    assert (only.origin, only.url) == ("https://example.org:443", "https://example.org/?token=…")


WORDS = st.sampled_from(
    [
        SOURCE,
        "INFO: ",
        "HTTP3: ",
        "QUIC: QuicClientConnection(1): ",
        "ERROR: ",
        "RESPONSE: (GET https://[::1]:4/) 200 HTTP_3 Local port: 99999",
        "HEADERS: H3 RESPONSE HEADERS (stream=0)",
        f"getConnectionFor exchange {URL} GET #1",
        f"Waiting for connection for: {URL} GET #2 no altSvc created for #1",
        f"Http3Connection.createAsync: Got HttpQuicConnection for {URL} GET #1 is: quic:1",
        f"Starting HTTP/3 exchange for QuicClientConnection(1)/streamId=0 ({URL} GET #1)",
        f"Completing pending waiter for: {URL} GET #2 with java.Exception: x",
        "connectionId: abcd, Q - /[0:0]:70000",
        "entering closing state, code 1 - ",
        "    alt-svc: h3",
        "    date: Mon, 99 Nov 99999 99:99:99 GMT",
        "started QUIC idle timeout Deadline(9999-99-99T99:99:99Z)",
        "99:99:99",
        "\u0660",
        "\n",
    ]
)


@given(st.lists(st.one_of(WORDS, st.text(max_size=20)), max_size=40).map("".join))
def test_any_lines_are_read(text: str) -> None:
    """Whatever stands in a log, nothing is raised, and what is told has a place in time and an origin."""
    reader = JdkLog()
    for line in text.split("\n"):
        reader.line(line)
    reader.finish()
    for each in reader.take():
        assert each.origin.startswith(("http://", "https://"))
        assert isinstance(each, ToldAsked) or each.local_port is None or 0 < each.local_port < 65536


def _lines(name: str) -> list[str]:
    return (RECORDINGS / name).read_text().splitlines()
