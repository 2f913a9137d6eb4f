"""`h3probe watch` as the proxy of a real JDK 26: what a person reads in the end, from wire and proxy together."""

from collections.abc import Sequence

import pytest

from .parts import ADVERTISED, PROXY, SQUID, Lab, curl, java
from .watching import H3PROBE, Record, Watched

PORT = 8899
REVERSE = 5433
URL = f"https://localhost:{ADVERTISED}/"

# The real programs live in a root of their own, where the lab's folder has another name.
INSIDE = """
here=$1; shift
JAVA_TOOL_OPTIONS=$(printf %s "${JAVA_TOOL_OPTIONS-}" | sed "s#$here#/lab#g"); export JAVA_TOOL_OPTIONS
exec "$@"
"""

pytestmark = pytest.mark.xdist_group("watch-proxy")


def watch(lab: Lab, options: Sequence[str], argv: Sequence[str]) -> Watched:
    """Run a real program under `h3probe watch` with a proxy; its folder is in the lab's."""
    h3probe = ["env", f"XDG_DATA_HOME={lab.folder / 'data'}", *H3PROBE, "watch", "--json", *options, "--"]
    inside = lab.parts.command(["sh", "-c", INSIDE, "sh", str(lab.folder), *argv])
    return Watched.of(lab.run_here([*h3probe, *inside]), lab.folder)


def trusting(argv: Sequence[str]) -> list[str]:
    """The JDK without a trust store of its own: it is to take the one that it is handed."""
    return [each for each in argv if not each.startswith("-Djavax")]


def versions(exchanges: Sequence[Record]) -> list[str]:
    """The version of each exchange, all of them known from the proxy."""
    assert {exchange["known_from"] for exchange in exchanges} == {"proxy"}
    return [exchange["version"] for exchange in exchanges]


@pytest.mark.parametrize("upstream", [None, "squid", "tinyproxy"])
def test_the_downgrade_is_said(lab: Lab, upstream: str | None) -> None:
    """Asked for HTTP/3 and behind a proxy, alone or chained, the JDK's downgrade is told with CONNECT and target."""
    options = ["--proxy", str(PORT)]
    if upstream == "squid":
        lab.start_squid()
        options += ["--upstream", f"http://me:top-secret@127.0.0.1:{SQUID}"]
    elif upstream == "tinyproxy":
        lab.start_tinyproxy()
        options += ["--upstream", f"http://127.0.0.1:{PROXY}"]
    seen = watch(lab, options, java(URL, "client", "ANY", 2))
    assert seen.answers == ["HTTP_2", "HTTP_2"]
    finding = seen.finding("proxy-downgrade")
    assert "CONNECT" in finding["summary"]
    assert f"localhost:{ADVERTISED}" in finding["summary"]
    assert "no QUIC packet left this host" in finding["summary"]
    assert f"127.0.0.1:{PORT}" in finding["summary"]
    (tunnel,) = [t for t in seen.all("tunnel") if t["proxy"] == f"127.0.0.1:{PORT}"]
    assert (tunnel["target"], tunnel["status"], tunnel["process"]["name"]) == (f"localhost:{ADVERTISED}", 200, "java")
    assert "top-secret" not in str(seen.records) + str(seen.said)
    assert len(seen.all("verdict")) == 1


def test_http_3_uri_only_sends_nothing(lab: Lab) -> None:
    """With a proxy, HTTP_3_URI_ONLY fails within the client, and the verdict says that this is what it looks like."""
    seen = watch(lab, ["--proxy", str(PORT)], java(URL, "client", "HTTP_3_URI_ONLY"))
    assert seen.answers == ["java.net.http.UnsupportedProtocolVersionException"]
    sentence = seen.one("verdict")["sentence"]
    assert sentence.startswith("Nothing was sent")
    assert "HTTP_3_URI_ONLY with a proxy looks like" in sentence


def test_intercepted_exchanges_have_version_and_alt_svc(lab: Lab) -> None:
    """With TLS terminated, each exchange has its version, and the Alt-Svc value that the server sent."""
    options = ["--proxy", str(PORT), "--intercept", "--server-ca", "ca.pem"]
    seen = watch(lab, options, trusting(java(URL, "client", "ANY", 2)))
    assert seen.answers == ["HTTP_2", "HTTP_2"], seen.said
    assert versions(seen.all("exchange")) == ["HTTP/2", "HTTP/2"]
    assert {alt_svc["value"] for alt_svc in seen.all("alt_svc")} == {f'h3=":{ADVERTISED}"; ma=3600'}
    assert "HTTP/2" in seen.finding("proxy-downgrade")["summary"]
    assert "intercept" in seen.one("verdict")["sentence"].lower()


def test_reverse_shows_http_3_after_http_2(lab: Lab) -> None:
    """Before a server, with both transports: client-level ANY has its first exchange over HTTP/2, later ones HTTP/3."""
    options = ["--reverse", f"{REVERSE}=localhost:{ADVERTISED}", "--intercept", "--server-ca", "ca.pem"]
    seen = watch(lab, options, trusting(java(f"https://localhost:{REVERSE}/", "client", "ANY", 4)))
    told = [answer.replace("HTTP_", "HTTP/") for answer in seen.answers]
    assert versions(seen.all("exchange")) == told, seen.said
    assert told[-1] == "HTTP/3"
    assert not seen.all("tunnel")


def test_squid_refuses(lab: Lab) -> None:
    """A 407 of the real proxy is a problem of its own, told with its status and what it means."""
    lab.start_squid()
    options = ["--proxy", str(PORT), "--upstream", f"http://127.0.0.1:{SQUID}"]
    seen = watch(lab, options, java(URL, "client", "ANY"))
    finding = seen.finding("proxy-refused")
    assert finding["severity"] == "problem"
    assert "407" in finding["summary"]
    assert "credentials" in finding["summary"]


def test_a_client_that_does_not_trust_the_authority(lab: Lab) -> None:
    """A trust store of the client's own wins over the one it is handed: the refusal is told."""
    options = ["--proxy", str(PORT), "--intercept", "--server-ca", "ca.pem"]
    seen = watch(lab, options, java(URL, "client", "ANY", 2))
    assert "SSLHandshakeException" in seen.answers[0]
    assert seen.answers[1] == "HTTP_2"  # passed through from the next connection on
    assert "passed through untouched" in seen.finding("ca-rejected")["summary"]


def test_curl_is_one_client(lab: Lab) -> None:
    """Curl asks for connect-udp, then for CONNECT on another connection: one verdict, and it is how curl fared."""
    seen = watch(lab, ["--proxy", str(PORT)], curl(URL, "--http3"))
    assert "through a CONNECT tunnel" in seen.one("verdict")["sentence"]
    assert seen.finding("proxy-refused")["severity"] == "info"
    assert "had asked the proxy for connect-udp" in seen.finding("proxy-downgrade")["summary"]


def test_curl_that_leaves_for_the_certificates_sake(lab: Lab) -> None:
    """Curl ends the handshake and goes: nothing was carried, and the reason is told."""
    options = ["--proxy", str(PORT), "--intercept", "--server-ca", "ca.pem"]
    seen = watch(lab, options, curl(URL))
    assert seen.one("finding")["rule"] == "ca-rejected"
    assert "does not take the certificate" in seen.one("verdict")["sentence"]


def test_a_server_that_the_proxy_does_not_believe(lab: Lab) -> None:
    """Without --server-ca the lab's authority is nobody's: the 502 is the proxy's, and the option is named."""
    seen = watch(lab, ["--proxy", str(PORT), "--intercept"], trusting(java(URL, "client", "ANY")))
    assert "--server-ca" in seen.finding("server-distrusted")["advice"]
    assert seen.one("verdict")["sentence"].startswith("No response through the CONNECT tunnel")


def test_an_upstream_that_is_not_there(lab: Lab) -> None:
    """It is the one that is named, and h3probe's own vain connection to it is no client's."""
    seen = watch(lab, ["--proxy", str(PORT), "--upstream", "http://127.0.0.1:1"], curl(URL))
    assert "The proxy 127.0.0.1:1 behind 127.0.0.1:8899 cannot be reached" in seen.finding("proxy-refused")["summary"]
    assert len(seen.all("verdict")) == 1


def test_a_server_that_is_not_there(lab: Lab) -> None:
    """One verdict, the client's; the refused connection is h3probe's own."""
    seen = watch(lab, ["--proxy", str(PORT)], curl("https://localhost:7999/"))
    assert seen.one("verdict")["origin"] == "localhost:7999"
    assert "502" in seen.one("verdict")["sentence"]
