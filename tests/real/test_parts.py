"""The lab itself: what the later tests assume of the real programs, shown on its own."""

import pytest

from .netns import Firewall
from .parts import ADVERTISED, HTTP1, PLAIN, PROXY, RETRY, STALE, Lab, curl, java


def versions(lines: list[str]) -> list[str]:
    """Give the HTTP version, or the exception, of each line that Probe printed."""
    return [line.split()[2] for line in lines]


@pytest.mark.parametrize(
    ("port", "options", "version"),
    [
        (ADVERTISED, ["--http3-only"], "3"),
        (RETRY, ["--http3-only"], "3"),
        (ADVERTISED, ["--http2"], "2"),
        (STALE, ["--http2"], "2"),
        (PLAIN, ["--http2"], "2"),
        (HTTP1, ["--http2"], "1.1"),
    ],
)
def test_each_port_speaks_what_it_is_for(lab: Lab, port: int, options: list[str], version: str) -> None:
    """Curl gets an answer over the HTTP version that each port stands for, on IPv4 and IPv6."""
    for family in ("-4", "-6"):
        ran = lab.run(curl(f"https://localhost:{port}/", family, *options))
        assert [line.split()[:2] for line in ran.stdout] == [[version, "200"]], ran


def test_nothing_answers_on_udp_where_alt_svc_is_stale(lab: Lab) -> None:
    """The port with the stale Alt-Svc refuses HTTP/3, so curl's `--http3-only` fails on it."""
    ran = lab.run(curl(f"https://localhost:{STALE}/", "--http3-only"))
    assert ran.exit != 0
    assert ran.stderr


def test_dropping_udp_makes_curl_fall_back(lab: Lab) -> None:
    """Behind a firewall that drops UDP, `curl --http3` ends up with HTTP/2."""
    lab.firewall(Firewall.DROP)
    ran = lab.run(curl(f"https://localhost:{ADVERTISED}/", "--http3"))
    assert [line.split()[:2] for line in ran.stdout] == [["2", "200"]], ran


@pytest.mark.parametrize("firewall", [Firewall.PORT_UNREACHABLE, Firewall.ADMIN_PROHIBITED])
def test_rejecting_udp_is_seen_by_curl(lab: Lab, firewall: Firewall) -> None:
    """A firewall that rejects with ICMP makes `curl --http3-only` fail."""
    lab.firewall(firewall)
    ran = lab.run(curl(f"https://localhost:{ADVERTISED}/", "--http3-only", "--max-time", "20"))
    assert ran.exit != 0, ran


def test_tinyproxy_tunnels(lab: Lab) -> None:
    """Both clients reach nginx through tinyproxy, over HTTP/2."""
    lab.start_tinyproxy()
    url = f"https://localhost:{ADVERTISED}/"
    through_curl = lab.run(curl(url, "--proxy", f"http://127.0.0.1:{PROXY}"))
    assert [line.split()[:2] for line in through_curl.stdout] == [["2", "200"]], through_curl
    through_java = lab.run(java(url, "client", "ANY", proxy=PROXY))
    assert versions(through_java.stdout) == ["HTTP_2"], through_java


def test_a_jdk_without_opt_in_stays_with_http_2(lab: Lab) -> None:
    """The JDK's client, not told of HTTP/3, uses HTTP/2 each time though Alt-Svc offers HTTP/3."""
    ran = lab.run(java(f"https://localhost:{ADVERTISED}/", count=2))
    assert versions(ran.stdout) == ["HTTP_2", "HTTP_2"], ran
    assert 'alt-svc=h3=":4433"' in ran.stdout[0]


def test_a_jdk_told_by_the_request_starts_with_http_3(lab: Lab) -> None:
    """The JDK's client, told on the request, uses HTTP/3 from the first request."""
    ran = lab.run(java(f"https://localhost:{ADVERTISED}/", "request", "ANY", 2))
    assert versions(ran.stdout) == ["HTTP_3", "HTTP_3"], ran
