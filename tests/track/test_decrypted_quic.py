from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from aioquic.tls import CipherSuite
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from h3probe.events import Secrets, ToldExchange
from h3probe.lab.authority import Authority, create_authority
from h3probe.track.tracker import Tracker
from h3probe.wire import qpack
from h3probe.wire.qpack import check_section
from h3probe.wire.quic.packets import LongPacket, split_datagram
from h3probe.wire.quic.versions import V1, V2
from tests.track.builders import CLIENT, MS, SERVER, START
from tests.track.decrypted_builders import ALT_SVC, QuicPair, alt_svc, exchanges, told

if TYPE_CHECKING:
    from h3probe.events import Frame


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    """A certificate for the servers."""
    return create_authority(tmp_path_factory.mktemp("authority"))


@pytest.fixture(scope="module")
def recorded(authority: Authority) -> tuple[str, list[Frame]]:
    """Secrets and frames of a connection with five exchanges, whose fields refer to QPACK's dynamic table."""
    pair = QuicPair(authority)
    for number in range(5):
        pair.exchange(f"/{number}", with_alt_svc=number == 0)
    return pair.secrets.getvalue(), pair.frames()


ALL = [(f"/{number}", 200) for number in range(5)]


@pytest.mark.parametrize(
    "suite", [CipherSuite.AES_128_GCM_SHA256, CipherSuite.AES_256_GCM_SHA384, CipherSuite.CHACHA20_POLY1305_SHA256]
)
@pytest.mark.parametrize("version", [V1, V2])
def test_every_suite_and_version(authority: Authority, suite: CipherSuite, version: int) -> None:
    """Exchanges come out whatever the cipher suite and the version's labels are."""
    pair = QuicPair(authority, suites=[suite], version=version)
    pair.exchange("/a?token=secret&x", with_alt_svc=True)
    pair.exchange("/b", 404)
    events = told(pair.secrets.getvalue(), pair.frames())
    assert exchanges(events) == [("/a?token=…&…", 200), ("/b", 404)]
    assert alt_svc(events) == [(ALT_SVC.decode(),)]


def test_what_an_exchange_says(recorded: tuple[str, list[Frame]]) -> None:
    """Version, origin, both ends and both times are told; a cookie or a credential is nowhere."""
    events = told(*recorded)
    first = events[0]
    assert isinstance(first, ToldExchange)
    assert (first.known_from, first.version, first.method) == ("decrypted", "HTTP/3", "GET")
    assert (first.origin, first.client, first.server) == ("https://example.com:443", CLIENT, SERVER)
    assert (first.local_port, first.error) == (CLIENT.port, None)
    assert first.began_ns is not None
    assert START < first.began_ns < first.time_ns < START + len(recorded[1]) * MS
    assert exchanges(events) == ALL
    assert "do-not-look" not in repr(events)


def test_fields_in_the_dynamic_table(authority: Authority, monkeypatch: pytest.MonkeyPatch) -> None:
    """Later requests, which were compressed with the dynamic table, are read all the same."""
    references: list[int] = []

    def count(section: bytes) -> int:
        references.append(check_section(section))
        return references[-1]

    monkeypatch.setattr(qpack, "check_section", count)
    pair = QuicPair(authority)
    for number in range(4):
        pair.exchange(f"/{number}")
    assert exchanges(told(pair.secrets.getvalue(), pair.frames())) == [(f"/{n}", 200) for n in range(4)]
    assert len(references) == 8
    assert sum(1 for count in references if count) >= 4


def test_key_updates(authority: Authority) -> None:
    """Both sides may update their keys, again and again (RFC 9001, 6)."""
    pair = QuicPair(authority)
    for number in range(4):
        pair.exchange(f"/{number}")
        (pair.client if number % 2 else pair.server).request_key_update()
    assert exchanges(told(pair.secrets.getvalue(), pair.frames())) == [(f"/{n}", 200) for n in range(4)]


def test_many_at_once(authority: Authority) -> None:
    """Requests that wait side by side get their own responses, in whatever order these come."""
    pair = QuicPair(authority)
    pair.pump()
    streams = [pair.ask(f"/{number}") for number in range(30)]
    pair.pump()
    for number, stream in reversed(list(enumerate(streams))):
        pair.answer(stream, 200 + number)
    pair.pump(40)
    assert sorted(exchanges(told(pair.secrets.getvalue(), pair.frames()))) == sorted(
        (f"/{number}", 200 + number) for number in range(30)
    )


def test_bodies_are_passed_over(authority: Authority) -> None:
    """A body of half a megabyte, in either direction, hides no exchange after it and is kept nowhere."""
    pair = QuicPair(authority)
    stream = pair.ask("/upload", "POST", body=bytes(500_000))
    pair.pump(200)
    pair.answer(stream, body=bytes(500_000))
    pair.pump(200)
    pair.exchange("/after")
    assert exchanges(told(pair.secrets.getvalue(), pair.frames())) == [("/upload", 200), ("/after", 200)]


@pytest.mark.parametrize("accepted", [True, False])
def test_zero_rtt(authority: Authority, *, accepted: bool) -> None:
    """A request in 0-RTT packets is told once, whether the server takes them or has it sent again."""
    first = QuicPair(authority)
    first.exchange("/first")
    ticket = first.tickets[0]
    tickets = first.server_takes if accepted else {}
    pair = QuicPair(authority, ticket=ticket, server_takes=tickets)
    stream = pair.ask("/early")
    pair.pump()
    pair.answer(stream)
    pair.pump()
    packets = [packet for _, data in pair.packets for packet in split_datagram(data)]
    assert "zero-rtt" in [packet.kind for packet in packets if isinstance(packet, LongPacket)]
    assert exchanges(told(pair.secrets.getvalue(), pair.frames())) == [("/early", 200)]


@pytest.mark.parametrize("logged", [True, False])
def test_a_request_that_was_not_read_is_missed(authority: Authority, *, logged: bool) -> None:
    """A response without its request tells of one in 0-RTT packets, whose secret a client may not log, as Go's."""
    first = QuicPair(authority)
    first.exchange("/first")
    pair = QuicPair(authority, ticket=first.tickets[0], server_takes=first.server_takes)
    pair.exchange("/early")
    lines = pair.secrets.getvalue().splitlines(keepends=True)
    tracker = Tracker()
    tracker.add_secrets(Secrets("".join(line for line in lines if logged or "EARLY" not in line).encode()))
    for frame in pair.frames():
        tracker.feed(frame)
    tracker.finish()
    (connection,) = tracker.take().settled
    assert connection.missed is not logged


def test_without_its_secrets_a_connection_says_nothing(recorded: tuple[str, list[Frame]]) -> None:
    """Another session's secrets, or only some of them, give no events."""
    secrets, frames = recorded
    assert told("CLIENT_TRAFFIC_SECRET_0 " + "00" * 32 + " " + "11" * 32, frames) == []
    assert told("\n".join(line for line in secrets.splitlines() if "SERVER_TRAFFIC" not in line), frames) == []


def test_wrong_secrets_say_nothing(recorded: tuple[str, list[Frame]]) -> None:
    """Secrets that do not open the packets give no events."""
    lines = [line.split() for line in recorded[0].splitlines()]
    forged = "\n".join(f"{label} {random} {'ab' * (len(secret) // 2)}" for label, random, secret in lines)
    assert told(forged, recorded[1]) == []


def test_another_protocol_says_nothing(authority: Authority) -> None:
    """What is no HTTP/3 by its ALPN is not read as such."""
    pair = QuicPair(authority, alpn="hq-interop")
    pair.exchange()
    assert told(pair.secrets.getvalue(), pair.frames()) == []


def test_a_reset_stream(authority: Authority) -> None:
    """A request whose stream the server resets is told without a status, with the reason."""
    pair = QuicPair(authority)
    stream = pair.ask("/never")
    pair.pump()
    pair.server.reset_stream(stream, 0x10B)
    pair.pump()
    (event,) = told(pair.secrets.getvalue(), pair.frames())
    assert isinstance(event, ToldExchange)
    assert (event.status, event.error) == (None, "the server reset the stream: H3_REQUEST_REJECTED")


def test_a_closed_connection(authority: Authority) -> None:
    """A request that waits when the server closes the connection is told without a status, if nothing was missed."""
    pair = QuicPair(authority)
    pair.pump()
    pair.exchange("/first")
    pair.ask("/never")
    pair.pump()
    pair.server.close(error_code=0x102)
    pair.pump()
    # aioquic numbers the packets of all levels together: what looks like a gap may have been lost.
    assert exchanges(told(pair.secrets.getvalue(), pair.frames())) == [("/first", 200)]


def test_a_response_that_was_lost_is_not_denied(authority: Authority) -> None:
    """Where packets are missing from the capture, nothing is said of a request without a response."""
    pair = QuicPair(authority)
    stream = pair.ask("/lost")
    pair.pump()
    before = len(pair.packets)
    pair.answer(stream)
    pair.pump()
    after = len(pair.packets)
    pair.exchange("/next")
    frames = pair.frames()
    kept = [f for f in frames if not (before < f.number <= after and not pair.packets[f.number - 1][0])]
    assert ("/lost", None) not in exchanges(told(pair.secrets.getvalue(), kept))


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.data())
def test_lost_packets_make_nothing_wrong(recorded: tuple[str, list[Frame]], data: st.DataObject) -> None:
    """Whatever packets a capture lacks, and however it orders and repeats them: no exchange is wrong or told twice."""
    secrets, frames = recorded
    kept = data.draw(st.lists(st.sampled_from(frames), max_size=len(frames)))
    found = exchanges(told(secrets, kept))
    assert len(set(found)) == len(found)
    assert {path for path, _ in found} <= {path for path, _ in ALL}
    assert {status for _, status in found} <= {200, None}


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.data())
def test_one_lost_packet_costs_what_was_in_it(recorded: tuple[str, list[Frame]], data: st.DataObject) -> None:
    """Without one packet the exchanges that did not need it are still told, with their own status."""
    secrets, frames = recorded
    lost = data.draw(st.sampled_from(frames))
    found = exchanges(told(secrets, [frame for frame in frames if frame is not lost]))
    assert set(found) <= set(ALL) | {(path, None) for path, _ in ALL}
