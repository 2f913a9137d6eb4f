from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from h3probe.vantage.clientlog.curl import CurlLog
from tests.vantage.clientlog.reading import RECORDINGS, recording, utc, written

if TYPE_CHECKING:
    from pathlib import Path

URL = "https://localhost:4433/"


def test_with_times_and_numbers() -> None:
    """The exchange has its version, both its ends, and what it took."""
    reading = recording("curl-http3.log")
    (only,) = reading.exchanges
    assert (only.origin, only.method, only.url) == ("https://localhost:4433", "GET", URL)
    assert (only.version, only.status) == ("HTTP/3", 200)
    assert (str(only.client), str(only.server)) == ("[::1]:33267", "[::1]:4433")
    assert utc(only.time_ns) == "2026-11-30T13:15:04"
    assert only.began_ns is not None
    assert (only.time_ns - only.began_ns, only.within_ns) == (4_176_000, 1_000)
    (alt_svc,) = reading.alt_svc
    assert (alt_svc.lines, alt_svc.client) == (('h3=":4433"; ma=3600',), only.client)


@pytest.mark.parametrize(
    ("name", "version", "url"),
    [("curl-http3-plain.log", "HTTP/3", URL), ("curl-http1-plain.log", "HTTP/1.1", "https://localhost:4438/")],
)
def test_without_them(name: str, version: str, url: str) -> None:
    """The response's date is near enough for the time, and what it took is not told."""
    (only,) = recording(name).exchanges
    assert (only.version, only.url, only.began_ns) == (version, url, None)
    assert only.client is not None
    assert utc(only.time_ns).startswith("2026-11-30T13:15:0")


def test_transfers_side_by_side() -> None:
    """Their numbers keep them apart, and say that they share a connection."""
    reading = recording("curl-http2-parallel.log")
    assert reading.rows == [("GET", f"{URL}{name}", "HTTP/2", 200, 36882) for name in "abc"]


def test_side_by_side_without_numbers_is_not_told(tmp_path: Path) -> None:
    """Whose response a line is of cannot be told then; a request after them can be told again."""
    text = (
        "* Established connection to localhost (::1 port 4433) from ::1 port 39540 \n"
        "> GET /a HTTP/2\n> Host: localhost:4433\n> \n"
        "> GET /b HTTP/2\n> Host: localhost:4433\n> \n"
        "< HTTP/2 200 \n< \n"
        "< HTTP/2 404 \n< \n"
        "> GET /c HTTP/2\n> Host: localhost:4433\n> \n"
        "< HTTP/2 200 \n< date: Mon, 30 Nov 2026 13:15:04 GMT\n< \n"
    )
    assert [row[1] for row in written(tmp_path / "curl.log", text).rows] == ["http://localhost:4433/c"]


def test_through_a_proxy() -> None:
    """CONNECT is no request; the server of the connection is the proxy."""
    (only,) = recording("curl-proxy.log").exchanges
    assert (only.method, only.url, str(only.server)) == ("GET", URL, "127.0.0.1:8888")


def test_the_connection_that_won() -> None:
    """After QUIC had no answer the response came over HTTP/2, from the port of the TCP connection."""
    assert recording("curl-http3-udp-dropped.log").rows == [("GET", URL, "HTTP/2", 200, 36874)]


def test_a_failure_before_any_request() -> None:
    """The error is told, and what is not known is left open: nobody knows a method yet."""
    (only,) = recording("curl-http3-only-udp-dropped.log").exchanges
    assert (only.origin, only.method, only.url, only.status) == ("https://localhost:4433", "", "", None)
    assert only.error == "Connection timed out after 3001 milliseconds"


def test_a_response_before_the_last_is_passed_over(tmp_path: Path) -> None:
    """103 is not the answer."""
    text = (
        "13:15:04.000000 [0-0] * Established connection to h (::1 port 80) from ::1 port 39540 \n"
        "13:15:04.100000 [0-0] > GET http://h/?q=1 HTTP/1.1\n13:15:04.100000 [0-0] > \n"
        "13:15:04.200000 [0-0] < HTTP/1.1 103 Early Hints\n13:15:04.200000 [0-0] < \n"
        "13:15:04.300000 [0-0] < HTTP/1.1 200 OK\n13:15:04.300000 [0-0] < \n"
    )
    (only,) = written(tmp_path / "curl.log", text, at="2026-11-30T12:15:05").exchanges
    assert (only.origin, only.url, only.status) == ("http://h:80", "http://h/?q=…", 200)
    assert utc(only.time_ns) == "2026-11-30T12:15:04"


def test_what_is_the_logs_own() -> None:
    """All lines of a log are, but for the one with curl's last words."""
    reader = CurlLog()
    lines = (RECORDINGS / "curl-http3-only-udp-dropped.log").read_text().splitlines()
    assert [line for line in lines if not reader.line(line)] == [
        "curl: (28) Connection timed out after 3001 milliseconds"
    ]


LINES = st.sampled_from(
    [
        "* Established connection to h (::1 port 443) from ::1 port 5",
        "* Connected to h (999.1.1.1) port 99999 (#0)",
        "* Re-using existing connection",
        "* [HTTP/3] [0] OPENED stream for https://[",
        "* SSL Trust Anchors:",
        "* Host h:1 was resolved.",
        "> GET / HTTP/2",
        "> CONNECT h:443 HTTP/1.1",
        "> Host: ",
        "< HTTP/2 200 ",
        "< HTTP/9.9 999 ",
        "< alt-svc: h3",
        "< date: x",
        "< date: Mon, 30 Nov 2026 13:15:04 GMT",
        "< ",
        "curl: (7) x",
    ]
)
PREFIXES = st.sampled_from(["", "13:15:04.100000 ", "99:99:99.999999 [x-0] ", "13:15:04.100000 [1-2] ", "[0-x] "])


@given(st.lists(st.one_of(st.tuples(PREFIXES, LINES).map("".join), st.text(max_size=30)), max_size=40))
def test_any_lines_are_read(lines: list[str]) -> None:
    """Whatever stands in a log, nothing is raised, and what is told has an origin."""
    reader = CurlLog()
    for line in lines:
        reader.line(line)
    reader.finish()
    for each in reader.take():
        assert each.origin.startswith(("http://", "https://"))


EARLY = """\
13:15:04.951398 [{n}-0] * Reusing existing https: connection with host localhost
13:15:04.951400 [{n}-0] * [HTTP/3] [8] OPENED stream for https://localhost:4433/{n}
13:15:04.951609 [{n}-0] < HTTP/3 200
13:15:04.951622 [{n}-0] < alt-svc: h3=":4433"; ma=3600
13:15:04.951632 [{n}-0] <
13:15:04.951683 [{n}-0] > GET /{n} HTTP/3
13:15:04.951683 [{n}-0] > Host: localhost:4433
13:15:04.951683 [{n}-0] >
"""


def test_a_response_that_is_printed_before_its_request(tmp_path: Path) -> None:
    """Where both passed in one turn of curl's loop, the response stands first, and is told as any other."""
    opened = "13:15:04.9 [0-0] * Established connection to localhost (::1 port 4433) from ::1 port 39540\n"
    reading = written(
        tmp_path / "curl.log", opened.replace("04.9", "04.900000") + EARLY.format(n=0) + EARLY.format(n=1)
    )
    assert reading.rows == [("GET", f"{URL}{n}", "HTTP/3", 200, 39540) for n in (0, 1)]
    assert len(reading.alt_svc) == 2
    assert [e.time_ns - (e.began_ns or 0) for e in reading.exchanges] == [234_000, 234_000]


def test_a_log_that_begins_within_a_response(tmp_path: Path) -> None:
    """A response whose request was not seen is not given to the next request of its transfer."""
    head = "13:15:04.951609 [0-0] < HTTP/1.1 401 Unauthorized\n13:15:04.951632 [0-0] <\n"
    again = "".join(f"13:15:04.951683 [0-0] > {line}\n" for line in ("GET / HTTP/1.1", "Host: localhost:4433", ""))
    answer = "13:15:04.961609 [0-0] < HTTP/1.1 200 OK\n13:15:04.961632 [0-0] <\n"
    reading = written(
        tmp_path / "curl.log", "13:15:04.951600 [0-0] * SSL connection using TLSv1.3\n" + head + again + answer
    )
    assert [row[3] for row in reading.rows] == [200]
