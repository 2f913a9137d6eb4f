"""`h3probe lab run` by an ordinary user, with a real JDK, each run in a network of its own."""

import json
from pathlib import Path
from typing import Any

import pytest

from .netns import give_routes
from .parts import Lab, RealParts
from .watching import H3PROBE

pytestmark = pytest.mark.xdist_group("isolate")


def lab_run(parts: RealParts, folder: Path, *arguments: str) -> tuple[int, list[dict[str, Any]]]:
    """Run it in a lab; the exit status and the objects it printed."""
    with Lab(parts, folder, "lab-run") as lab:
        folder.chmod(0o777)
        give_routes(lab.netns)
        command = [*H3PROBE, "lab", "run", "--json", *arguments]
        ran = lab.run_here(parts.as_user(["env", "PYTHONDONTWRITEBYTECODE=1", *command]))
    return ran.exit, [json.loads(line) for line in ran.stdout]


def test_two_experiments_of_the_articles(parts: RealParts, tmp_path: Path) -> None:
    """Three discovery modes and the proxy give what the article reports, and h3probe knows every version."""
    status, told = lab_run(parts, tmp_path / "lab", "03-discovery-modes", "06-proxy", "--client", "java")
    assert [(each["scenario"], each["misses"]) for each in told] == [
        *((f"03-discovery-modes/{number}", []) for number in (1, 2, 3)),
        *((f"06-proxy/{number}", []) for number in (1, 2)),
    ]
    assert status == 0
    for each in told[:3]:
        known = sorted(record["version"] for record in each["records"] if record["type"] == "exchange")
        assert known == sorted(outcome["version"] for outcome in each["outcomes"])
    assert "race-lost" in told[0]["findings"]
    assert "UnsupportedProtocolVersionException" in told[4]["verdict"]


def test_curl_and_a_command(parts: RealParts, tmp_path: Path) -> None:
    """curl has expectations of its own, and any other command is watched without."""
    status, told = lab_run(parts, tmp_path / "curl", "host-unreachable", "--client", "curl")
    assert (status, told[0]["as_expected"], told[0]["misses"]) == (0, True, [])
    command = "curl -sS --http3-only --cacert {ca} {url}"
    status, told = lab_run(parts, tmp_path / "command", "http3-uri-only", "--client", command)
    assert (status, told[0]["as_expected"]) == (0, None)
    assert told[0]["verdict"].startswith("HTTP/3 from the first request")
