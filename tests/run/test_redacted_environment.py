"""Where something was recorded, without names."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from h3probe.redact import Mapping, Redactor
from h3probe.run.environment import of_capture, of_run
from h3probe.run.redacted_environment import redacted_environment
from tests.redact.flows import KEY


def redacted(environment: dict[str, object]) -> dict[str, object]:
    """With a mapping of its own."""
    return redacted_environment(environment, Redactor(Mapping(KEY)))


def test_names_are_the_packets() -> None:
    """Interfaces, addresses, proxies and programs have the names that they have in packets."""
    redactor = Redactor(Mapping(KEY))
    host, address = (redactor.mapping.host(each).decode("latin-1") for each in (b"proxy.secret.org", b"192.168.7.23"))
    found = redacted_environment(
        {
            "os": "Linux 6.8.0-annsbox", "machine": "x86_64", "hostname": "annsbox", "files": ["ann.pcap"],
            "interfaces": [{"name": "ann-vpn", "addresses": ["192.168.7.23", "ann"], "up": True, "mtu": 1500}],
            "proxy_settings": {
                "https_proxy": "http://proxy.secret.org:3128/", "http_proxy": "proxy.secret.org:3128",
                "NO_PROXY": "*.secret.org, 192.168.7.23,localhost,192.168.7.0/24,*",
                "JAVA_TOOL_OPTIONS": "-Dhttps.proxyHost=proxy.secret.org -Dhttps.proxyPort=3128 "
                                     "-Dhttp.nonProxyHosts=*.secret.org|localhost|192.168.7.* "
                                     "-Djdk.httpclient.HttpClient.log=errors,quic",
            },
            "client": {"program": "annstool", "path": "/opt/ann/annstool", "java_version": "26.0.1"},
            "clock": {"began": "2026-01-01T00:00:00Z", "offset_from_utc_s": 3600, "synchronized": None},
        },
        redactor,
    )  # fmt: skip
    text = json.dumps(found)
    for hidden in ("ann", "secret", "192.168.7", "/opt"):
        assert hidden not in text
    assert found["os"] == "Linux 6.8.0"
    assert found["interfaces"] == [{"name": "interface1", "addresses": [address], "up": True, "mtu": 1500}]
    settings = found["proxy_settings"]
    assert settings["https_proxy"] == f"http://{host}:3128/"
    assert settings["http_proxy"] == f"{host}:3128"
    domain = redactor.mapping.host(b"secret.org").decode()
    assert settings["NO_PROXY"].startswith(f"*.{domain},{address},localhost,")
    assert settings["JAVA_TOOL_OPTIONS"].startswith(f"-Dhttps.proxyHost={host} -Dhttps.proxyPort=3128 ")
    assert f"-Dhttp.nonProxyHosts=*.{domain}|localhost|" in settings["JAVA_TOOL_OPTIONS"]
    assert settings["JAVA_TOOL_OPTIONS"].endswith(" -Djdk.httpclient.HttpClient.log=errors,quic")
    assert found["client"]["java_version"] == "26.0.1"
    assert found["clock"]["offset_from_utc_s"] == 3600


def test_what_tells_nothing_stays() -> None:
    """Versions of what this machine has."""
    given = of_run(["curl", "https://secret.org/"], [], {"no_proxy": "localhost"})
    found = redacted(given)
    for name in ("h3probe", "python", "packages", "recorded", "machine", "clock"):
        assert found[name] == given[name]
    assert found["client"] == {"program": "curl"}
    assert found["proxy_settings"] == {"no_proxy": "localhost"}
    assert redacted(of_capture(["/home/ann/x.pcap"]))["recorded"] == "elsewhere"


@pytest.mark.parametrize(
    "wrong", ["ann", 5, None, [], ["ann"], {"ann": "ann"}, [{"name": ["ann"], "addresses": "ann"}]]
)
def test_a_strangers_environment(wrong: object) -> None:
    """Whatever stands where: nothing of it is passed on that is not known."""
    names = ("h3probe", "os", "packages", "interfaces", "proxy_settings", "client", "clock", "packets_kept", "more")
    text = json.dumps(redacted(dict.fromkeys(names, wrong)))
    assert "ann" not in text


TEXTS = st.text() | st.just("\ud800") | st.sampled_from(["http://h:1", "-Dhttps.proxyHost=h", "*.h,[::1]:3128", "::1"])
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["name", "addresses", "up"]), inner),
    max_leaves=8,
)
PARTS = ("h3probe", "os", "packages", "interfaces", "proxy_settings", "client", "clock", "machine", "program")


@given(
    st.dictionaries(
        st.sampled_from(PARTS),
        JSON | st.dictionaries(st.sampled_from(["https_proxy", "NO_PROXY", "JAVA_TOOL_OPTIONS", "program"]), JSON),
    )
)
def test_whatever_a_bundle_says(environment: dict[str, object]) -> None:
    """A bundle's JSON may hold anything, text that is none as well: what comes out can be written."""
    assert json.dumps(redacted(environment)).isascii()


@pytest.mark.parametrize(
    "part",
    [
        {"client": {"program": "\ud800"}},
        {"interfaces": [{"name": "\ud800", "addresses": ["\ud800"]}]},
        {"proxy_settings": {"https_proxy": "\ud800://h", "no_proxy": "*.\ud800", "JAVA_TOOL_OPTIONS": "-Dx=\ud800"}},
    ],
)
def test_half_a_character(part: dict[str, object]) -> None:
    """JSON can spell halves of characters, which no encoding has."""
    assert "\\ud800" not in json.dumps(redacted(part))
