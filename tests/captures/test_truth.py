"""H3probe's answer against what the client itself printed."""

from __future__ import annotations

from collections import Counter

import jsonschema
import pytest

from h3probe.show.schema import json_schema
from tests.captures.recordings import FOLDER, NAMES, answer, of_type, requests

NOTICEABLE = 1.0
CLOSE_ENOUGH = 0.5
# It waited on, and failed with, another request's pending attempt: the wire shows that attempt alone.
OUTAGE = "stuck-on-quic"
JOINED = "quic handshake timeout"
DIRECT, INITIAL = "maxDirectConnectionTimeout", "maxInitialTimeout"

each = pytest.mark.parametrize("name", NAMES)


def test_the_recordings_are_whole() -> None:
    """At least ten scenarios, each a capture with its truth, and nothing left over."""
    assert len(NAMES) >= 10
    assert sorted(path.name.removesuffix(".truth.json") for path in FOLDER.glob("*.truth.json")) == NAMES
    for name in NAMES:
        assert f"`{name}`" in (FOLDER / "README.md").read_text(encoding="utf-8")


@each
def test_every_record_is_valid(name: str) -> None:
    """Real output keeps to the output contract."""
    validator = jsonschema.Draft202012Validator(json_schema())
    for record in answer(name):
        validator.validate(record)


@each
def test_carried_is_never_wrong(name: str) -> None:
    """Who carried the first request of a race is null, or what the client said."""
    for number, race in enumerate(of_type(name, "race")):
        if race["carried"] is not None:
            assert number == 0, "only the first request's race is compared"
            assert race["carried"] == ("quic" if requests(name)[0].version == "HTTP/3" else "tcp")
            assert race["carried_known_from"] == "inferred"


@each
def test_versions_are_null_or_right(name: str) -> None:
    """Counts of exchanges per version are null, or the client's."""
    said = Counter(request.version for request in requests(name) if request.version is not None)
    for verdict in of_type(name, "verdict"):
        assert verdict["versions"] is None or Counter(verdict["versions"]) == said


@each
def test_the_verdict_does_not_contradict_the_client(name: str) -> None:
    """HTTP/3 is claimed for requests only where the client had it, and denied only where it had not."""
    versions = [request.version for request in requests(name)]
    (verdict,) = of_type(name, "verdict")
    sentence: str = verdict["sentence"]
    if "from the first request" in sentence:
        assert sentence.startswith("HTTP/3")
        assert set(versions) == {"HTTP/3"}
    if "not HTTP/3" in sentence or "no QUIC packet" in sentence or "CONNECT tunnel" in sentence:
        assert "HTTP/3" not in versions
    if "won the race" in sentence:
        assert versions[0] == ("HTTP/3" if sentence.startswith("HTTP/3") else "HTTP/2")
    if "first, then HTTP/3" in sentence:
        assert versions[0] == "HTTP/2"
        assert versions[-1] == "HTTP/3"
    if sentence.startswith("No connection"):
        assert set(versions) == {None}


@each
def test_the_cost_is_the_clients_own_wait(name: str) -> None:
    """Every noticeable wait has its cost, and every noticeable cost its wait; an outage's is its failures'."""
    costly = [f for f in of_type(name, "finding") if f["cost"] is not None and f["cost"] > NOTICEABLE]
    costs = [f["cost"] for f in costly]
    waits = [r.waited for r in requests(name) if r.waited > NOTICEABLE and JOINED not in (r.error or "")]
    if [f["rule"] for f in costly] == [OUTAGE]:
        waits = [sum(r.waited for r in requests(name) if r.error)]
    assert sorted(costs) == pytest.approx(sorted(waits), abs=CLOSE_ENOUGH)


@each
def test_the_timer_that_was_waited_out_is_named(name: str) -> None:
    """Waits of 2.75 s and of 30 s of a JDK are named by their settings in the findings that have their cost."""
    if not name.startswith("jdk26"):
        return
    for finding in of_type(name, "finding"):
        cost = finding["cost"]
        if cost is None or cost <= NOTICEABLE or finding["rule"] == OUTAGE:
            continue  # Of an outage the application's own timeout is the cause.
        text = finding["summary"] + finding["advice"]
        assert "JDK 26 HttpClient" in text
        assert (DIRECT if cost < 10 else INITIAL) in text


@each
def test_the_exit_status_is_the_clients_fate(name: str) -> None:
    """1 exactly where a request failed or waited for more than a second."""
    bad = any(request.error or request.waited > NOTICEABLE for request in requests(name))
    (summary,) = of_type(name, "summary")
    assert summary["exit_status"] == int(bad)


@each
def test_the_client_is_recognised(name: str) -> None:
    """The software that the recording was made with is the software that is guessed, where any is."""
    guesses = {record["client_guess"] for kind in ("quic", "tcp") for record in of_type(name, kind)} - {None}
    word = "curl" if name.startswith("curl") else "Java"
    assert all(word in guess or ("JDK" in guess and word == "Java") for guess in guesses)
    assert guesses or not of_type(name, "quic")


def test_the_sixty_seconds_are_explained() -> None:
    """HTTP_3_URI_ONLY against a silent port: two attempts, their reason from the wire, both settings."""
    (finding,) = [f for f in of_type("jdk26-udp-dropped-uri-only", "finding") if f["rule"] == "repeated-timeout"]
    assert "No response from peer for 30 seconds" in finding["summary"]
    assert "the same UDP port" in finding["summary"]
    assert "jdk.httpclient.disableRetryConnect" in finding["advice"]
    assert "jdk.httpclient.quic.maxInitialTimeout" in finding["advice"]
