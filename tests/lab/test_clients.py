from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from h3probe.errors import UserError
from h3probe.lab.clients import (
    BuiltinClient,
    CurlClient,
    JavaClient,
    OtherClient,
    Place,
    find_curl,
    other_client,
    run_client,
)
from h3probe.lab.java import JavaRuntime
from h3probe.lab.outcome import Outcome
from h3probe.lab.scenario import load_scenarios, parse_scenario

if TYPE_CHECKING:
    from h3probe.lab.authority import Authority

URL = "https://localhost:4433/"
SCENARIOS = {scenario.name: scenario for scenario in load_scenarios()}
JAVA = JavaRuntime("java26", "openjdk 26")
MANY = parse_scenario(
    "many",
    """
title = "Many"
about = "at once"
server.kind = "h3"
client.requests = 3
java = { where = "client", mode = "ANY", clients = 3, connect_timeout_ms = 2000, fresh = 2, linger_ms = 9 }
expect.versions = ["any"]
""",
)


def test_builtin_has_the_scenarios_policy(authority: Authority) -> None:
    """Policy, requests, time-out and proxy of the scenario are in the built-in client's command line."""
    argv = BuiltinClient().argv(SCENARIOS["http3-only-blocked"], Place(URL, 3128, authority))
    assert argv[:7] == [sys.executable, "-P", "-m", "h3probe.lab.probe", URL, "h3-only", "1"]
    assert argv[7:] == ["--ca", str(authority.ca_file), "--timeout", "2.6", "--proxy", "3128"]


def test_curl_has_the_scenarios_options(authority: Authority) -> None:
    """Its options, its proxy, and an output and a URL for each request."""
    argv = CurlClient("/usr/bin/curl").argv(SCENARIOS["connect-tunnel"], Place(URL, 3128, authority))
    assert argv[:4] == ["/usr/bin/curl", "-sS", "--cacert", "ca.pem"]
    assert "--http2" in argv
    assert "http://127.0.0.1:3128" in argv
    assert argv[-6:] == ["-o", "/dev/null", URL, "-o", "/dev/null", URL]


def test_who_is_not_told_whom_to_trust_and_who_logs(authority: Authority, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without trust the environment decides; a log is asked for in the client's own way; Plain finds the proxy."""
    monkeypatch.setattr("h3probe.lab.clients.compile_programs", lambda *_: None)
    place = Place(URL, 3128, authority, trusts=False, log=Path("log"))
    assert "--ca" not in BuiltinClient().argv(MANY, place)
    curl = CurlClient("curl").argv(SCENARIOS["connect-tunnel"], place)
    assert "--cacert" not in curl
    assert {"-v", "--trace-ids", "--trace-time"} < set(curl)
    old = parse_scenario("old", 'title="a"\nabout="b"\nserver.kind="h3"\njava.program="Plain"\nexpect.versions=["any"]')
    argv = JavaClient(JAVA).argv(old, place)
    assert {"-Dhttps.proxyHost=127.0.0.1", "-Dhttps.proxyPort=3128"} < set(argv)
    assert any(each.startswith("-Djdk.httpclient.HttpClient.log=") for each in argv)
    assert not any("trustStore" in each for each in argv)


def test_java_is_told_by_properties(authority: Authority, monkeypatch: pytest.MonkeyPatch) -> None:
    """Many clients and the time-out are properties; several JVMs are a shell's loop."""
    monkeypatch.setattr("h3probe.lab.clients.compile_programs", lambda *_: None)
    argv = JavaClient(JAVA).argv(MANY, Place(URL, 0, authority))
    assert argv[:3] == ["sh", "-c", 'for i in $(seq 2); do "$@" || exit; done']
    assert argv[4] == "java26"
    assert {"-Dprobe.connectTimeout=2000", "-Dprobe.clients=3"} < set(argv)
    assert argv[-8:] == ["Probe", URL, "client", "ANY", "3", "0", "0", "9"]


def test_old_code_runs_on_the_old_java(authority: Authority, monkeypatch: pytest.MonkeyPatch) -> None:
    """Release 25 takes the other launcher, and is not played without one."""
    monkeypatch.setattr("h3probe.lab.clients.compile_programs", lambda *_: None)
    text = 'title = "a"\nabout = "b"\nserver.kind = "h3"\njava = { release = 25, program = "Plain" }\n'
    scenario = parse_scenario("old", text + 'expect.versions = ["any"]')
    both = JavaClient(JAVA, JavaRuntime("java25", "openjdk 25"))
    argv = both.argv(scenario, Place(URL, 0, authority))
    assert (argv[0], argv[-3:]) == ("java25", ["Plain", URL, "1"])
    assert both.obstacle(scenario) == ""
    assert JavaClient(JAVA, "no Java 25").obstacle(scenario) == "no Java 25"
    assert JavaClient(JAVA, "no Java 25").obstacle(MANY) == ""


def test_jvms_one_after_the_other_are_counted_on() -> None:
    """The first request of a second JVM is the second outcome."""
    line = "request 1: HTTP_2 200 alt-svc=- after 5 ms"
    numbers = [outcome.number for place in (1, 2) if (outcome := JavaClient(JAVA).outcome(line, place)) is not None]
    assert numbers == [1, 2]


def test_another_command_is_filled_in(authority: Authority) -> None:
    """URL, port, authority and proxy stand where the command wants them; nothing is expected of it."""
    client = OtherClient(("client", "--to={url}", "{port}", "{ca}", "{proxy}"))
    ca = str(authority.ca_file)
    assert client.argv(MANY, Place(URL, 0, authority)) == ["client", f"--to={URL}", "4433", ca, ""]
    assert client.argv(MANY, Place(URL, 8, authority))[-1] == "http://127.0.0.1:8"
    assert client.expects(MANY) is None


@pytest.mark.parametrize("text", ["", "no-such-program {url}", "'unclosed"])
def test_what_is_no_command_is_one_line(text: str) -> None:
    """A word that is no client and no program is refused."""
    with pytest.raises(UserError, match="--client"):
        other_client(text)


def test_scenarios_without_options_are_not_for_curl() -> None:
    """What nobody wrote options for is not played with curl."""
    client = CurlClient("curl")
    assert client.obstacle(SCENARIOS["stale-alt-svc"]) == "it is not for curl"
    assert client.expects(SCENARIOS["stale-alt-svc"]) is None
    assert client.obstacle(SCENARIOS["udp-refused"]) == ""


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("h3probe-lab 3 200 0.0127 40123 \n", Outcome(2, "HTTP/3", 200, None, 0.0127, None, 40123)),
        ("h3probe-lab 1.1 404 0.5 1", Outcome(2, "HTTP/1.1", 404, None, 0.5, None, 1)),
        ("h3probe-lab 0 000 2.0 -1 Connection refused", Outcome(2, None, None, None, 2.0, "Connection refused")),
        ("curl: (7) Connection refused", None),
    ],
)
def test_lines_of_curl(line: str, expected: Outcome | None) -> None:
    """What `-w` writes is read, with the message of an error; other lines are left alone."""
    assert CurlClient("curl").outcome(line, 2) == expected


def test_a_missing_curl_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without curl on PATH that is said."""
    monkeypatch.setenv("PATH", "/nonexistent")
    with pytest.raises(UserError, match="no curl on PATH"):
        find_curl()


@pytest.mark.skipif(sys.platform == "win32", reason="no shell")
@pytest.mark.parametrize(
    ("features", "obstacle"), [("alt-svc HTTP2 HTTP3", ""), ("alt-svc HTTP2", "curl has no HTTP/3")]
)
def test_a_curl_without_http3(features: str, obstacle: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It does not play what takes HTTP/3, and plays the rest."""
    path = tmp_path / "curl"
    path.write_text(f"#!/bin/sh\necho 'curl 8.99.0 (x86_64) libcurl/8.99.0'\necho 'Features: {features}'\n")
    path.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/bin:/usr/bin")
    curl = find_curl()
    assert (curl.program, curl.version) == (str(path), "curl 8.99.0")
    assert curl.obstacle(SCENARIOS["udp-blocked"]).endswith(obstacle)
    assert bool(curl.obstacle(SCENARIOS["udp-blocked"])) is bool(obstacle)
    assert not curl.obstacle(SCENARIOS["connect-tunnel"])


@pytest.mark.skipif(sys.platform == "win32", reason="no shell")
def test_a_client_is_heard_while_it_runs(tmp_path: Path) -> None:
    """Outcomes are told one by one, and given at the end."""
    told: list[int] = []
    lines = "echo request 1: HTTP_2 200 alt-svc=- after 5 ms; echo noise; echo request 2: gone after 6 ms"
    outcomes = asyncio.run(
        run_client(BuiltinClient(), ["sh", "-c", lines], tmp_path, lambda outcome: told.append(outcome.number))
    )
    assert told == [1, 2]
    assert [outcome.error for outcome in outcomes] == [None, "gone"]


@pytest.mark.skipif(sys.platform == "win32", reason="no shell")
@pytest.mark.parametrize("argv", [["sh", "-c", "echo broken >&2; exit 3"], ["/nonexistent/client"]])
def test_a_client_that_fails_is_one_line(argv: list[str], tmp_path: Path) -> None:
    """A client that cannot be started, or says nothing, is an error."""
    with pytest.raises(UserError, match=r"ended with status 3: broken|cannot be run"):
        asyncio.run(run_client(BuiltinClient(), argv, tmp_path, lambda _: None))
