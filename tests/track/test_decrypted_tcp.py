from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from h3probe.events import Endpoint, Secrets, ToldExchange
from h3probe.lab.authority import Authority, create_authority
from h3probe.track.tracker import Tracker
from h3probe.wire.packet import ACK, SYN
from h3probe.wire.tls_hello import HELLO_RETRY_REQUEST
from tests.track.builders import CLIENT, MS, SERVER, START, to_frame
from tests.track.decrypted_builders import ALT_SVC, Http2Pair, TlsPair, alt_svc, exchanges, told

if TYPE_CHECKING:
    from pathlib import Path

    from h3probe.wire.packet import TcpSegment

ALL = [(f"/{number}", 200) for number in range(5)]


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    """A certificate for the servers."""
    return create_authority(tmp_path_factory.mktemp("authority"))


@pytest.fixture(scope="module")
def recorded(authority: Authority, tmp_path_factory: pytest.TempPathFactory) -> tuple[bytes, list[TcpSegment]]:
    """Secrets and segments of a connection with five exchanges on HTTP/2."""
    tls = TlsPair(authority, tmp_path_factory.mktemp("keys"), largest=300)
    http = Http2Pair(tls)
    for number in range(5):
        http.exchange(f"/{number}", with_alt_svc=number == 0)
    tls.close()
    return tls.secrets, tls.segments


def found(secrets: bytes, segments: list[TcpSegment]) -> list[tuple[str, int | None]]:
    """The exchanges in segments."""
    return exchanges(told(secrets, map(to_frame, segments)))


@pytest.mark.parametrize(
    "ciphers", [None, "ECDHE+AESGCM+AES128", "ECDHE-ECDSA-AES256-GCM-SHA384", "ECDHE-ECDSA-CHACHA20-POLY1305"]
)
def test_every_suite(authority: Authority, tmp_path: Path, ciphers: str | None) -> None:
    """Exchanges come out of TLS 1.3, and of TLS 1.2 with each suite that HTTP/2 allows."""
    tls = TlsPair(authority, tmp_path, tls12=ciphers is not None, ciphers=ciphers)
    http = Http2Pair(tls)
    http.exchange("/a?token=secret&x", with_alt_svc=True)
    http.exchange("/b", 404)
    events = told(tls.secrets, tls.frames())
    assert exchanges(events) == [("/a?token=…&…", 200), ("/b", 404)]
    assert alt_svc(events) == [(ALT_SVC.decode(),)]
    assert "do-not-look" not in repr(events)


def test_what_an_exchange_says(recorded: tuple[bytes, list[TcpSegment]]) -> None:
    """Version, origin and both ends are told, and when the request and the response were whole."""
    events = told(recorded[0], map(to_frame, recorded[1]))
    first = events[0]
    assert isinstance(first, ToldExchange)
    assert (first.known_from, first.version, first.method) == ("decrypted", "HTTP/2", "GET")
    assert (first.origin, first.client, first.server) == ("https://example.com:443", CLIENT, SERVER)
    assert first.began_ns is not None
    assert first.began_ns < first.time_ns
    assert exchanges(events) == ALL


def test_http1_on_tls(authority: Authority, tmp_path: Path) -> None:
    """Without ALPN, HTTP/1.1 is read: pipelined requests, bodies of each kind, an interim response."""
    tls = TlsPair(authority, tmp_path, alpn=None)
    host = b"host: example.com\r\ncookie: do-not-look-at-this\r\n"
    tls.send(b"POST /1?a=b HTTP/1.1\r\n" + host + b"content-length: 5\r\n\r\nhello", from_client=True)
    tls.send(b"HEAD /2 HTTP/1.1\r\n" + host + b"\r\nGET /3 HTTP/1.1\r\n" + host + b"\r\n", from_client=True)
    tls.send(
        b"HTTP/1.1 103 Early Hints\r\n\r\nHTTP/1.1 201 Created\r\ntransfer-encoding: chunked\r\n\r\n", from_client=False
    )
    tls.send(
        b"5;x=y\r\nHTTP/\r\n0\r\ntrailer: x\r\n\r\nHTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\n", from_client=False
    )
    tls.send(b"HTTP/1.1 404 Not Found\r\nalt-svc: " + ALT_SVC + b"\r\n\r\nuntil the end", from_client=False)
    events = told(tls.secrets, tls.frames())
    assert exchanges(events) == [("/1?a=…", 201), ("/2", 200), ("/3", 404)]
    assert alt_svc(events) == [(ALT_SVC.decode(),)]
    assert {e.version for e in events if isinstance(e, ToldExchange)} == {"HTTP/1.1"}
    assert "do-not-look" not in repr(events)


def test_a_reset_stream_and_a_closed_connection(authority: Authority, tmp_path: Path) -> None:
    """Requests without a response are told as such, with the reason, once that is certain."""
    tls = TlsPair(authority, tmp_path)
    http = Http2Pair(tls)
    reset, _ = http.ask("/reset"), http.ask("/closed")
    http.server.reset_stream(reset, 7)
    http.pump()
    open_still = told(tls.secrets, tls.frames())
    tls.close()
    events = [event for event in told(tls.secrets, tls.frames()) if isinstance(event, ToldExchange)]
    assert [(e.url[-6:], e.status, e.error) for e in events] == [
        ("/reset", None, "the server reset the stream: REFUSED_STREAM"),
        ("closed", None, "the connection ended before the response came"),
    ]
    assert exchanges(open_still) == [("/reset", None)]


def test_a_hello_retry_request(authority: Authority, tmp_path: Path) -> None:
    """A handshake in which the server asks for another key share is followed as any other (RFC 8446, 4.1.4)."""
    tls = TlsPair(authority, tmp_path, group="secp521r1")
    assert HELLO_RETRY_REQUEST in b"".join(segment.payload for segment in tls.segments)
    Http2Pair(tls).exchange("/")
    assert exchanges(told(tls.secrets, tls.frames())) == [("/", 200)]


def test_a_tunnel_through_a_proxy(authority: Authority, tmp_path: Path) -> None:
    """TLS behind a CONNECT is read as any other, and once: the proxy's own connection says the same."""
    tls = TlsPair(authority, tmp_path)
    Http2Pair(tls).exchange("/inside")
    asked = b"CONNECT example.com:443 HTTP/1.1\r\nhost: example.com:443\r\n\r\n"
    answered = b"HTTP/1.1 200 OK\r\n\r\n"
    moved = []
    for segment in tls.segments:
        seq, ack = (len(asked), len(answered)) if segment.source == CLIENT else (len(answered), len(asked))
        moved.append(segment if segment.flags & SYN else replace(segment, seq=segment.seq + seq, ack=segment.ack + ack))
    tunnel = [
        replace(tls.segments[2], payload=asked, length=len(asked)),
        replace(tls.segments[1], flags=ACK, seq=tls.segments[1].seq + 1, payload=answered, length=len(answered)),
    ]
    begin = [*tls.segments[:3], *tunnel]
    assert found(tls.secrets, [*begin, *moved[3:]]) == [("/inside", 200)]
    # The proxy says the same on, on a connection of its own; what comes back comes there first.
    beyond = {CLIENT: Endpoint(SERVER.host, 50_099), SERVER: Endpoint(bytes((203, 0, 113, 1)), 443)}
    onward = [replace(s, source=beyond[s.source], destination=beyond[s.destination]) for s in tls.segments]
    begin += onward[:3]
    for inside, outside in zip(moved[3:], onward[3:], strict=True):
        begin += [inside, outside] if inside.source == CLIENT else [outside, inside]
    numbered = [replace(s, frame=n, time_ns=START + n * MS) for n, s in enumerate(begin, 1)]
    assert found(tls.secrets, numbered) == [("/inside", 200)]


def test_sequence_numbers_that_wrap(recorded: tuple[bytes, list[TcpSegment]]) -> None:
    """A connection whose sequence numbers go past 2**32 is read as any other (RFC 9293, 3.4)."""
    secrets, segments = recorded
    wrapped = [
        replace(s, seq=(s.seq - 2000) & 0xFFFF_FFFF, ack=(s.ack - 2000) & 0xFFFF_FFFF if s.ack else 0) for s in segments
    ]
    assert found(secrets, wrapped) == ALL


def test_pieces_in_any_order(recorded: tuple[bytes, list[TcpSegment]]) -> None:
    """Segments that were captured twice, or after the ones behind them, change nothing."""
    secrets, segments = recorded
    mixed = segments[:3]
    for at in range(3, len(segments), 2):
        mixed += [*reversed(segments[at : at + 2]), segments[at]]
    assert sorted(found(secrets, mixed)) == ALL


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.data())
def test_lost_segments_make_nothing_wrong(recorded: tuple[bytes, list[TcpSegment]], data: st.DataObject) -> None:
    """Without one segment the exchanges before it are told, and nothing that was compressed after it."""
    secrets, segments = recorded
    lost = data.draw(st.integers(0, len(segments) - 1))
    result = found(secrets, segments[:lost] + segments[lost + 1 :])
    assert [each for each in result if each[1] is not None] == ALL[: len([r for r in result if r[1] is not None])]
    assert len({path for path, _ in result}) == len(result)
    assert all(status == 200 for _, status in result)


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.data())
def test_a_cut_capture_makes_nothing_wrong(recorded: tuple[bytes, list[TcpSegment]], data: st.DataObject) -> None:
    """A snaplen, or any bytes that are others than were sent, never make a wrong exchange."""
    secrets, segments = recorded
    at = data.draw(st.integers(3, len(segments) - 3))
    damaged = segments[at].payload[: data.draw(st.integers(0, 300))]
    if data.draw(st.booleans()):
        damaged = bytes(len(segments[at].payload))
    result = found(secrets, [*segments[:at], replace(segments[at], payload=damaged), *segments[at + 1 :]])
    assert {path for path, _ in result} <= {path for path, _ in ALL}
    assert {status for _, status in result} <= {200}


def test_a_renegotiation_or_other_bytes_end_it(authority: Authority, tmp_path: Path) -> None:
    """What is no HTTP/2 behind the ALPN `h2` says nothing, and harms nothing."""
    tls = TlsPair(authority, tmp_path)
    tls.send(b"SSH-2.0-whatever\r\n" * 10, from_client=True)
    assert told(tls.secrets, tls.frames()) == []


def laid_open(tls: TlsPair, segments: list[TcpSegment]) -> bool:
    """Whether all that a connection carried is known at its end."""
    tracker = Tracker()
    tracker.add_secrets(Secrets(tls.secrets))
    for segment in segments:
        tracker.feed(to_frame(segment))
    opened = tracker.take().opened
    tracker.finish()
    return [c.laid_open for c in opened if c.transport == "tcp"] == [True]


def test_a_connection_of_which_every_byte_was_read(authority: Authority, tmp_path: Path) -> None:
    """Settings alone, or requests that were answered, leave nothing open; a missing byte, or no answer yet, does."""
    tls = TlsPair(authority, tmp_path)
    http = Http2Pair(tls)
    http.pump()
    assert laid_open(tls, tls.segments)
    asking = len(tls.segments)
    asked = http.ask()
    assert not laid_open(tls, tls.segments)
    http.answer(asked)
    http.exchange("/next")
    assert laid_open(tls, tls.segments)
    assert not laid_open(tls, [*tls.segments[:asking], *tls.segments[asking + 1 :]])
