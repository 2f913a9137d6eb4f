"""Heads of HTTP/1."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from h3probe.redact import http1
from h3probe.redact.mapping import Mapping
from h3probe.wire import altsvc
from h3probe.wire.http1 import connect_target, connect_udp_target, parse_request_head, parse_response_head

MAPPING = Mapping(bytes(range(32)))
NAME = MAPPING.host(b"www.secret.org").decode()


def test_a_connect_request() -> None:
    """Target and Host are replaced alike; credentials are gone, the scheme is seen."""
    data = (
        b"CONNECT www.secret.org:443 HTTP/1.1\r\nHost: www.secret.org:443\r\nProxy-Authorization: Basic YW5uOnB3\r\n"
        b"User-Agent: curl/8.23.0 ann-build\r\nX-Corp-Trace: ann\r\nProxy-Connection: Keep-Alive\r\n\r\n"
    )
    made = http1.head(data, MAPPING)
    head = parse_request_head(made)
    assert head is not None
    assert head.head_length == len(data)
    assert connect_target(head) == (NAME, 443)
    fields = dict(head.headers)
    assert fields["host"] == f"{NAME}:443"
    assert fields["user-agent"].startswith("curl/8.23.0 ")
    assert fields["proxy-connection"] == "Keep-Alive"
    assert b"Proxy-Authorization: Basic " in made
    for hidden in (b"secret", b"YW5uOnB3", b"ann", b"Corp", b"Trace"):
        assert hidden not in made


def test_a_request_for_udp() -> None:
    """The path of connect-udp (RFC 9298) keeps its form and its port."""
    data = (
        b"GET http://proxy.corp.net:3128/.well-known/masque/udp/www.secret.org/443/ HTTP/1.1\r\n"
        b"Host: proxy.corp.net:3128\r\nConnection: Upgrade\r\nUpgrade: connect-udp\r\nCapsule-Protocol: ?1\r\n\r\n"
    )
    head = parse_request_head(http1.head(data, MAPPING))
    assert head is not None
    assert connect_udp_target(head) == (NAME, 443)


@pytest.mark.parametrize(
    ("target", "shape"),
    [
        (b"/home/ann/file.txt?user=ann&x=1", "/aaaa/aaa/aaaaaaaa?aaaa=aaa&a=a"),
        (b"*", "*"),
        (b"/", "/"),
    ],
)
def test_paths(target: bytes, shape: str) -> None:
    """What parts a path stays, the parts are letters."""
    line = http1.head(b"OPTIONS " + target + b" HTTP/1.1\r\n\r\n", MAPPING).split()[1].decode()
    assert "".join("a" if character.isalpha() else character for character in line) == shape
    assert "ann" not in line


def test_a_url_with_a_user() -> None:
    """User names and passwords are replaced, and what is around them stays what it is."""
    made = http1.url(b"https://ann:pw@www.secret.org:8443/a?b=c", MAPPING)
    assert made.startswith(b"https://")
    assert b"@" + NAME.encode() + b":8443/" in made
    assert b"ann" not in made


def test_a_response() -> None:
    """Alternatives name the replaced hosts; a reason in the proxy's own words is gone."""
    data = (
        b'HTTP/1.1 403 Blocked by ACME\r\nAlt-Svc: h3=":443"; ma=60, h3="www.secret.org:8443"; ma=3600\r\n'
        b"Server: squid/5.7 (gw1.acme.example)\r\nVia: 1.1 gw1\r\nContent-Length: 12\r\n\r\n"
    )
    made = http1.head(data, MAPPING)
    head = parse_response_head(made)
    assert head is not None
    assert head.status == 403
    fields = dict(head.headers)
    services = altsvc.parse([fields["alt-svc"]]).alternatives
    assert [(service.host, service.port, service.max_age) for service in services] == [
        ("", 443, 60),
        (NAME, 8443, 3600),
    ]
    assert fields["server"].startswith("squid/5.7 ")
    assert fields["content-length"] == "12"
    assert b"ACME" not in made
    assert b"gw1" not in made
    plain = b"HTTP/1.1 200 Connection established\r\n\r\n"
    assert http1.head(plain, MAPPING) == plain


@pytest.mark.parametrize("host", [b"10.1.2.3:8080", b"[2001:470:1::9]:443", b"[::1]:443", b"www.secret.org"])
def test_authorities(host: bytes) -> None:
    """Addresses are replaced as addresses; the port stays."""
    made = http1.authority(host, MAPPING)
    assert len(made) == len(host)
    assert made.rpartition(b":")[2] == host.rpartition(b":")[2] or b":" not in host


@settings(deadline=None)
@given(st.binary(max_size=300))
def test_any_bytes(data: bytes) -> None:
    """Whatever looks like a head to somebody, it is as long afterwards."""
    assert len(http1.head(data, MAPPING)) == len(data)


@pytest.mark.parametrize(
    "line",
    [
        b"Alt-Svc: h3=alt.secret.org:443; ma=60",
        b'Alt-Svc: h3=":443.secret.org"',
        b'Alt-Svc: secret=":443"',
        b"Server: secret",
        b"Server: secret/1.0",
        b"Proxy-agent: Apache/2.secret.org",
        b"User-Agent: curl/8.secret.org",
        b"Accept: application/vnd.secret.v1+json",
        b"Content-Type: text/html; name=www.secret.org",
        b"Vary: X-Secret, Origin",
        b"Connection: close, x-secret",
        b"Accept: application/secret+xml, application/secret",
        b"Location: org.secret.app://callback",
        b"Referer: https://www.secret.org/a",
        b"Via: 1.1 proxy.secret.org (squid/6)",
        b"X-Forwarded-For: 93.184.216.34, www.secret.org",
        b"Forwarded: for=93.184.216.34;host=www.secret.org",
    ],
)
def test_a_name_in_a_field(line: bytes) -> None:
    """Wherever a field has a name or an address, it does not stay."""
    made = http1.head(b"HTTP/1.1 200 OK\r\n" + line + b"\r\n\r\n", MAPPING)
    assert len(made) == len(line) + 21
    assert b"secret" not in made.lower()
    assert b"93.184.216.34" not in made


@pytest.mark.parametrize(
    "line",
    [
        b'Alt-Svc: h3=":443"; ma=86400, h3-29=":443"; persist=1, h2="", http%2F1.1=":80"; v="46,43"',
        b"Alt-Svc: clear",
        b"Server: Apache/2.4.62",
        b"Proxy-agent: tinyproxy",
        b"User-Agent: Java-http-client/26.0.1",
        b"Accept: text/html, image/gif, */*; q=0.2",
        b"Date: Mon, 30 Nov 2026 16:46:17 GMT",
        b"Cache-Control: no-cache, max-age=31536000",
        b"Connection: Upgrade, HTTP2-Settings",
        b"Vary: Accept-Encoding, Origin, Cookie",
        b"Content-Type: application/x-www-form-urlencoded; charset=utf-8",
        b"Accept: application/xhtml+xml,image/*;q=0.8,application/json",
        b"Upgrade: TLS/1.2, h2c, connect-udp",
        b"HTTP2-Settings: AAMAAABkAAQAAP__",
    ],
)
def test_what_software_does(line: bytes) -> None:
    """What says how software behaves, and not for whom, stays."""
    assert line in http1.head(b"HTTP/1.1 200 OK\r\n" + line + b"\r\n\r\n", MAPPING)
