from __future__ import annotations

from pathlib import Path

import pytest

from h3probe.events import Endpoint
from h3probe.vantage.proxy_settings import (
    JAVA_VARIABLE,
    PROXY_VARIABLES,
    Kind,
    kind_of,
    proxy_environment,
)
from h3probe.vantage.proxy_spec import PASSWORD_VARIABLE
from h3probe.vantage.proxy_trust import Trust

PROXY = Endpoint(bytes([127, 0, 0, 1]), 8899)
TRUST = Trust(Path("/data/my ca/ca.pem"), Path("/data/my ca/bundle.pem"), Path("/data/my ca/trust.p12"))


@pytest.mark.parametrize(
    ("argv", "kind"),
    [
        (["java", "-jar", "x.jar"], "java"),
        (["/usr/lib/jvm/26/bin/java"], "java"),
        (["./gradlew", "run"], "java"),
        (["app.jar"], "java"),
        (["curl", "https://example.org"], "native"),
        (["/usr/bin/python3.13", "x.py"], "native"),
        (["./start.sh"], "unknown"),
        ([], "unknown"),
    ],
)
def test_kinds(argv: list[str], kind: Kind) -> None:
    """A command's name tells whether there is a JVM in it."""
    assert kind_of(argv) == kind


def test_the_variables_that_most_programs_know() -> None:
    """All six are set, in both cases, and one line says so."""
    environment, lines = proxy_environment("native", PROXY, environment={"PATH": "/bin"})
    assert {environment[name] for name in PROXY_VARIABLES} == {"http://127.0.0.1:8899"}
    assert environment["PATH"] == "/bin"
    assert JAVA_VARIABLE not in environment
    assert lines[0] == (
        "HTTPS_PROXY=http://127.0.0.1:8899 (and https_proxy, HTTP_PROXY, http_proxy, ALL_PROXY, all_proxy)"
    )


def test_an_ipv6_proxy() -> None:
    """Its address stands in brackets where a URL is wanted, and without them where Java wants a host."""
    environment, _ = proxy_environment("unknown", Endpoint(bytes(15) + b"\x01", 8899), environment={})
    assert environment["https_proxy"] == "http://[::1]:8899"
    assert "-Dhttps.proxyHost=::1 -Dhttps.proxyPort=8899" in environment[JAVA_VARIABLE]


def test_java() -> None:
    """The JDK reads properties, and goes past a proxy on loopback unless its list of exceptions is emptied."""
    environment, lines = proxy_environment("java", PROXY, environment={JAVA_VARIABLE: "-Xmx1g"})
    assert environment[JAVA_VARIABLE] == (
        "-Xmx1g -Dhttp.proxyHost=127.0.0.1 -Dhttp.proxyPort=8899 "
        "-Dhttps.proxyHost=127.0.0.1 -Dhttps.proxyPort=8899 -Dhttp.nonProxyHosts="
    )
    assert lines[-1].startswith(f"{JAVA_VARIABLE}=-Dhttp.proxyHost=")
    assert lines[-1].endswith("(after what it was)")
    environment, _ = proxy_environment("java", PROXY, loopback=False, environment={})
    assert "nonProxyHosts" not in environment[JAVA_VARIABLE]


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("localhost,127.0.0.1", None),
        ("*", None),
        ("localhost, intranet.example ,::1,.corp", "intranet.example,.corp"),
        ("127.0.0.0/8,10.0.0.0/8", "10.0.0.0/8"),
        ("intranet.example", "intranet.example"),
        ("localhost.example", "localhost.example"),
    ],
)
def test_exceptions(before: str, after: str | None) -> None:
    """This host is taken off the list of what goes past a proxy; other hosts stay on it."""
    environment, lines = proxy_environment("native", PROXY, environment={"no_proxy": before})
    assert environment.get("no_proxy") == after
    assert any(line.startswith("no_proxy") for line in lines) == (after != before)
    environment, _ = proxy_environment("native", PROXY, loopback=False, environment={"no_proxy": before})
    assert environment["no_proxy"] == before


def test_the_proxy_that_was_set_before() -> None:
    """It is named, without its credentials, since the command does not go through it any more."""
    _, lines = proxy_environment("native", PROXY, environment={"http_proxy": "http://me:secret@corp:3128"})
    assert "corp:3128 was the proxy before: --upstream goes through it as well" in lines
    assert "secret" not in "".join(lines)


def test_trust() -> None:
    """With an authority to trust, every kind of client is told in its own way, also where its path has a space."""
    environment, lines = proxy_environment("unknown", PROXY, trust=TRUST, environment={})
    for name in ("SSL_CERT_FILE", "CURL_CA_BUNDLE", "REQUESTS_CA_BUNDLE"):
        assert environment[name] == "/data/my ca/bundle.pem"
    assert environment["NODE_EXTRA_CA_CERTS"] == "/data/my ca/ca.pem"
    assert "'-Djavax.net.ssl.trustStore=/data/my ca/trust.p12'" in environment[JAVA_VARIABLE]
    assert "-Djavax.net.ssl.trustStoreType=PKCS12" in environment[JAVA_VARIABLE]
    assert sum("bundle.pem" in line for line in lines) == 1


def test_a_proxy_before_a_server_is_no_setting() -> None:
    """A client is pointed at it by its address: the authority alone is handed over, and nothing without one."""
    environment, lines = proxy_environment("unknown", None, environment={"NO_PROXY": "localhost"})
    assert (environment, lines) == ({"NO_PROXY": "localhost"}, [])
    environment, lines = proxy_environment("unknown", None, trust=TRUST, environment={})
    assert environment["SSL_CERT_FILE"] == str(TRUST.bundle)
    assert environment[JAVA_VARIABLE].startswith("'-Djavax.net.ssl.trustStore=")
    assert not any(name in environment for name in PROXY_VARIABLES)
    assert "proxyHost" not in str(lines)


@pytest.mark.parametrize("kind", ["java", "native", "unknown"])
def test_trust_alone(kind: Kind) -> None:
    """A command in a network of its own is told of the authority, and keeps what proxy settings it had."""
    before = {"https_proxy": "http://corp:3128", "NO_PROXY": "localhost"}
    environment, lines = proxy_environment(kind, None, trust=TRUST, environment=before)
    assert environment.items() >= before.items()
    assert environment["SSL_CERT_FILE"] == str(TRUST.bundle)
    assert ("trustStore=" in environment.get(JAVA_VARIABLE, "")) == (kind != "native")
    assert "NODE_USE_ENV_PROXY" not in environment
    assert "proxyHost" not in str(lines)


def test_the_upstreams_password_is_not_the_commands() -> None:
    """It was handed to h3probe, for the proxy behind."""
    environment, lines = proxy_environment("native", PROXY, environment={PASSWORD_VARIABLE: "top-secret"})
    assert "top-secret" not in str(environment) + str(lines)
