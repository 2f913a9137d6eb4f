"""Records redacted with the packets' mapping."""

from __future__ import annotations

from h3probe.redact import Mapping
from h3probe.redact.records import RecordRedactor
from tests.redact.flows import KEY

SECRETS = ("secret", "192.168.7.23", "93.184.216.34", "2001:470:aabb", "0a0b0c0d", "annstool", "hidden", "/home")


def test_records() -> None:
    """Names, addresses, IDs, processes and paths are the mapping's, in fields and in sentences; the rest stays."""
    mapping = Mapping(KEY)
    redactor = RecordRedactor(mapping)
    quic = redactor.record(
        {
            "type": "quic", "id": "quic-1", "client": "192.168.7.23:50123", "server": "[2001:470:aabb::1]:443",
            "dcid": "0a0b0c0d0e", "sni": "www.secret.org", "alpn": ["h3"], "outcome": "closed",
            "close": {"code": 1, "name": "INTERNAL_ERROR", "reason": "no route to hidden.net", "by": "client"},
            "process": {"pid": 7, "name": "annstool"},
        }
    )  # fmt: skip
    finding = redactor.record(
        {
            "type": "finding", "id": "finding-1", "rule": "quic-closed", "origin": "www.secret.org:443",
            "summary": "QUIC to www.secret.org:443 (2001:470:aabb::1) with 0a0b0c0d0e was closed; JDK 26.0.2.1.",
            "evidence": [{"frame": 3, "at": 0.5, "what": "annstool[7] sent it from 192.168.7.23:50123"}],
        }
    )  # fmt: skip
    verdict = redactor.record({"type": "verdict", "client": "annstool[7]", "origin": "[2001:470:aabb::1]:443"})
    alt_svc = redactor.record(
        {
            "type": "alt_svc", "origin": "www.secret.org:443", "value": 'h3="alt.secret.org:443"',
            "services": [{"protocol": "h3", "host": "alt.secret.org", "port": 443}],
        }
    )  # fmt: skip
    exchange = redactor.record({"type": "exchange", "url": "https://www.secret.org/home/ann?id=", "version": "HTTP/3"})
    everything = repr((quic, finding, verdict, alt_svc, exchange))
    for secret in SECRETS:
        assert secret not in everything, secret
    name = mapping.host(b"www.secret.org").decode()
    assert quic["sni"] == name
    assert quic["close"]["name"] == "INTERNAL_ERROR"
    assert finding["origin"] == f"{name}:443"
    assert f"QUIC to {name}:443" in finding["summary"]
    assert "JDK 26.0.2.1" in finding["summary"]
    assert verdict["client"].endswith("[7]")
    assert alt_svc["services"][0]["host"] == mapping.host(b"alt.secret.org").decode()
    assert exchange["url"].startswith(f"https://{name}/")
    assert exchange["version"] == "HTTP/3"


def test_what_says_nothing_stays() -> None:
    """Loopback, reserved names, ports and null are as they were."""
    redactor = RecordRedactor(Mapping(KEY))
    record = {"type": "tcp", "client": "127.0.0.1:5", "server": "[::1]:443", "sni": None, "origin": "localhost:443"}
    assert redactor.record(record) == record
    assert redactor.record({"client": "127.0.0.1 (JDK 26 HttpClient)"}) == {"client": "127.0.0.1 (JDK 26 HttpClient)"}


def test_a_program_that_many_have() -> None:
    """Its name tells what software is used, and stays, with its number and without."""
    redactor = RecordRedactor(Mapping(KEY))
    for client in ("curl (curl or another ngtcp2 client)", "java[4711]", "curl", "any"):
        assert redactor.record({"type": "verdict", "client": client})["client"] == client
    made = [
        redactor.record({"client": client})["client"] for client in ("annstool[7]", "annstool (an app)", "annstool")
    ]
    assert made == [f"{made[2]}[7]", f"{made[2]} (an app)", made[2]]
    assert made[2] != "annstool"
