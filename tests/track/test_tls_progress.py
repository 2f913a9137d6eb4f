from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from h3probe.track.mark import Mark
from h3probe.track.tls_progress import TlsProgress, TlsState
from tests.track.builders import (
    CHANGE_CIPHER,
    TLS13_FINISHED,
    TLS13_SERVER_FLIGHT,
    alert,
    client_hello,
    handshake,
    protected,
    server_hello,
)
from tests.wire import hello_builder
from tests.wire.hello_builder import message, record

HELLO = handshake(client_hello(protocols=(b"h2", b"http/1.1")))
SERVER_12 = handshake(server_hello(tls12=True, alpn=b"h2") + message(11, b"\x00\x00\x00") + message(14, b""))
CLIENT_12 = handshake(message(16, b"\x20" + bytes(32))) + CHANGE_CIPHER + protected(40, 22)
FINISHED_12 = CHANGE_CIPHER + protected(40, 22)
END_OF_EARLY_DATA = protected(4 + 1 + 16)  # RFC 8446, 4.5: a message of 4 bytes, its type and a tag.


class Talk:
    """One handshake, fed as two streams that grow."""

    def __init__(self) -> None:
        self.tls = TlsProgress()
        self.streams = {True: b"", False: b""}
        self.frame = 0

    def say(self, *, client: bytes = b"", server: bytes = b"") -> Talk:
        """More bytes of one side; frames are numbered from 1."""
        self.frame += 1
        from_client = bool(client)
        self.streams[from_client] += client or server
        self.tls.feed(self.streams[from_client], Mark(self.frame, self.frame), from_client=from_client)
        return self


def test_tls13_is_ready_with_the_clients_finished() -> None:
    """TLS 1.3: ready is the first protected record of the client after the server's flight, not ChangeCipherSpec."""
    talk = Talk().say(client=HELLO).say(server=TLS13_SERVER_FLIGHT)
    assert talk.tls.ready is None
    talk.say(client=CHANGE_CIPHER)
    assert (talk.tls.state, talk.tls.ready) == (TlsState.ANSWERED, None)
    talk.say(client=protected(53))
    assert (talk.tls.state, talk.tls.ready) == (TlsState.READY, Mark(4, 4))
    assert talk.tls.hello is not None
    assert (talk.tls.hello.sni, talk.tls.hello_mark, (talk.tls.ja4 or "")[:4]) == ("example.com", Mark(1, 1), "t13d")


def test_tls13_encrypted_alert_is_a_failure() -> None:
    """A client that answers the server's flight with a record as short as an alert did not accept it."""
    talk = Talk().say(client=HELLO).say(server=TLS13_SERVER_FLIGHT).say(client=CHANGE_CIPHER + protected(19))
    assert (talk.tls.state, talk.tls.ready, talk.tls.alert) == (TlsState.FAILED, None, ("client", None))
    assert talk.tls.alert_mark == Mark(3, 3)


def test_hello_retry_request() -> None:
    """After a HelloRetryRequest the second ClientHello continues the same handshake; the first is reported."""
    talk = Talk().say(client=HELLO).say(server=handshake(server_hello(retry=True)) + CHANGE_CIPHER)
    assert talk.tls.server_hello is None
    talk.say(client=CHANGE_CIPHER + handshake(client_hello(b"second.example")))
    assert (talk.tls.state, talk.tls.ready) == (TlsState.HELLO, None)
    talk.say(server=TLS13_SERVER_FLIGHT).say(client=TLS13_FINISHED)
    assert talk.tls.ready == Mark(5, 5)
    assert talk.tls.hello is not None
    assert talk.tls.hello.sni == "example.com"


def test_tls12_is_ready_with_the_servers_finished() -> None:
    """TLS 1.2: ready is the server's Finished after its ChangeCipherSpec, and the ALPN chosen is in the clear."""
    talk = Talk().say(client=HELLO).say(server=SERVER_12).say(client=CLIENT_12)
    assert talk.tls.ready is None
    talk.say(server=CHANGE_CIPHER)
    assert talk.tls.ready is None
    talk.say(server=protected(40, 22))
    assert talk.tls.ready == Mark(5, 5)
    assert talk.tls.server_hello is not None
    assert talk.tls.server_hello.alpn == "h2"


def test_what_is_asked_before_the_connection_is_ready() -> None:
    """A request in one segment with the client's Finished, or ahead of the server's (RFC 7918), is one."""
    talk = Talk().say(client=HELLO).say(server=TLS13_SERVER_FLIGHT).say(client=TLS13_FINISHED + protected(200))
    assert (talk.tls.ready, talk.tls.ahead) == (Mark(3, 3), len(protected(200)))
    talk = Talk().say(client=HELLO).say(server=SERVER_12).say(client=CLIENT_12).say(client=protected(200))
    assert talk.tls.ready is None
    talk.say(server=FINISHED_12)
    assert (talk.tls.ready, talk.tls.ahead) == (Mark(5, 5), 200)
    talk = Talk().say(client=HELLO).say(server=SERVER_12).say(client=CLIENT_12).say(server=FINISHED_12)
    assert talk.tls.ahead == 0


def test_tls12_resumption() -> None:
    """TLS 1.2 with a resumed session: the server finishes first, right after its ServerHello."""
    talk = Talk().say(client=HELLO).say(server=handshake(server_hello(tls12=True)) + FINISHED_12)
    assert talk.tls.ready == Mark(2, 2)


def test_early_data_is_not_the_finished() -> None:
    """0-RTT data before the server's flight says nothing of when the handshake ends."""
    talk = Talk().say(client=handshake(client_hello(early=True)) + protected(300)).say(server=TLS13_SERVER_FLIGHT)
    assert (talk.tls.state, talk.tls.ready) == (TlsState.ANSWERED, None)


def test_end_of_early_data_is_no_alert() -> None:
    """After 0-RTT data the client sends EndOfEarlyData, hardly longer than an alert, and then its Finished."""
    talk = Talk().say(client=handshake(client_hello(early=True)) + protected(300)).say(server=TLS13_SERVER_FLIGHT)
    talk.say(client=END_OF_EARLY_DATA)
    assert (talk.tls.state, talk.tls.alert) == (TlsState.ANSWERED, None)
    talk.say(client=protected(53))
    assert talk.tls.ready == Mark(4, 4)


@pytest.mark.parametrize("side", ["client", "server"])
@pytest.mark.parametrize("answered", [False, True])
def test_fatal_alert_in_the_clear(side: str, *, answered: bool) -> None:
    """A fatal alert ends the handshake, with its code and sender, before and after the ServerHello."""
    talk = Talk().say(client=HELLO)
    if answered:
        talk.say(server=SERVER_12)
    talk.say(**{side: alert(48)})
    assert (talk.tls.state, talk.tls.alert) == (TlsState.FAILED, (side, 48))


def test_warning_alert_changes_nothing() -> None:
    """A warning (unrecognized_name before a ServerHello) lets the handshake go on."""
    talk = Talk().say(client=HELLO).say(server=alert(112, level=1) + SERVER_12)
    talk.say(client=CLIENT_12).say(server=FINISHED_12)
    assert (talk.tls.state, talk.tls.alert) == (TlsState.READY, None)


def test_encrypted_alert_of_tls12() -> None:
    """An alert after ChangeCipherSpec cannot be read: the handshake failed and the code is not guessed."""
    talk = Talk().say(client=HELLO).say(server=SERVER_12).say(client=CLIENT_12).say(server=CHANGE_CIPHER)
    talk.say(server=protected(26, 21))
    assert (talk.tls.state, talk.tls.alert) == (TlsState.FAILED, ("server", None))


@pytest.mark.parametrize("side", ["client", "server"])
def test_an_encrypted_alert_after_an_answer_that_was_not_seen(side: str) -> None:
    """Without the ServerHello nobody knows what an encrypted alert ended: a close_notify is one, too."""
    talk = Talk().say(client=HELLO).say(**{side: protected(26, 21)})
    assert (talk.tls.state, talk.tls.alert) == (TlsState.HELLO, None)


def test_nothing_after_ready_counts() -> None:
    """An alert on a connection that was ready, its close_notify, is no failure of the handshake."""
    talk = Talk().say(client=HELLO).say(server=TLS13_SERVER_FLIGHT).say(client=TLS13_FINISHED)
    talk.say(client=alert(0)).say(server=protected(19))
    assert (talk.tls.state, talk.tls.alert, talk.tls.ready) == (TlsState.READY, None, Mark(3, 3))


def test_messages_over_several_records() -> None:
    """A ClientHello cut into records of a few bytes is put together (RFC 8446, 5.1)."""
    hello = client_hello()
    talk = Talk()
    for start in range(0, len(hello), 7):
        talk.say(client=handshake(hello[start : start + 7]))
    assert talk.tls.hello is not None


def test_an_answer_seen_before_the_whole_hello() -> None:
    """A capture that shows the server's flight before the last piece of the ClientHello loses nothing by it."""
    talk = Talk().say(client=HELLO[:80]).say(server=TLS13_SERVER_FLIGHT).say(client=HELLO[80:])
    talk.say(server=protected(100)).say(client=TLS13_FINISHED)
    assert talk.tls.ready == Mark(5, 5)


@pytest.mark.parametrize(
    "server", [b"HTTP/1.1 400 Bad Request\r\n\r\n", bytes(40), handshake(message(2, b"\x03\x03short"))]
)
def test_an_answer_that_is_no_tls(server: bytes) -> None:
    """A server that does not speak TLS fails the handshake, without an alert."""
    talk = Talk().say(client=HELLO).say(server=server)
    assert (talk.tls.state, talk.tls.alert, talk.tls.is_over()) == (TlsState.FAILED, None, True)


CLIENT_TURNS = [HELLO, TLS13_FINISHED, CLIENT_12, alert(0), protected(19), record(24, b"beat")]
SERVER_TURNS = [TLS13_SERVER_FLIGHT, SERVER_12, FINISHED_12, handshake(server_hello(retry=True)), alert(40)]


TURNS = st.one_of(
    st.tuples(st.just(True), st.sampled_from(CLIENT_TURNS) | st.binary(max_size=40)),
    st.tuples(st.just(False), st.sampled_from(SERVER_TURNS) | st.binary(max_size=40)),
)


@given(st.lists(TURNS))
def test_any_turns_end_in_a_known_state(turns: list[tuple[bool, bytes]]) -> None:
    """Whatever both say, nothing is raised, `ready` goes with READY, and an alert only with FAILED."""
    talk = Talk()
    for from_client, data in turns:
        talk.say(**{"client" if from_client else "server": data or b"\x16"})
    assert (talk.tls.ready is not None) == (talk.tls.state is TlsState.READY)
    assert talk.tls.alert is None or talk.tls.state is TlsState.FAILED


@given(st.data())
def test_cuts_do_not_matter(data: st.DataObject) -> None:
    """However TCP cut the two streams, the handshake is the same."""
    talk = Talk()
    for client, server in ((HELLO, b""), (b"", SERVER_12), (CLIENT_12, b""), (b"", FINISHED_12)):
        side, whole = ("client", client) if client else ("server", server)
        cuts = sorted(data.draw(st.sets(st.integers(1, len(whole) - 1), max_size=6)))
        for start, end in zip([0, *cuts], [*cuts, len(whole)], strict=True):
            talk.say(**{side: whole[start:end]})
    assert talk.tls.ready == Mark(talk.frame, talk.frame)


@pytest.mark.parametrize("version", [0x0304, 0x7F0E, 0x7F1C, 0xFB1A])
def test_drafts_of_tls_13_are_tls_13(version: int) -> None:
    """A server that chose a draft is ready as one that chose the RFC's, without any ChangeCipherSpec."""
    hello = record(22, message(1, hello_builder.client_hello([hello_builder.supported_versions(version)])))
    answer = record(22, message(2, hello_builder.server_hello([(43, version.to_bytes(2))]))) + record(23, bytes(900))
    progress = TlsProgress()
    progress.feed(hello, Mark(1, 1), from_client=True)
    progress.feed(answer, Mark(2, 2), from_client=False)
    progress.feed(hello + record(23, bytes(53)), Mark(3, 3), from_client=True)
    assert progress.state is TlsState.READY
    assert progress.ready == Mark(3, 3)
