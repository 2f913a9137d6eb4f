from __future__ import annotations

import pytest

from h3probe.vantage.mitm.words import host_and_port, is_distrust, plain_error, proxy_error, schemes, version


def test_host_and_port() -> None:
    """An IPv6 address stands in brackets."""
    assert host_and_port("example.org", 443) == "example.org:443"
    assert host_and_port("::1", 443) == "[::1]:443"


@pytest.mark.parametrize(("text", "expected"), [("HTTP/2.0", "HTTP/2"), ("HTTP/3", "HTTP/3"), ("HTTP/1.1", "HTTP/1.1")])
def test_versions(text: str, expected: str) -> None:
    """Versions are named as in the output contract."""
    assert version(text) == expected


@pytest.mark.parametrize(
    ("text", "expected", "kind"),
    [
        ("[Errno 111] Connect call failed ('127.0.0.1', 1)", "connection refused", "connection_refused"),
        (
            "Multiple exceptions: [Errno 111] Connect call failed ('::1', 1, 0, 0), [Errno 111] Connect call failed",
            "connection refused",
            "connection_refused",
        ),
        ("[Errno 110] Connect call failed ('192.0.2.1', 1)", "connection timed out", "connection_timeout"),
        ("[Errno -2] Name or service not known", "name or service not known", "dns_error"),
        ("[Errno 101] Network is unreachable", "network is unreachable", "destination_unavailable"),
        ("Certificate verify failed: self-signed", "Certificate verify failed: self-signed", "destination_unavailable"),
        ("unexpected server response: b'secret'", "unexpected server response: …", "destination_unavailable"),
    ],
)
def test_errors(text: str, expected: str, kind: str) -> None:
    """What Python says of one or of several failed attempts becomes the operating system's own words."""
    assert plain_error(text) == expected
    assert proxy_error(expected) == kind


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        (['Basic realm="Squid proxy-caching web server"'], ("Basic",)),
        (["Negotiate", "NTLM"], ("Negotiate", "NTLM")),
        (['Digest realm="a, b", qop="auth", Basic realm="c"'], ("Digest", "Basic")),
        (["Negotiate, Basic realm=x"], ("Negotiate", "Basic")),
        ([], ()),
        ([""], ()),
    ],
)
def test_schemes(lines: list[str], expected: tuple[str, ...]) -> None:
    """The schemes of all challenges, in order."""
    assert schemes(lines) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Certificate verify failed: unable to get local issuer certificate", True),
        ("Certificate verify failed: Hostname mismatch", True),
        ("unable to get local issuer certificate", True),
        ("self-signed certificate in certificate chain", True),
        ("OpenSSL Error([('SSL routines', '', 'tlsv13 alert certificate required')])", False),
        ("connection refused", False),
        ("Client disconnected.", False),
    ],
)
def test_distrust(text: str, *, expected: bool) -> None:
    """A server's certificate that is not believed, and not one that the server would have of its client."""
    assert is_distrust(text) is expected
