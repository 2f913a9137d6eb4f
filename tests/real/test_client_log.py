"""The client's own log beside the wire: what was told of each request, and the connection that it leads to."""

import json
import re
import subprocess
from collections.abc import Iterator

import pytest

from h3probe.vantage.clientlog.jdk import CATEGORIES, PROPERTY

from .netns import Firewall
from .parts import ADVERTISED, PROXY, RealParts, curl, java
from .test_watch import PAST_NO_PROXY
from .watching import H3PROBE, Record, Scenario, SideBySide, Watched

URL = f"https://localhost:{ADVERTISED}/"

DIRECT = "-Djdk.httpclient.http3.maxDirectConnectionTimeout=15000"
"""So long that request 2 finds the attempt of request 1 pending, however slow the machine."""
SHORTER = "-Djdk.httpclient.quic.maxInitialTimeout=20"
KEPT = "-Djdk.httpclient.keepalive.timeout.h2=120"

LOGGED = ["--client-log"]
RECORDED = ["--client-log", "--show-log", "-w", "trace.pcapng"]
TRACED = ["-v", "--trace-ids", "--trace-time"]

SCENARIOS = {
    "advertised-and-blocked": Scenario(
        java(URL, "client", "ANY", 3, options=[DIRECT]), Firewall.DROP, options=RECORDED
    ),
    "blocked-with-a-shorter-timer": Scenario(
        # It lingers until the attempt has been closed, which comes after request 3 has left.
        java(
            URL,
            "client",
            "ANY",
            3,
            linger_ms=3000,
            options=[DIRECT, "-Djdk.httpclient.quic.maxInitialTimeout=20", KEPT],
        ),
        Firewall.DROP,
        options=RECORDED,
    ),
    "client-any": Scenario(java(URL, "client", "ANY", 3), options=RECORDED),
    "request-any": Scenario(java(URL, "request", "ANY", 2), options=LOGGED),
    "alt-svc": Scenario(java(URL, "client", "ALT_SVC", 3), options=LOGGED),
    "no-opt-in": Scenario(java(URL, "none", count=2), options=LOGGED),
    "turkish": Scenario(java(URL, "client", "ALT_SVC", 2, options=["-Duser.language=tr"]), options=RECORDED),
    "proxy": Scenario(
        java(URL, "client", "ANY", 2, proxy=PROXY, options=PAST_NO_PROXY), tinyproxy=True, options=LOGGED
    ),
    "uri-only-dropped": Scenario(
        java(URL, "client", "HTTP_3_URI_ONLY", options=["-Djdk.httpclient.quic.maxInitialTimeout=3"]),
        Firewall.DROP,
        options=LOGGED,
    ),
    "curl": Scenario(curl(URL, "--http3", *TRACED), options=RECORDED),
    "curl-dropped": Scenario(curl(URL, "--http3", *TRACED), Firewall.DROP, options=LOGGED),
    "curl-plain": Scenario(curl(URL, "--http2", "-v"), options=LOGGED),
}

PATIENT = ("advertised-and-blocked", "blocked-with-a-shorter-timer", "uri-only-dropped")

VERSIONS = {"HTTP_3": "HTTP/3", "HTTP_2": "HTTP/2", "HTTP_1_1": "HTTP/1.1", "3": "HTTP/3", "2": "HTTP/2"}

pytestmark = pytest.mark.xdist_group("client-log")


@pytest.fixture(scope="module")
def watched(parts: RealParts, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SideBySide]:
    """Give what came of each scenario, by its name."""
    side_by_side = SideBySide(parts, tmp_path_factory.mktemp("client-log"), SCENARIOS, PATIENT)
    yield side_by_side
    side_by_side.close()


def answers(seen: Watched) -> list[str]:
    """What the client itself says of each request: a version, or an exception."""
    written = [line.split()[0] for line in seen.said if re.match(r"\d(\.\d)? \d{3} \d", line)]
    return written or seen.answers


def in_order(seen: Watched) -> list[Record]:
    """The exchanges by their beginnings."""
    return sorted(seen.all("exchange"), key=lambda exchange: exchange["at"])


def connection(seen: Watched, exchange: Record) -> Record:
    """The connection of an exchange."""
    (found,) = [c for c in (*seen.all("quic"), *seen.all("tcp")) if c["id"] == exchange["connection"]]
    return found


@pytest.mark.parametrize("name", SCENARIOS)
def test_every_request_is_told_as_the_client_tells_it(watched: SideBySide, name: str) -> None:
    """One exchange for each request, of the version that the client itself prints, or none where it failed."""
    seen = watched[name]
    assert [e["version"] for e in in_order(seen)] == [VERSIONS.get(answer) for answer in answers(seen)]
    assert {e["known_from"] for e in seen.all("exchange")} == {"client-log"}


@pytest.mark.parametrize("name", SCENARIOS)
def test_every_request_leads_to_its_connection(watched: SideBySide, name: str) -> None:
    """None is without one, and its transport is the version's."""
    seen = watched[name]
    for exchange in in_order(seen):
        carrier = connection(seen, exchange)
        assert carrier["type"] == ("tcp" if exchange["version"] in {"HTTP/2", "HTTP/1.1"} else "quic")


@pytest.mark.parametrize("name", SCENARIOS)
def test_races_and_counts(watched: SideBySide, name: str) -> None:
    """A race is carried by what the client said of its first request, and the verdict counts the answers."""
    seen = watched[name]
    for race in seen.all("race"):
        carried = "quic" if VERSIONS[answers(seen)[0]] == "HTTP/3" else "tcp"
        assert (race["carried"], race["carried_known_from"]) == (carried, "client-log")
    answered = [VERSIONS[answer] for answer in answers(seen) if answer in VERSIONS]
    counts = {version: answered.count(version) for version in answered}
    assert seen.one("verdict")["versions"] == (counts or None)
    assert seen.one("verdict")["origin"] == URL.split("/")[2]


def test_advertised_and_blocked(watched: SideBySide) -> None:
    """Request 2 fails with request 1's attempt, and request 3 waits out the 30 s timer of an attempt of its own."""
    seen = watched["advertised-and-blocked"]
    first, second, third = in_order(seen)
    attempt, later = sorted(seen.all("quic"), key=lambda quic: quic["at"])
    assert (first["version"], first["status"], connection(seen, first)["type"]) == ("HTTP/2", 200, "tcp")
    assert (second["version"], second["status"], second["connection"]) == (None, None, attempt["id"])
    assert second["error"].endswith("HttpConnectTimeoutException: quic handshake timeout")
    assert second["at"] < attempt["at"] + 15
    assert (third["version"], third["status"]) == ("HTTP/2", 200)
    assert third["connection"] != first["connection"]
    assert third["took"] > 29.9
    assert third["at"] <= later["at"] < third["at"] + third["took"]
    fallback = seen.finding("fallback-delay")
    assert fallback["summary"].startswith("Request 3 to localhost:")
    assert "its 30 s timer" in fallback["summary"]
    assert "-Djdk.httpclient.quic.maxInitialTimeout" in fallback["advice"]
    assert fallback["cost"] == pytest.approx(third["took"], abs=2.0)
    assert " Request 3 waited " in seen.one("verdict")["sentence"]
    joined = seen.finding("joined-failing-attempt")
    assert joined["connections"] == [attempt["id"]]
    assert joined["cost"] == pytest.approx(second["took"], abs=0.001)
    assert joined["summary"].startswith("Request 2 to localhost:")
    assert seen.finding("stale-alt-svc")["connections"] == [later["id"]]


def test_a_request_that_goes_on_over_the_connection_that_is_there(watched: SideBySide) -> None:
    """With a timer shorter than a keep-alive, request 3 waits for it and sends no SYN: the log and the wire tell."""
    seen = watched["blocked-with-a-shorter-timer"]
    first, second, third = in_order(seen)
    assert (first["version"], second["version"], third["version"]) == ("HTTP/2", None, "HTTP/2")
    assert third["connection"] == first["connection"]
    fallback = seen.finding("fallback-delay")
    assert fallback["summary"].startswith("Request 3 to localhost:")
    assert "timer for the server's first Initial, set to 20 s" in fallback["summary"]
    assert fallback["cost"] == pytest.approx(third["took"], abs=2.0)
    assert seen.finding("joined-failing-attempt")["summary"].startswith("Request 2 to localhost:")


def test_ready_first_and_not_used(watched: SideBySide) -> None:
    """What no packet can tell: request 1 went over HTTP/2, whichever was ready first."""
    seen = watched["client-any"]
    race = seen.one("race")
    assert race["first_ready"] in {"quic", "tcp"}
    said = "the client lost that race" in seen.one("verdict")["sentence"]
    assert said == (race["first_ready"] != race["carried"])


@pytest.mark.parametrize("name", ["advertised-and-blocked", "blocked-with-a-shorter-timer"])
def test_what_is_printed_afterwards(watched: SideBySide, name: str) -> None:
    """`explain --client-log` prints for request 2 what it joined, and for request 3 its timer and the setting."""
    seen = watched[name]
    (seen.folder / "client.log").write_text("\n".join(seen.said))
    command = [*H3PROBE, "explain", "trace.pcapng", "--client-log", "client.log"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=seen.folder)
    text = " ".join(done.stdout.split())
    assert re.search(r"joined-failing-attempt Request 2 to localhost:\d+ failed", text)
    assert "waited on the QUIC attempt that an earlier request had begun" in text
    assert re.search(r"fallback-delay cost [\d.]+ s Request 3 to localhost:\d+ waited for QUIC", text)
    assert "A smaller `-Djdk.httpclient.quic.maxInitialTimeout` (seconds) makes the wait shorter." in text


@pytest.mark.parametrize(
    "name", ["advertised-and-blocked", "blocked-with-a-shorter-timer", "client-any", "turkish", "curl"]
)
def test_afterwards_from_the_files(watched: SideBySide, name: str) -> None:
    """`explain --client-log` joins the same exchanges to the same connections."""
    seen = watched[name]
    (seen.folder / "client.log").write_text("\n".join(seen.said))
    command = [*H3PROBE, "explain", "--json", "trace.pcapng", "--client-log", "client.log"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=seen.folder)
    records = [json.loads(line) for line in done.stdout.splitlines()]
    carriers = {r["id"]: (r["client"], r["server"]) for r in records if r["type"] in {"quic", "tcp"}}
    assert sorted(
        (e["version"] or "", str(e["status"]), *carriers[e["connection"]]) for e in records if e["type"] == "exchange"
    ) == sorted(
        (e["version"] or "", str(e["status"]), connection(seen, e)["client"], connection(seen, e)["server"])
        for e in in_order(seen)
    )


def test_the_log_is_kept_back_unless_it_is_wanted(watched: SideBySide) -> None:
    """Without `--show-log` no line of it is seen, and what was set is said; with it they are there."""
    silent, loud = watched["request-any"], watched["client-any"]
    assert not [line for line in silent.said if "jdk.internal.net.http" in line or line.startswith("INFO:")]
    assert any(f"JAVA_TOOL_OPTIONS=-D{PROPERTY}={CATEGORIES}" in line for line in silent.said)
    assert any("INFO: RESPONSE: " in line for line in loud.said)
    assert "< HTTP/2 200 " in watched["curl-plain"].said
