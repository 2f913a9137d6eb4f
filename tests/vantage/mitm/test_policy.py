from __future__ import annotations

import time

import pytest

from h3probe.vantage.mitm.policy import REMEMBERED, Policy, refusal_over_quic, refusal_over_tls


def test_blind() -> None:
    """Without hosts at all nothing is terminated."""
    policy = Policy(None)
    assert not policy.intercepts
    assert not policy.may("tcp", "example.org")
    assert not policy.wants("tcp", "example.org", "example.org")


def test_all() -> None:
    """An empty list means every host."""
    policy = Policy(())
    assert policy.intercepts
    assert policy.may("tcp", "example.org")
    assert policy.wants("udp", "192.0.2.1", None)


@pytest.mark.parametrize(
    ("host", "sni", "wanted"),
    [
        ("example.org", None, True),
        ("EXAMPLE.org", None, True),
        ("www.example.org", None, False),
        ("a.wild.example", None, True),
        ("a.b.wild.example", None, True),
        ("wild.example", None, False),
        ("notwild.example", None, False),
        ("192.0.2.1", "example.org", True),
        ("192.0.2.1", "www.example.org", False),
        ("2001:db8::1", None, True),
    ],
)
def test_hosts(host: str, sni: str | None, *, wanted: bool) -> None:
    """A host is matched by its whole name, a pattern by all below it, an address by the name in the hello."""
    policy = Policy(("Example.org", "*.wild.example", "[2001:db8::1]"))
    assert policy.wants("tcp", host, sni) is wanted
    if wanted:
        assert policy.may("tcp", host)


def test_a_name_that_does_not_match_is_decided_before_its_hello() -> None:
    """A CONNECT to another name passes through at once; one to an address waits for its hello."""
    policy = Policy(("example.org",))
    assert not policy.may("tcp", "www.example.org")
    assert policy.may("tcp", "192.0.2.1")


def test_who_refused_over_quic_is_let_alone_over_quic() -> None:
    """After a refusal over QUIC the host passes through, by all its names, and over TCP it is still asked."""
    policy = Policy(())
    policy.refuse("udp", "Example.org", "192.0.2.1")
    assert not policy.wants("udp", "example.org", None)
    assert not policy.wants("udp", "192.0.2.1", None)
    assert not policy.wants("udp", "192.0.2.9", "example.org")
    assert not policy.may("udp", "example.org")
    assert policy.wants("tcp", "example.org", None)


def test_who_is_refused_over_tcp_is_let_alone_everywhere() -> None:
    """A client that does not trust the authority over TCP will not over QUIC; the other way round it may."""
    policy = Policy(())
    policy.refuse("tcp", "example.org")
    assert not policy.wants("tcp", "example.org", None)
    assert not policy.wants("udp", "example.org", None)


def test_who_accepted_is_remembered() -> None:
    """Acceptance is per host, whatever the transport."""
    policy = Policy(())
    policy.accept("Example.org")
    assert policy.is_accepted("192.0.2.1", "example.ORG")
    assert not policy.is_accepted("192.0.2.1")


@pytest.mark.parametrize(
    ("error", "alert"),
    [
        ("tlsv1 alert unknown ca", "unknown_ca"),
        ("ssl/tls alert bad certificate", "bad_certificate"),
        ("The client does not trust the proxy's certificate for x (tlsv1 alert unknown ca)", "unknown_ca"),
        ("OpenSSL Error([('SSL routines', '', 'ssl/tls alert certificate unknown')])", "certificate_unknown"),
        ("sslv3 alert certificate expired", "certificate_expired"),
        ("tlsv1 alert protocol version", None),
        ("connection closed", None),
        ("", None),
        (None, None),
    ],
)
def test_refusals_over_tls(error: str | None, alert: str | None) -> None:
    """OpenSSL's words for a certificate alert are told from all else that a handshake fails of."""
    assert refusal_over_tls(error) == alert


@pytest.mark.parametrize(
    ("code", "alert"),
    [
        (0x12A, "bad_certificate"),
        (0x12E, "certificate_unknown"),
        (0x130, "unknown_ca"),
        (0x178, None),
        (0, None),
        (None, None),
    ],
)
def test_refusals_over_quic(code: int | None, alert: str | None) -> None:
    """A CRYPTO_ERROR carries the alert's number; other codes are no refusal of a certificate."""
    assert refusal_over_quic(code) == alert


def test_a_race_with_quic() -> None:
    """A host was raced if QUIC to it got ready after a moment; that is forgotten before memory is short."""
    policy = Policy(())
    before = time.monotonic() - 1
    assert not policy.was_raced("example.org", before)
    policy.quic_ready("Example.org")
    assert policy.was_raced("EXAMPLE.org", before)
    assert not policy.was_raced("example.org", time.monotonic())
    for number in range(REMEMBERED):
        policy.quic_ready(f"{number}.example")
    assert not policy.was_raced("example.org", before)
