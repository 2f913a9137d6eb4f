"""The proxy vantage point between real clients and real proxies and servers."""

import json
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import pytest

from .netns import stop
from .parts import ADVERTISED, PROXY, SQUID, Lab, curl, java

PORT = 8899
REVERSE = 5433
DRIVER = [sys.executable, str(Path(__file__).with_name("drive_proxy.py"))]
URL = f"https://localhost:{ADVERTISED}/"
EXPLICIT = {"listen": str(PORT)}
THROUGH_SQUID = EXPLICIT | {"upstream": f"http://me:top-secret@127.0.0.1:{SQUID}"}
PATIENCE_S = 60.0

Event = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Driven:
    """What came of a command that was run through the proxy, as `drive_proxy.py` tells it."""

    events: list[Event]
    set: list[str]
    said: list[str]
    complained: list[str]
    exit: int
    printed: str

    @classmethod
    def of(cls, printed: str) -> Self:
        """Read what the driver printed."""
        return cls(**json.loads(printed), printed=printed)

    def all(self, kind: str) -> list[Event]:
        """Give the events of one type, in order."""
        return [event for event in self.events if event["type"] == kind]

    def one(self, kind: str) -> Event:
        """Give the only event of its type."""
        (event,) = self.all(kind)
        return event

    @property
    def versions(self) -> list[str]:
        """What Probe says of each request: the version, or the exception."""
        return [line.split()[2].rstrip(":") for line in self.said if line.startswith("request ")]


def drive(lab: Lab, spec: dict[str, Any], argv: Sequence[str]) -> Driven:
    """Run one of the real programs through the proxy."""
    ran = lab.run_here([*DRIVER, json.dumps(spec), "--", *lab.parts.command(argv)])
    assert ran.exit == 0, ran
    return Driven.of("\n".join(ran.stdout))


def jdk(url: str, where: str, mode: str, count: int = 1) -> list[str]:
    """The JDK's client with no trust store of its own: it is to take the one that it is handed."""
    return [each for each in java(url, where, mode, count) if not each.startswith("-Djavax")]


def test_the_jdk_behind_the_proxy(lab: Lab) -> None:
    """The JDK asks for HTTP/3, and its CONNECT, its hello and no exchange are all that the blind proxy sees."""
    driven = drive(lab, EXPLICIT, java(URL, "client", "ANY", 2))
    assert driven.versions == ["HTTP_2", "HTTP_2"], driven
    asked, answered, hello = driven.one("tunnel_asked"), driven.one("tunnel_answered"), driven.one("client_hello")
    assert (asked["host"], asked["port"], asked["method"]) == ("localhost", ADVERTISED, "CONNECT")
    assert (answered["status"], answered["by"]) == (200, "proxy")
    assert (hello["sni"], hello["alpn"]) == ("localhost", ["h2", "http/1.1"])
    assert hello["ja4"].startswith("t13d")
    ended = driven.one("connection_ended")
    assert ended["tunnel"] == asked["id"]
    assert min(ended["sent"], ended["received"]) > 500
    assert driven.all("exchange") == []
    assert any(line.startswith("JAVA_TOOL_OPTIONS=") and "nonProxyHosts=" in line for line in driven.set)


def test_the_jdk_with_http_3_uri_only(lab: Lab) -> None:
    """Asked for HTTP/3 and nothing else, the JDK sends nothing to the proxy at all."""
    driven = drive(lab, EXPLICIT, java(URL, "client", "HTTP_3_URI_ONLY"))
    assert driven.versions == ["jdk.internal.net.http.common.UnsupportedProtocolVersionException"] or all(
        "Exception" in version for version in driven.versions
    ), driven
    assert driven.events == []


def test_curl_asks_for_connect_udp_first(lab: Lab) -> None:
    """The newest curl asks for HTTP/3 through the proxy, is told that there is none, and asks no further."""
    driven = drive(lab, EXPLICIT, curl(URL, "--http3"))
    asked = driven.all("tunnel_asked")
    assert asked[0]["method"] == "connect-udp", driven
    assert (asked[0]["host"], asked[0]["port"]) == ("localhost", ADVERTISED)
    answered = next(event for event in driven.all("tunnel_answered") if event["id"] == asked[0]["id"])
    assert (answered["status"], answered["by"]) == (501, "proxy")
    # Whether it then falls back to CONNECT is its own decision; if it does, that works.
    for event in asked[1:]:
        assert event["method"] == "CONNECT"
        assert driven.exit == 0


def test_a_python_client(lab: Lab) -> None:
    """Python's own client finds the proxy in its environment."""
    code = (
        "import ssl, urllib.request as u; c = ssl.create_default_context(cafile='ca.pem'); "
        f"print(u.urlopen({URL!r}, context=c).status)"
    )
    ran = lab.run_here([*DRIVER, json.dumps(EXPLICIT), "--", sys.executable, "-c", code])
    driven = Driven.of("\n".join(ran.stdout))
    assert driven.said == ["200"], driven
    assert driven.one("client_hello")["sni"] == "localhost"
    assert driven.one("tunnel_answered")["status"] == 200


def test_through_squid(lab: Lab) -> None:
    """Chained before squid, with the credentials that it wants, the JDK works, and no credential is anywhere."""
    lab.start_squid()
    driven = drive(lab, THROUGH_SQUID, java(URL, "client", "ANY"))
    assert driven.versions == ["HTTP_2"], driven
    answered = driven.one("tunnel_answered")
    assert (answered["status"], answered["by"]) == (200, "upstream")
    assert driven.one("onward_connection")["target"] == f"127.0.0.1:{SQUID}"
    assert driven.one("client_hello")["alpn"] == ["h2", "http/1.1"]
    for secret in ("top-secret", "bWU6dG9wLXNlY3JldA"):
        assert secret not in driven.printed


def test_squid_wants_to_know_who_asks(lab: Lab) -> None:
    """Without credentials squid's 407 reaches the client, and is trouble with the schemes that squid would take."""
    lab.start_squid()
    driven = drive(lab, EXPLICIT | {"upstream": f"http://127.0.0.1:{SQUID}"}, curl(URL))
    assert any("407" in line for line in driven.complained), driven
    trouble, answered = driven.one("upstream_trouble"), driven.one("tunnel_answered")
    assert (answered["status"], answered["by"]) == (407, "upstream")
    assert (trouble["kind"], trouble["status"], trouble["challenges"]) == ("refused", 407, ["Basic"])
    assert trouble["upstream"] == f"127.0.0.1:{SQUID}"


def test_squid_denies_a_host(lab: Lab) -> None:
    """A host that squid does not let anyone to is a 403 for the client, and trouble."""
    lab.start_squid()
    driven = drive(lab, THROUGH_SQUID, curl(f"https://h3.test:{ADVERTISED}/"))
    assert any("403" in line for line in driven.complained), driven
    trouble = driven.one("upstream_trouble")
    assert (trouble["kind"], trouble["status"]) == ("refused", 403)


def test_squid_declines_connect_udp(lab: Lab) -> None:
    """A request to proxy UDP is passed on to squid, which does not speak that, and squid's answer is what curl gets."""
    lab.start_squid()
    driven = drive(lab, THROUGH_SQUID, curl(URL, "--http3"))
    asked = driven.all("tunnel_asked")[0]
    assert asked["method"] == "connect-udp", driven
    answered = next(event for event in driven.all("tunnel_answered") if event["id"] == asked["id"])
    assert answered["by"] == "upstream"
    assert answered["status"] >= 400


def test_through_tinyproxy(lab: Lab) -> None:
    """tinyproxy lets through what it is configured to, and its refusal of another port is passed on."""
    lab.start_tinyproxy()
    spec = EXPLICIT | {"upstream": f"http://127.0.0.1:{PROXY}"}
    good = drive(lab, spec, curl(URL))
    assert [line.split()[:2] for line in good.said] == [["2", "200"]], good
    assert good.one("tunnel_answered")["by"] == "upstream"
    refused = drive(lab, spec, curl("https://localhost:1/"))
    assert refused.one("upstream_trouble")["status"] == 403, refused


TUNNEL = f"""
import socket, pathlib
def connect():
    s = socket.create_connection(("127.0.0.1", {PORT}))
    s.sendall(b"CONNECT localhost:{ADVERTISED} HTTP/1.1\\r\\n\\r\\n")
    return s, s.recv(65536)
s, answer = connect()
print(answer.split(b"\\r\\n")[0].decode())
pathlib.Path("open").touch()
print(s.recv(65536))
print(connect()[1].split(b"\\r\\n")[0].decode())
"""


def test_squid_is_stopped_in_the_middle(lab: Lab) -> None:
    """When squid goes away its tunnels end, by the server's side; the next one cannot be had, and that is trouble."""
    squid = lab.start_squid()
    argv = [*DRIVER, json.dumps(THROUGH_SQUID), "--", sys.executable, "-c", TUNNEL]
    driver = lab.netns.start(argv, cwd=lab.folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    deadline = time.monotonic() + PATIENCE_S
    while not (lab.folder / "open").exists():
        assert driver.poll() is None, driver.communicate()
        assert time.monotonic() < deadline
        time.sleep(0.02)
    stop(squid)
    printed, complained = driver.communicate(timeout=PATIENCE_S)
    assert driver.returncode == 0, complained
    driven = Driven.of(printed)
    assert driven.said == ["HTTP/1.1 200 Connection established", "b''", "HTTP/1.1 502 Bad Gateway"], driven
    first, second = driven.all("tunnel_asked")
    ended = next(event for event in driven.all("connection_ended") if event["tunnel"] == first["id"])
    assert ended["closed_by"] == "server"
    trouble = driven.one("upstream_trouble")
    assert (trouble["kind"], trouble["tunnel"], trouble["text"]) == ("unreachable", second["id"], "connection refused")


def test_interception_of_the_jdk(lab: Lab) -> None:
    """With TLS terminated the same run shows HTTP/2 and the Alt-Svc value, and the JDK trusts what it was handed."""
    driven = drive(lab, EXPLICIT | {"intercept_all": True}, jdk(URL, "client", "ANY", 2))
    assert driven.versions == ["HTTP_2", "HTTP_2"], driven
    exchanges = driven.all("exchange")
    assert [(each["version"], each["server_version"], each["status"]) for each in exchanges] == [
        ("HTTP/2", "HTTP/2", 200)
    ] * 2
    assert {each["origin"] for each in exchanges} == {f"https://localhost:{ADVERTISED}"}
    assert all(each["intercepted"] for each in exchanges)
    assert [each["lines"] for each in driven.all("alt_svc")] == [[f'h3=":{ADVERTISED}"; ma=3600']] * 2
    assert any("trustStore=/lab/proxy/trust.p12" in line for line in driven.set)


def test_interception_of_curl(lab: Lab) -> None:
    """curl trusts the bundle that it is handed."""
    argv = [each for each in curl(URL) if each not in {"--cacert", "ca.pem"}]
    driven = drive(lab, EXPLICIT | {"intercept_all": True}, argv)
    assert [line.split()[:2] for line in driven.said] == [["2", "200"]], driven
    assert driven.one("exchange")["version"] == "HTTP/2"


@pytest.mark.parametrize("argv", [curl(URL), java(URL, "client", "ANY")], ids=["curl", "jdk"])
def test_a_client_with_trust_of_its_own(lab: Lab, argv: list[str]) -> None:
    """A client that trusts the server's authority alone just leaves, is reported, and then is passed through."""
    twice = ["sh", "-c", '"$@"; "$@"', "sh", *argv]
    driven = drive(lab, EXPLICIT | {"intercept_all": True}, twice)
    rejected = driven.one("ca_rejected")
    assert (rejected["host"], rejected["transport"], rejected["alert"]) == ("localhost", "tcp", None), driven
    assert "200" in driven.said[-1]
    assert driven.all("exchange") == []


def test_a_reverse_proxy_before_nginx(lab: Lab) -> None:
    """The JDK's client-level ANY through a reverse proxy: HTTP/2, then HTTP/3, each seen with its version."""
    spec = {"reverse": f"{REVERSE}=localhost:{ADVERTISED}", "intercept_all": True}
    argv = jdk(f"https://localhost:{REVERSE}/", "client", "ANY", 3)
    argv[1:1] = ["-Djavax.net.ssl.trustStore=/lab/proxy/trust.p12", "-Djavax.net.ssl.trustStorePassword=changeit"]
    driven = drive(lab, spec, argv)
    exchanges = driven.all("exchange")
    assert [each["version"] for each in exchanges] == [
        version.replace("HTTP_", "HTTP/") for version in driven.versions
    ], driven
    assert driven.versions[0] in {"HTTP_2", "HTTP_3"}
    assert driven.versions[1:] == ["HTTP_3", "HTTP_3"], driven
    assert {tuple(each["lines"]) for each in driven.all("alt_svc")} == {(f'h3=":{ADVERTISED}"; ma=3600',)}
    assert {tuple(each["passed_on"]) for each in driven.all("alt_svc")} == {(f'h3=":{REVERSE}"; ma=3600',)}
    assert {each["transport"] for each in driven.all("client_hello")} == {"tcp", "udp"}


def test_a_blind_reverse_proxy_before_nginx(lab: Lab) -> None:
    """Without interception TLS and QUIC pass through: the JDK trusts nginx itself, over HTTP/2 and HTTP/3."""
    spec = {"reverse": f"{REVERSE}=localhost:{ADVERTISED}"}
    driven = drive(lab, spec, java(f"https://localhost:{REVERSE}/", "request", "ANY", 2))
    assert driven.versions == ["HTTP_3", "HTTP_3"], driven
    hello = driven.one("client_hello")
    assert (hello["transport"], hello["alpn"], len(hello["dcid"]) // 2) == ("udp", ["h3"], 17)
    over_tcp = drive(lab, spec, curl(f"https://localhost:{REVERSE}/", "--http2"))
    assert [line.split()[:2] for line in over_tcp.said] == [["2", "200"]], over_tcp
    assert over_tcp.one("client_hello")["transport"] == "tcp"
