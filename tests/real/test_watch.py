"""`h3probe watch` around real clients against nginx: what each did, and what it cost, on the wire alone."""

import json
import shutil
import subprocess
from collections.abc import Iterator

import pytest

from .netns import Firewall
from .parts import ADVERTISED, PLAIN, PROXY, RealParts, curl, java
from .watching import H3PROBE, Record, Scenario, SideBySide, Watched

URL = f"https://localhost:{ADVERTISED}/"
CLOSED = f"https://localhost:{PLAIN}/"

PAST_NO_PROXY = ["-Dhttp.nonProxyHosts="]
"""The JDK goes past a proxy for `localhost` unless told not to."""

RECORDED = ["-w", "trace.pcapng"]

SCENARIOS = {
    "client-any": Scenario(java(URL, "client", "ANY", 4), options=RECORDED),
    "request-any": Scenario(java(URL, "request", "ANY", 2)),
    "alt-svc": Scenario(java(URL, "client", "ALT_SVC", 3)),
    "uri-only": Scenario(java(URL, "client", "HTTP_3_URI_ONLY", 2)),
    "dropped-client-any": Scenario(java(URL, "client", "ANY", 4), Firewall.DROP, options=RECORDED),
    "dropped-request-any": Scenario(
        java(URL, "request", "ANY"), Firewall.DROP, options=[*RECORDED, "--exit-code", "findings"]
    ),
    "dropped-uri-only": Scenario(java(URL, "client", "HTTP_3_URI_ONLY"), Firewall.DROP),
    "dropped-uri-only-3-s": Scenario(
        java(URL, "client", "HTTP_3_URI_ONLY", options=["-Djdk.httpclient.quic.maxInitialTimeout=3"]), Firewall.DROP
    ),
    "closed-client-any": Scenario(java(CLOSED, "client", "ANY", 2)),
    "closed-request-any": Scenario(java(CLOSED, "request", "ANY", 2)),
    "prohibited-request-any": Scenario(java(URL, "request", "ANY"), Firewall.ADMIN_PROHIBITED),
    "proxy-any": Scenario(java(URL, "client", "ANY", 2, proxy=PROXY, options=PAST_NO_PROXY), tinyproxy=True),
    "proxy-uri-only": Scenario(
        java(URL, "client", "HTTP_3_URI_ONLY", proxy=PROXY, options=PAST_NO_PROXY), tinyproxy=True
    ),
    "curl-http3": Scenario(curl(URL, "--http3"), options=RECORDED),
    "curl-http3-only": Scenario(curl(URL, "--http3-only")),
    "curl-http3-dropped": Scenario(curl(URL, "--http3"), Firewall.DROP),
    "curl-http3-only-prohibited": Scenario(curl(URL, "--http3-only"), Firewall.ADMIN_PROHIBITED),
    "noise": Scenario(
        java(URL, "request", "ANY", 10, pause_ms=50),
        options=RECORDED,
        noise=java(URL, "client", "ALT_SVC", 1000, pause_ms=20),
    ),
}

PATIENT = (
    "dropped-uri-only",
    "dropped-client-any",
    "dropped-uri-only-3-s",
    "dropped-request-any",
    "closed-request-any",
    "prohibited-request-any",
)
"""Those that spend their time waiting."""

JAVA = [name for name, scenario in SCENARIOS.items() if scenario.client[0] == "java"]
CURL = [name for name in SCENARIOS if name not in JAVA]
WITH_TRAFFIC = [name for name in SCENARIOS if name != "proxy-uri-only"]
WITH_FILE = [name for name, scenario in SCENARIOS.items() if "-w" in scenario.options and not scenario.noise]

pytestmark = pytest.mark.xdist_group("watch")


@pytest.fixture(scope="module")
def watched(parts: RealParts, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SideBySide]:
    """Give what came of each scenario, by its name."""
    side_by_side = SideBySide(parts, tmp_path_factory.mktemp("watch"), SCENARIOS, PATIENT)
    yield side_by_side
    side_by_side.close()


def explain(seen: Watched) -> tuple[list[Record], int]:
    """Give the records that the capture file leads to, and the exit status."""
    done = subprocess.run(
        [*H3PROBE, "explain", "--json", str(seen.folder / "trace.pcapng")], capture_output=True, text=True, check=False
    )
    return [json.loads(line) for line in done.stdout.splitlines()], done.returncode


def quic_then_tcp(seen: Watched) -> tuple[Record, Record]:
    """Give the only QUIC and the only TCP connection; QUIC began."""
    quic, tcp = seen.one("quic"), seen.one("tcp")
    assert quic["at"] < tcp["at"]
    return quic, tcp


@pytest.mark.parametrize("name", SCENARIOS)
def test_never_claims_what_is_encrypted(watched: SideBySide, name: str) -> None:
    """`versions` is null, and a race's `carried` is null or what the client itself said of its first request."""
    seen = watched[name]
    assert all(verdict["versions"] is None for verdict in seen.all("verdict"))
    for race in seen.all("race"):
        truth = "quic" if seen.answers[0] in {"HTTP_3", "3"} else "tcp"
        assert race["carried"] in (None, truth)
        assert (race["carried_known_from"] is None) == (race["carried"] is None)


@pytest.mark.parametrize("name", SCENARIOS)
def test_begins_and_ends_as_documented(watched: SideBySide, name: str) -> None:
    """The first record says what was watched, the last one counts the others, and nothing was lost."""
    seen = watched[name]
    assert [seen.records[0]["type"], seen.records[-1]["type"]] == ["capture", "summary"]
    summary = seen.one("summary")
    assert sum(summary["records"].values()) == len(seen.records)
    assert (summary["dropped"], summary["malformed"], summary["evicted"]) == (0, 0, 0)
    problem = any(finding["severity"] == "problem" for finding in seen.all("finding"))
    assert summary["exit_status"] == int(problem)


@pytest.mark.parametrize("name", [name for name in JAVA if name in WITH_TRAFFIC])
def test_every_connection_has_the_jdks_process(watched: SideBySide, name: str) -> None:
    """Each connection is the java process's, recognised as the JDK's client, and there is one story."""
    seen = watched[name]
    connections = [*seen.all("quic"), *seen.all("tcp"), *seen.all("tunnel")]
    assert {connection["process"]["name"] for connection in connections} == {"java"}
    assert len({connection["process"]["pid"] for connection in connections}) == 1
    assert {quic["client_guess"] for quic in seen.all("quic")} <= {"JDK 26 HttpClient"}
    assert len(seen.all("verdict")) == 1


@pytest.mark.parametrize("name", CURL)
def test_a_curl_that_lives_for_milliseconds(watched: SideBySide, name: str) -> None:
    """A connection of curl is attributed to curl or, when it was over too soon, to nobody; never to anyone else."""
    seen = watched[name]
    connections = [*seen.all("quic"), *seen.all("tcp")]
    assert connections
    assert {c["process"]["name"] for c in connections if c["process"] is not None} <= {"curl"}
    assert {quic["client_guess"] for quic in seen.all("quic")} == {"curl or another ngtcp2 client"}


def test_client_any(watched: SideBySide) -> None:
    """Told by the client, the JDK races: the Initial leaves first, the SYN soon after, and both are established."""
    seen = watched["client-any"]
    quic, tcp = quic_then_tcp(seen)
    assert (quic["outcome"], tcp["outcome"]) == ("established", "established")
    assert quic["sni"] is None
    assert tcp["sni"] == "localhost"
    race = seen.one("race")
    assert (race["quic"], race["tcp"]) == (quic["id"], tcp["id"])
    assert 0 < race["head_start"] < 1
    assert seen.exit == 0
    assert seen.one("verdict")["origin"] == f"localhost:{ADVERTISED}"


def test_request_any(watched: SideBySide) -> None:
    """Told by the request, the JDK speaks HTTP/3 at once, and opens no TCP connection."""
    seen = watched["request-any"]
    assert seen.answers == ["HTTP_3", "HTTP_3"]
    assert seen.one("quic")["outcome"] == "established"
    assert not seen.all("tcp")
    assert not seen.rules
    assert "HTTP/3 from the first request" in seen.one("verdict")["sentence"]


def test_alt_svc(watched: SideBySide) -> None:
    """With ALT_SVC there is no QUIC packet before TCP carried the response, and QUIC has SNI then."""
    seen = watched["alt-svc"]
    assert seen.answers == ["HTTP_2", "HTTP_3", "HTTP_3"]
    quic, tcp = seen.one("quic"), seen.one("tcp")
    assert quic["at"] > tcp["ready_at"]
    assert (quic["outcome"], quic["sni"]) == ("established", "localhost")
    assert not seen.all("race")
    assert "then HTTP/3" in seen.one("verdict")["sentence"]


def test_uri_only(watched: SideBySide) -> None:
    """HTTP_3_URI_ONLY is QUIC alone."""
    seen = watched["uri-only"]
    assert seen.one("quic")["outcome"] == "established"
    assert not seen.all("tcp")
    assert not seen.rules


def test_dropped_client_any(watched: SideBySide) -> None:
    """UDP dropped: TCP wins the race, and after Alt-Svc a request waits for the 30 s timer before TCP again."""
    seen = watched["dropped-client-any"]
    assert seen.answers[0] == "HTTP_2"
    first, second = seen.all("quic")
    assert [first["outcome"], second["outcome"]] == ["unanswered", "unanswered"]
    assert 2 < first["ended_at"] - first["at"] < 3.5
    assert second["sni"] == "localhost"
    assert second["close"]["reason"] == "No response from peer for 30 seconds"
    assert second["initials_sent"] == 5
    race = seen.one("race")
    assert (race["quic"], race["carried"]) == (first["id"], "tcp")
    delay = seen.finding("fallback-delay")
    assert 28 < delay["cost"] < 34
    assert delay["severity"] == "problem"
    assert "jdk.httpclient.quic.maxInitialTimeout" in delay["summary"]
    assert {"race-lost", "quic-unanswered"} <= seen.rules
    assert [tcp["outcome"] for tcp in seen.all("tcp")] == ["established", "established"]


def test_dropped_request_any(watched: SideBySide) -> None:
    """UDP dropped: the first request waits for the 2750 ms direct timer; the exit status tells of the problem."""
    seen = watched["dropped-request-any"]
    quic, tcp = quic_then_tcp(seen)
    assert (quic["outcome"], tcp["outcome"]) == ("unanswered", "established")
    assert not seen.all("race")
    delay = seen.finding("fallback-delay")
    assert 2 < delay["cost"] < 5
    # Where the machine was too busy for the wait to be the timer's, no timer is named.
    named = "jdk.httpclient.http3.maxDirectConnectionTimeout" in delay["summary"]
    assert named or delay["cost"] > 2.85
    assert seen.exit == 1


def test_dropped_uri_only(watched: SideBySide) -> None:
    """UDP dropped: two attempts of 30 s from one port, and both properties that shorten them are named."""
    seen = watched["dropped-uri-only"]
    first, second = seen.all("quic")
    assert first["client"] == second["client"]
    assert first["dcid"] != second["dcid"]
    assert [first["initials_sent"], second["initials_sent"]] == [5, 5]
    # A busy machine sends its first Initial long after it set the timer.
    assert 25 < second["at"] - first["at"] < 34
    assert first["close"]["reason"] == "No response from peer for 30 seconds"
    assert not seen.all("tcp")
    repeated = seen.finding("repeated-timeout")
    # The second attempt lasts as long, and ends with a CONNECTION_CLOSE if the JVM is still there to send it.
    closed = second["close"] is not None
    assert (50 if closed else 40) < repeated["cost"] < 65
    told = repeated["summary"] + repeated["advice"]
    assert "jdk.httpclient.disableRetryConnect" in told
    assert "jdk.httpclient.quic.maxInitialTimeout" in told
    assert "no-fallback" in seen.rules


def test_dropped_uri_only_with_a_timer_of_3_s(watched: SideBySide) -> None:
    """With `maxInitialTimeout=3` the two attempts take six seconds."""
    seen = watched["dropped-uri-only-3-s"]
    first, second = seen.all("quic")
    assert 1 < second["at"] - first["at"] < 5
    assert first["close"]["reason"] == "No response from peer for 3 seconds"
    assert 2 < seen.finding("repeated-timeout")["cost"] < 10


def test_closed_client_any(watched: SideBySide) -> None:
    """Nothing on UDP: TCP carries at once, and the ICMP error stands beside the QUIC attempt."""
    seen = watched["closed-client-any"]
    quic, _ = quic_then_tcp(seen)
    assert quic["outcome"] == "refused"
    assert seen.one("race")["carried"] == "tcp"
    refused = seen.finding("quic-refused")
    assert refused["severity"] == "notice"
    assert {icmp["connection"] for icmp in seen.all("icmp")} == {quic["id"]}
    assert {(icmp["icmp_type"], icmp["icmp_code"]) for icmp in seen.all("icmp")} == {(3, 3)}
    assert seen.one("summary")["exit_status"] == 0


def test_closed_request_any(watched: SideBySide) -> None:
    """Nothing on UDP: the JDK ignores the ICMP error and waits for its direct timer."""
    seen = watched["closed-request-any"]
    quic, _ = quic_then_tcp(seen)
    assert (quic["outcome"], quic["initials_sent"]) == ("refused", 2)
    assert 2 < seen.finding("fallback-delay")["cost"] < 5
    assert "does not notice" in seen.finding("quic-refused")["summary"]


def test_prohibited_request_any(watched: SideBySide) -> None:
    """A firewall that answers is told apart from a closed port."""
    seen = watched["prohibited-request-any"]
    assert {(icmp["icmp_type"], icmp["icmp_code"]) for icmp in seen.all("icmp")} == {(3, 13)}
    assert "prohibited" in seen.finding("quic-refused")["summary"]
    assert 2 < seen.finding("fallback-delay")["cost"] < 5


def test_proxy_any(watched: SideBySide) -> None:
    """Through a proxy there is one CONNECT tunnel, and no QUIC packet."""
    seen = watched["proxy-any"]
    assert seen.answers == ["HTTP_2", "HTTP_2"]
    assert not seen.all("quic")
    tunnel = seen.one("tunnel")
    assert (tunnel["proxy"], tunnel["target"], tunnel["status"]) == (
        f"127.0.0.1:{PROXY}",
        f"localhost:{ADVERTISED}",
        200,
    )
    assert tunnel["connection"] == seen.one("tcp")["id"]
    assert seen.rules == {"proxy-downgrade"}


def test_proxy_uri_only(watched: SideBySide) -> None:
    """With a proxy HTTP_3_URI_ONLY fails within the client: nothing is on the wire."""
    seen = watched["proxy-uri-only"]
    assert seen.answers == ["java.net.http.UnsupportedProtocolVersionException"]
    assert [record["type"] for record in seen.records] == ["capture", "summary"]


def test_curl_http3(watched: SideBySide) -> None:
    """Curl's QUIC is established, with SNI, within its head start."""
    seen = watched["curl-http3"]
    assert seen.answers == ["3"]
    (quic,) = [quic for quic in seen.all("quic") if quic["outcome"] == "established"]
    assert quic["sni"] == "localhost"


def test_curl_http3_only(watched: SideBySide) -> None:
    """With `--http3-only` there is no TCP."""
    seen = watched["curl-http3-only"]
    assert seen.answers == ["3"]
    assert not seen.all("tcp")


def test_curl_http3_dropped(watched: SideBySide) -> None:
    """UDP dropped: curl starts TCP after 100 to 200 ms."""
    seen = watched["curl-http3-dropped"]
    assert seen.answers == ["2"]
    tcp = [tcp for tcp in seen.all("tcp") if tcp["outcome"] == "established"][-1]
    assert 0.08 < tcp["at"] - seen.all("quic")[0]["at"] < 0.5
    assert not {quic["outcome"] for quic in seen.all("quic")} & {"established"}


def test_curl_http3_only_prohibited(watched: SideBySide) -> None:
    """UDP rejected: curl fails at once, on both families, and its exit status is passed on."""
    seen = watched["curl-http3-only-prohibited"]
    assert {quic["outcome"] for quic in seen.all("quic")} == {"refused"}
    assert seen.exit not in {0, 1, 2}
    # It lives for some 6 ms: where nobody could look whose the sockets were, nobody is accused.
    unknown = seen.one("verdict")["client"].endswith("owner not known")
    assert seen.finding("quic-refused")["severity"] == ("info" if unknown else "problem"), seen.records


def test_noise_is_left_out(watched: SideBySide) -> None:
    """Another JDK with the same origin at the same time, in the same network, is not reported."""
    seen = watched["noise"]
    assert seen.answers == ["HTTP_3"] * 10
    assert seen.one("quic")["process"]["name"] == "java"
    assert not seen.all("tcp")
    # It was there: the file has all that came by, and the other client begins with TCP.
    assert "tcp" in {record["type"] for record in explain(seen)[0]}


@pytest.mark.parametrize("name", WITH_FILE)
def test_the_file_tells_the_same(watched: SideBySide, name: str) -> None:
    """`explain` on the file of `-w` gives the connections, findings and verdicts of the live run."""
    seen = watched[name]
    records, status = explain(seen)
    assert status == seen.one("summary")["exit_status"]

    def essence(records: list[Record]) -> list[tuple[object, ...]]:
        told = [r for r in records if r["type"] in {"quic", "tcp", "tunnel", "race", "finding", "verdict"}]
        fields = ("type", "outcome", "history", "client", "rule", "severity", "cost", "summary", "sentence")
        # The client of a race or verdict is a process, which a file does not know.
        unknown = {"race", "verdict"}
        return sorted(
            (tuple(None if f == "client" and r["type"] in unknown else r.get(f) for f in fields) for r in told), key=str
        )

    assert essence(records) == essence(seen.records)


@pytest.mark.skipif(shutil.which("tshark") is None, reason="tshark is missing")
@pytest.mark.parametrize("name", WITH_FILE)
def test_the_file_is_read_by_tshark(watched: SideBySide, name: str) -> None:
    """Wireshark's own reader takes the file without a word of complaint, and sees all packets."""
    seen = watched[name]
    read = subprocess.run(
        ["tshark", "-r", str(seen.folder / "trace.pcapng"), "-T", "fields", "-e", "frame.number"],
        capture_output=True,
        text=True,
        check=False,
    )
    complaints = [line for line in read.stderr.splitlines() if not line.startswith("Running as user")]
    assert (read.returncode, complaints) == (0, [])
    assert len(read.stdout.splitlines()) == seen.one("summary")["packets"]


@pytest.mark.parametrize("name", WITH_FILE)
def test_the_file_has_no_payload(watched: SideBySide, name: str) -> None:
    """Of protected packets a few bytes are kept: no application data is in the file."""
    seen = watched[name]
    path = seen.folder / "trace.pcapng"
    assert path.stat().st_mode & 0o777 == 0o600
    assert path.stat().st_size < 40_000
