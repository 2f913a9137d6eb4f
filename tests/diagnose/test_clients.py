from __future__ import annotations

import pytest

from h3probe.diagnose.clients import guess_name, known_clients, recognise
from tests.diagnose.scenario import CHROMIUM, CURL, FIREFOX, JDK, QUIC_GO, STRANGER, Network, Software

TIMERS = [(client, timer) for client in known_clients() for timer in client.timers]


def test_the_table_holds_together() -> None:
    """Every client has a name, a fingerprint and a head start that a race can have; names are unique."""
    clients = known_clients()
    assert len({client.name for client in clients}) == len(clients)
    for client in clients:
        assert client.quic
        assert 0 < client.head_start <= 5
        assert client.fallback_within is None or client.fallback_within > 0


@pytest.mark.parametrize(
    ("software", "family"),
    [(JDK, "jdk"), (CURL, "ngtcp2"), (CHROMIUM, "chromium"), (FIREFOX, "firefox"), (QUIC_GO, "quic-go")],
)
def test_a_fingerprint_names_its_client(software: Software, family: str) -> None:
    """Each client's own first Initial gives it away, and no other's."""
    network = Network()
    network.quic(software=software).connects(0.0)
    explained = network.explain()
    client = recognise(explained.stories[0].quic[0])
    assert client is not None
    assert client.family == family
    assert explained.quic[0].client_guess == client.name


def test_nobody_in_particular_is_not_guessed() -> None:
    """A client without a known fingerprint gets no name, on neither transport."""
    network = Network()
    network.quic(software=STRANGER).connects(0.0)
    network.tcp(software=STRANGER).connects(5.0)
    explained = network.explain()
    (story,) = explained.stories
    assert story.software is None
    assert guess_name(story.quic[0], "quic") is None
    assert guess_name(story.tcp[0], "tcp") is None


@pytest.mark.parametrize(
    "changed",
    [
        Software(16, 12, 1200, JDK.parameters),
        Software(17, 12, 1250, JDK.parameters),
        Software(17, 12, 1200, JDK.parameters[:-1]),
        Software(17, 12, 1200, tuple(reversed(JDK.parameters))),
    ],
)
def test_every_line_of_a_fingerprint_must_hold(changed: Software) -> None:
    """One difference, and it is not the JDK."""
    network = Network()
    network.quic(software=changed).connects(0.0)
    assert network.explain().quic[0].client_guess != "JDK 26 HttpClient"


def test_another_protocol_is_not_the_jdk() -> None:
    """The JDK's client offers h3 alone."""
    network = Network()
    network.quic(software=JDK, alpn=("h3", "h3-29")).connects(0.0)
    assert network.explain().quic[0].client_guess is None


def test_a_reserved_parameter_does_not_hide_a_client() -> None:
    """Parameters of the form 31 N + 27 are there to be ignored (RFC 9000, 18.1)."""
    network = Network()
    software = Software(17, 12, 1200, (*JDK.parameters[:3], 27 + 31 * 5, *JDK.parameters[3:]))
    network.quic(software=software).connects(0.0)
    assert network.explain().quic[0].client_guess == "JDK 26 HttpClient"


def test_tcp_says_less() -> None:
    """Over TCP the cipher suites say Java, not which of its clients, and Mozilla, not which of its programs."""
    for software, name in ((JDK, "Java"), (FIREFOX, "Firefox or another Mozilla program")):
        network = Network()
        network.tcp(software=software).connects(0.0)
        assert network.explain().tcp[0].client_guess == name


@pytest.mark.parametrize(("client", "timer"), TIMERS)
def test_a_timer_is_known_by_its_length(client: object, timer: object) -> None:
    """A wait is a timer's when it is about as long; 8 % less or more is another wait."""
    assert client in known_clients()
    (known,) = [c for c in known_clients() if c == client]
    (wanted,) = [t for t in known.timers if t == timer]
    for factor, found in ((0.92, None), (0.995, wanted), (1.0, wanted), (1.02, wanted), (1.08, None)):
        assert known.timer_for(wanted.seconds * factor) is found


@pytest.mark.parametrize(
    ("reason", "known"),
    [
        ("25:No recent network activity after 4001995us. Timeout:4s num_undecryptable_packets: 0 {}", True),
        ("No recent network activity after 4001995us. Timeout:4s", True),
        ("25:No recent network activity after 30001995us. Timeout:30s", False),
        ("25:No recent network activity after " + "9" * 100 + "us. Timeout:4s", False),
        ("70:net error", False),
    ],
)
def test_what_nothing_changes_is_known_by_its_own_value(reason: str, *, known: bool) -> None:
    """Chromium says how long it waited, to the microsecond; another value is another timer's."""
    (chromium,) = [client for client in known_clients() if client.family == "chromium"]
    timer = chromium.timer_for(4.0, reason)
    assert (timer is not None) is known
    assert timer is None or timer.changed_by is None
