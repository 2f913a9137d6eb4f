"""`h3probe watch -w NAME.h3probe.zip` around real clients: what the run said, and what its bundle says."""

import json
import os
import re
import subprocess
import zipfile
from collections.abc import Iterator

import pytest

from h3probe.redact import Mapping
from h3probe.redact.records import RecordRedactor

from .netns import Firewall
from .parts import ADVERTISED, PROXY, RealParts, curl, java
from .test_isolate_core import world
from .watching import H3PROBE, Record, Scenario, SideBySide, Watched

__all__ = ["world"]

URL = f"https://localhost:{ADVERTISED}/"
BUNDLE = "run.h3probe.zip"
WRITTEN = ["-w", BUNDLE]

SCENARIOS = {
    "noise": Scenario(
        java(URL, "request", "ANY", 5, pause_ms=50),
        options=WRITTEN,
        noise=java(URL, "client", "ALT_SVC", 1000, pause_ms=20),
    ),
    "client-log": Scenario(java(URL, "client", "ANY", 3), options=[*WRITTEN, "--client-log"]),
    "prohibited": Scenario(curl(URL, "--http3"), Firewall.ADMIN_PROHIBITED, options=WRITTEN),
    "keylog": Scenario(curl(URL, "--http3", "-4"), isolated=True, options=[*WRITTEN, "--keylog", "keys.log"]),
    "narrowed": Scenario(curl(URL, "--http3"), options=[*WRITTEN, "--origin", "localhost", "--expect", "h3"]),
    "tinyproxy": Scenario(
        java(URL, "client", "ANY", 2, proxy=PROXY, options=["-Dhttp.nonProxyHosts="]), tinyproxy=True, options=WRITTEN
    ),
    "proxy": Scenario(curl(URL, "--http2"), options=[*WRITTEN, "--proxy", "8899"]),
    "silent": Scenario(["sh", "-c", "exit 7"], options=[*WRITTEN, "--proxy", "8899"]),
    "isolated-refused": Scenario(curl(URL, "--http3", "-4"), isolated=True, options=[*WRITTEN, "--reject-udp"]),
    "isolated-silent": Scenario(["sh", "-c", "exit 7"], isolated=True, options=WRITTEN),
    "isolated-intercepted": Scenario(
        curl(URL, "--http2", "-4"), isolated=True, options=[*WRITTEN, "--intercept", "--server-ca", "ca.pem"]
    ),
}

REDACTED = {
    "redacted-live": Scenario(
        java(URL, "client", "ANY", 2), options=[*WRITTEN, "--redact", "--client-log", "--expect", "h3"]
    ),
    "redacted-live-capture": Scenario(
        curl(URL, "--http3", "-4"), isolated=True,
        options=["-w", "run.pcapng", "--redact", "--keylog", "keys.log"],
    ),
}  # fmt: skip

pytestmark = pytest.mark.xdist_group("watch-bundle")


@pytest.fixture(scope="module")
def watched(parts: RealParts, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SideBySide]:
    """Give what came of each scenario, by its name."""
    side_by_side = SideBySide(parts, tmp_path_factory.mktemp("bundle"), SCENARIOS | REDACTED, ("noise",))
    yield side_by_side
    side_by_side.close()


def explain(seen: Watched, bundle: str = BUNDLE) -> list[Record]:
    """Give the records that the bundle leads to."""
    done = subprocess.run(
        [*H3PROBE, "explain", "--json", str(seen.folder / bundle)], capture_output=True, text=True, check=False
    )
    assert done.stderr == ""
    records = [json.loads(line) for line in done.stdout.splitlines()]
    assert done.returncode == records[-1]["exit_status"]
    return records


def answer(records: list[Record]) -> dict[str, list[object]]:
    """What is concluded, without numbers that count in order of settling, and without the clock's last word."""
    findings = [r for r in records if r["type"] == "finding"]
    return {
        "verdicts": [[r["origin"], r["client"], r["versions"], r["sentence"], r["rules"]] for r in records
                     if r["type"] == "verdict"],
        "findings": sorted(
            [r["rule"], r["severity"], r["origin"] or "", r["summary"], r["advice"], r["evidence"], r["cost"]]
            for r in findings
        ),
        "expectations": [[r["origin"], r["met"], r["reason"]] for r in records if r["type"] == "expectation"],
        "exchanges": sorted(
            [[r["url"], r["version"], r["status"], r["known_from"], r["connection"]] for r in records
             if r["type"] == "exchange"], key=str
        ),
        "connections": sorted(
            [[r["id"], r["client"], r["server"], r["outcome"], r["process"], r["ready_at"], r["first_packet"]]
             for r in records if r["type"] in ("quic", "tcp")], key=str
        ),
        "exit": [records[-1]["exit_status"]],
    }  # fmt: skip


@pytest.mark.parametrize("name", SCENARIOS)
def test_the_bundle_gives_the_runs_own_answer(watched: SideBySide, name: str) -> None:
    """Verdicts, findings with their evidence, exchanges, connections with their processes, and the exit status."""
    seen = watched[name]
    assert answer(explain(seen)) == answer(seen.records)


@pytest.mark.parametrize("name", SCENARIOS)
def test_the_bundle_is_all_that_is_left(watched: SideBySide, name: str) -> None:
    """Its records are those that the run printed, only its owner may read it, and the folder is gone."""
    seen = watched[name]
    path = seen.folder / BUNDLE
    with zipfile.ZipFile(path) as archive:
        assert [json.loads(line) for line in archive.read("events.ndjson").splitlines()] == seen.records
        environment = json.loads(archive.read("environment.json"))
    assert path.stat().st_mode & 0o777 == 0o600
    assert not (seen.folder / "run.h3probe").exists()
    assert environment["client"]["program"]
    assert environment["dropped"]["packets"] == seen.one("summary")["dropped"]


def test_what_secrets_told_is_kept_and_they_are_not(watched: SideBySide) -> None:
    """The exchange that was decrypted is in the bundle; no secret is."""
    seen = watched["keylog"]
    (exchange,) = [record for record in explain(seen) if record["type"] == "exchange"]
    assert exchange["known_from"] == "decrypted"
    secrets = [line.split()[2] for line in (seen.folder / "keys.log").read_text().splitlines() if line[:1] != "#"]
    assert secrets
    with zipfile.ZipFile(seen.folder / BUNDLE) as archive:
        for name in archive.namelist():
            data = archive.read(name)
            assert not any(secret.encode() in data or bytes.fromhex(secret) in data for secret in secrets)


@pytest.mark.parametrize("name", ["noise", "isolated-intercepted"])
def test_wireshark_reads_the_packets_and_their_comments(watched: SideBySide, name: str) -> None:
    """Without a warning; the first packet of a connection has a comment that names the process."""
    seen = watched[name]
    with zipfile.ZipFile(seen.folder / BUNDLE) as archive:
        archive.extract("capture.pcapng", seen.folder)
    done = subprocess.run(
        ["tshark", "-n", "-r", seen.folder / "capture.pcapng", "-Y", "frame.comment", "-T", "fields",
         "-e", "frame.number", "-e", "frame.comment"],
        capture_output=True, text=True, check=True, env={**os.environ, "HOME": str(seen.folder)},
    )  # fmt: skip
    assert [line for line in done.stderr.splitlines() if not line.startswith("Running as user")] == []
    comments = dict(line.split("\t", 1) for line in done.stdout.splitlines())
    for connection in [*seen.all("quic"), *seen.all("tcp")]:
        if connection["process"] is not None:
            assert connection["process"]["name"] in comments[str(connection["first_packet"])]


@pytest.mark.parametrize("name", SCENARIOS)
def test_redacted_it_gives_the_same_answer(watched: SideBySide, name: str) -> None:
    """In other names, with the same packets: `redact` reads whatever a run observed."""
    seen = watched[name]
    redacted, mapping = seen.folder / "public.h3probe.zip", seen.folder / "private.json"
    subprocess.run(
        [*H3PROBE, "redact", str(seen.folder / BUNDLE), "-o", str(redacted), "--map", str(mapping)],
        check=True, capture_output=True,
    )  # fmt: skip
    redactor = RecordRedactor(Mapping.from_json(mapping.read_text()))
    before = [redactor.record(record) for record in explain(seen)]
    after = explain(seen, redacted.name)
    assert without_places(answer(after)) == without_places(answer(before))


def without_places(found: dict[str, list[object]]) -> str:
    """Without the numbers and times of packets: those before them may be of a kind that is left out."""
    found["connections"] = [each[:5] for each in found["connections"] if isinstance(each, list)]
    return re.sub(r'"(frame|at)": (?:[\d.e-]+|null)', r'"\1": 0', json.dumps(found))


def test_redacted_while_it_is_written(watched: SideBySide) -> None:
    """What the run prints is its user's own; in the bundle are other connection IDs, and the same verdict."""
    seen = watched["redacted-live"]
    records = explain(seen)
    for kind in ("verdict", "expectation"):
        assert [[r.get("versions"), r.get("met")] for r in records if r["type"] == kind] == [
            [r.get("versions"), r.get("met")] for r in seen.all(kind)
        ]
    assert records[-1]["exit_status"] == seen.one("summary")["exit_status"]
    ids = {r["dcid"] for r in seen.all("quic")}
    assert ids
    with zipfile.ZipFile(seen.folder / BUNDLE) as archive:
        assert json.loads(archive.read("environment.json"))["redacted"]["packets_made_noise"] == 0
        for name in archive.namelist():
            data = archive.read(name)
            assert not any(each.encode() in data or bytes.fromhex(each) in data for each in ids)


def test_a_redacted_capture_has_no_secrets(watched: SideBySide) -> None:
    """Whoever asks for a redacted capture gets no secrets in it, which would open nothing."""
    seen = watched["redacted-live-capture"]
    data = (seen.folder / "run.pcapng").read_bytes()
    assert b"_TRAFFIC_SECRET" in (seen.folder / "keys.log").read_bytes()
    assert b"_SECRET" not in data
    assert not any(bytes.fromhex(record["dcid"]) in data for record in seen.all("quic"))
