from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from h3probe.events import ToldAltSvc, ToldExchange
from h3probe.track.decrypted_exchanges import CLOSED, PENDING_LIMIT, Exchanges
from h3probe.track.mark import Mark
from h3probe.track.quic import QuicConnection
from h3probe.wire.http_fields import Request, Response
from tests.track.builders import CLIENT, CLIENT_ID, SERVER

if TYPE_CHECKING:
    from h3probe.events import Told


@pytest.fixture
def told() -> list[Told]:
    """What comes out."""
    return []


@pytest.fixture
def exchanges(told: list[Told]) -> Exchanges:
    """The exchanges of one QUIC connection."""
    mark = Mark(1, 0)
    connection = QuicConnection("quic-1", CLIENT, SERVER, 1, first=mark, last=mark, client_scid=CLIENT_ID)
    return Exchanges(connection, "HTTP/3", told.append)


def ask(stream: int, method: str = "GET") -> Request:
    """A request."""
    return Request(stream, method, "https", "example.com", f"/{stream}")


def test_an_exchange_and_its_offer(exchanges: Exchanges, told: list[Told]) -> None:
    """An exchange has all that is known of it; the Alt-Svc lines of its response follow."""
    exchanges.request(ask(0), 10)
    exchanges.response(Response(0, 200, ('h3=":443"',)), 20)
    assert told == [
        ToldExchange(
            time_ns=20,
            known_from="decrypted",
            origin="https://example.com:443",
            method="GET",
            url="https://example.com:443/0",
            version="HTTP/3",
            status=200,
            local_port=CLIENT.port,
            client=CLIENT,
            server=SERVER,
            began_ns=10,
            scid=CLIENT_ID,
        ),
        ToldAltSvc(20, "decrypted", "https://example.com:443", ('h3=":443"',), CLIENT.port, CLIENT, SERVER),
    ]


def test_interim_responses_are_none(exchanges: Exchanges, told: list[Told]) -> None:
    """The final response is the one that counts (RFC 9110, 15.2)."""
    exchanges.request(ask(0), 10)
    exchanges.response(Response(0, 103, ('h3=":443"',)), 15)
    assert told == []
    exchanges.response(Response(0, 404), 20)
    assert [event.status for event in told if isinstance(event, ToldExchange)] == [404]


def test_a_response_ahead_of_its_request(exchanges: Exchanges, told: list[Told]) -> None:
    """A capture may have the two directions out of order."""
    exchanges.response(Response(4, 200), 20)
    exchanges.request(ask(4), 21)
    assert [(event.time_ns, event.status) for event in told if isinstance(event, ToldExchange)] == [(20, 200)]


def test_a_tunnel_is_no_exchange(exchanges: Exchanges, told: list[Told]) -> None:
    """CONNECT asks for a tunnel: neither its answer nor its end is told."""
    for stream in (0, 4):
        exchanges.request(ask(stream, "CONNECT"), 10)
    exchanges.response(Response(0, 200, ("clear",)), 20)
    exchanges.ended(30)
    assert told == []


def test_failures(exchanges: Exchanges, told: list[Told]) -> None:
    """A request that gets no response is told once, with the reason; one that had its response is not told again."""
    for stream in (0, 4, 8):
        exchanges.request(ask(stream), 10)
    exchanges.response(Response(0, 200), 20)
    exchanges.failed(0, 21, "reset")
    exchanges.failed(4, 22, "reset")
    exchanges.ended(30)
    exchanges.ended(31)
    found = [(e.url[-1], e.status, e.error) for e in told if isinstance(e, ToldExchange)]
    assert found == [("0", 200, None), ("4", None, "reset"), ("8", None, CLOSED)]


def test_what_waits_is_bounded(exchanges: Exchanges, told: list[Told]) -> None:
    """Requests that nobody answers, and responses that nobody asked for, fill no memory."""
    for stream in range(2 * PENDING_LIMIT):
        exchanges.request(ask(stream), 10)
        exchanges.response(Response(stream + 10**6, 200), 10)
    exchanges.ended(30)
    assert len(told) == PENDING_LIMIT
