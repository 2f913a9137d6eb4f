from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from h3probe.diagnose.words import close_text, cut, http_over_tcp, initials, is_dns, is_h3, timer_of
from h3probe.track.mark import Mark
from h3probe.wire.quic.frames import ConnectionClose, parse_frames
from tests.diagnose.scenario import JDK, Network
from tests.wire import quic_builder

if TYPE_CHECKING:
    from h3probe.track.quic import QuicConnection
    from h3probe.track.tcp import TcpConnection


def attempt(network: Network) -> QuicConnection:
    """The only QUIC connection of a network's only story."""
    (story,) = network.explain().stories
    (quic,) = story.quic
    return quic


def over_tcp(network: Network) -> TcpConnection:
    """The only TCP connection of a network's only story."""
    (story,) = network.explain().stories
    (tcp,) = story.tcp
    return tcp


def test_initials_are_counted_with_their_time() -> None:
    """One has no span; several have."""
    one, several = Network(), Network()
    one.quic().initials(0.0)
    several.quic().initials(0.0, 1.0, 3.0)
    assert initials(attempt(one)) == "1 Initial"
    assert initials(attempt(several)) == "3 Initials over 3.00 s"


@pytest.mark.parametrize(
    ("code", "reason", "application", "text"),
    [
        (0x178, b"", False, "CRYPTO_ERROR: no_application_protocol (0x178)"),
        (0x02, b"busy", False, "CONNECTION_REFUSED (0x2), “busy”"),
        (0x7777, b"", False, "error 0x7777"),
        (0x100, b"a\x1bb", True, "H3_NO_ERROR (0x100), “a\\x1bb”"),
    ],
)
def test_a_close_is_named_in_its_own_space(code: int, reason: bytes, text: str, *, application: bool) -> None:
    """Transport and HTTP/3 codes share numbers; the reason is quoted and harmless."""
    (frame,) = parse_frames(quic_builder.close(code, reason, None if application else 0))
    assert isinstance(frame, ConnectionClose)
    assert close_text(frame) == text


@pytest.mark.parametrize(
    ("alpn", "text"),
    [
        (("h2", "http/1.1"), "HTTP/2 or HTTP/1.1"),
        (("h2",), "HTTP/2"),
        (("http/1.1",), "HTTP/1.1"),
        (("imap",), "TCP (imap)"),
        ((), "TLS without ALPN (HTTP/1.1, if it is HTTP)"),
    ],
)
def test_what_was_offered_over_tcp_limits_the_version(alpn: tuple[str, ...], text: str) -> None:
    """TLS 1.3 hides the choice: only what was offered can be said."""
    network = Network()
    network.tcp(alpn=alpn).connects(0.0)
    assert http_over_tcp(over_tcp(network)) == text


def test_http_in_the_clear_is_http_1_1() -> None:
    """No TLS, no ALPN."""
    network = Network()
    tcp = network.tcp(port=80)
    tcp.syn(0.0)
    tcp.accepts(0.01)
    tcp.segment(0.02, "client", 0x18, b"GET / HTTP/1.1\r\nHost: example.org\r\n\r\n")
    assert http_over_tcp(over_tcp(network)) == "HTTP/1.1"


@pytest.mark.parametrize(
    ("alpn", "http3", "dns"),
    [(("h3",), True, False), (("h3-29", "h3"), True, False), (("doq",), False, True), (("h3", "smb"), False, False)],
)
def test_protocols_over_quic(alpn: tuple[str, ...], *, http3: bool, dns: bool) -> None:
    """HTTP/3 is h3 or a draft of it and nothing else; DNS over QUIC is neither."""
    network = Network()
    network.quic(alpn=alpn).connects(0.0)
    quic = attempt(network)
    assert (is_h3(quic), is_dns(quic)) == (http3, dns)


def test_no_timer_without_a_known_client() -> None:
    """2.75 s of a client that nobody knows is a number."""
    known, unknown = Network(), Network()
    known.quic(software=JDK).initials(0.0)
    unknown.quic().initials(0.0)
    assert timer_of(attempt(known), 2.75) is not None
    assert timer_of(attempt(unknown), 2.75) is None


def test_evidence_is_cut_in_the_middle() -> None:
    """Rows are sorted by time; of too many the first ones and the last one stay."""
    rows = [(Mark(number, number * 10), f"packet {number}") for number in (3, 1, 2, 5, 4)]
    assert [mark.frame for mark, _ in cut(rows)] == [1, 2, 3, 4, 5]
    assert [mark.frame for mark, _ in cut(rows, limit=3)] == [1, 2, 5]
    assert [mark.frame for mark, _ in cut(rows, limit=5)] == [1, 2, 3, 4, 5]


def test_a_client_that_may_speak_http3_has_a_verdict() -> None:
    """DNS over QUIC offers nothing else; beside h3 it need not be what was chosen."""
    network = Network()
    network.quic(alpn=("h3", "doq")).connects(0.0)
    assert network.explain().sentence.startswith("QUIC (h3, doq)")
