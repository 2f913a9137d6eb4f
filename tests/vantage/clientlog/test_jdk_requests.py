from __future__ import annotations

import pytest

from h3probe.events import ToldAsked
from h3probe.vantage.clientlog.jdk_requests import LIMIT, SETTLED_NS, JdkRequests
from h3probe.vantage.clientlog.wallclock import WallClock
from tests.vantage.clientlog.jdk_builder import SOURCE, STALE, URL, log, told
from tests.vantage.clientlog.reading import recording


def test_a_request_that_failed_with_the_attempt_it_had_joined() -> None:
    """Request 2 failed and names the pending attempt of request 1; request 3 took 30 s and went over TCP."""
    reading = recording("jdk26-stale-alt-svc.log")
    first, second, third = reading.exchanges
    assert (first.version, first.status) == ("HTTP/2", 200)
    assert (second.version, second.status, second.local_port) == (None, None, 43116)
    assert second.error == "java.net.http.HttpConnectTimeoutException: quic handshake timeout"
    assert second.scid == bytes.fromhex("8b6c865614a7d2fc0753c16080ec2e19e461ac22")
    assert (third.version, third.status, third.local_port) == ("HTTP/2", 200, 56184)
    assert third.began_ns is not None
    assert third.time_ns - third.began_ns == 30_000_000_000


def test_a_request_that_waited_out_two_timeouts() -> None:
    """It failed with its second attempt, and the reason is that connection's."""
    (only,) = recording("jdk26-uri-only-dropped.log").exchanges
    assert (only.status, only.error) == (None, "No response from peer for 3 seconds")
    assert only.began_ns is not None
    assert only.time_ns - only.began_ns == 6_000_000_000


@pytest.mark.parametrize("answered", [1, 2])
def test_which_of_two_alike_was_answered_is_not_guessed(answered: int) -> None:
    """Of two requests that look the same the beginning is not told, as long as either may be meant."""
    asks = [f"HTTP3: getConnectionFor exchange {URL} GET #{number}" for number in (1, 2)]
    reader = log(asks[0], at=1)
    for message in [asks[1], *[f"RESPONSE: (GET {URL}) 200 HTTP_2 Local port: 40752"] * answered]:
        reader.line(SOURCE, 2)
        reader.line(f"INFO: {message}", 2)
    began = [e.began_ns for e in told(reader)]
    assert began == [None, 2][:answered]


def test_what_gave_quic_up_may_still_be_answered() -> None:
    """It is told of as failed only when the log has ended, or nothing has been said of it for long."""
    gives_up = (
        "HTTP3: No HTTP/3 connection created for requests to https:localhost:4433, will fail or downgrade: "
        f"waiters[0](completed:0, retried:0, errors:0) - originally created for {URL} GET #1"
    )
    messages = (f"HTTP3: getConnectionFor exchange {URL} GET #1", gives_up)
    reader = log(*messages, f"RESPONSE: (GET {URL}) 200 HTTP_2 Local port: 40752")
    reader.finish()
    assert [e.status for e in told(reader)] == [200]
    reader = log(*messages)
    assert told(reader) == []
    reader.line(SOURCE, 2 * SETTLED_NS)
    reader.line("INFO: QUIC: whatever", 2 * SETTLED_NS)
    assert [e.status for e in told(reader)] == [None]
    reader.finish(2 * SETTLED_NS)
    assert told(reader) == []


def test_memory_is_bounded() -> None:
    """Requests that never end are forgotten, the oldest first."""
    requests = JdkRequests(WallClock(12))
    for number in range(2 * LIMIT):
        requests.record("HTTP3", f"getConnectionFor exchange {URL}{number} GET #{number}")
    assert len(requests._requests) == LIMIT


ASKS = f"HTTP3: getConnectionFor exchange {URL} GET #1"
UNSUPPORTED = "java.net.http.UnsupportedProtocolVersionException: can't use HTTP/3 with proxied or unsecured connection"


def test_a_request_that_its_client_refused() -> None:
    """No line of the log says so: the exception that the program prints is taken for the one request it can be."""
    reader = log(ASKS)
    assert not reader.line(f'Exception in thread "main" {UNSUPPORTED}', 1)
    reader.finish(2)
    (only,) = told(reader)
    assert (only.origin, only.status, only.version, only.error) == ("https://localhost:4433", None, None, UNSUPPORTED)


def test_an_exception_that_may_be_any_requests_is_nobodys() -> None:
    """With two requests under way it is not known which one was refused."""
    reader = log(ASKS, f"HTTP3: getConnectionFor exchange {STALE} GET #2")
    reader.line(UNSUPPORTED, 1)
    reader.finish(2)
    assert {type(each) for each in reader.take()} == {ToldAsked}


@pytest.mark.parametrize(
    "further",
    [
        f"HTTP3: Creating connection for Exchange {URL} GET #1",
        f"HTTP3: Http3Connection.createAsync: Got HttpQuicConnection for {URL} GET #1 is: quic:1",
        f"RESPONSE: (GET {URL}) 200 HTTP_2 Local port:  40752",
    ],
)
def test_a_request_that_got_further_was_tried(further: str) -> None:
    """Only one of which nothing more is told was perhaps not even tried, and only at the log's end."""
    reader = log(ASKS)
    assert reader.take() == []
    reader.finish(0)
    assert [type(each) for each in reader.take()] == [ToldAsked]
    reader = log(ASKS, further)
    reader.finish(0)
    assert not any(isinstance(each, ToldAsked) for each in reader.take())
