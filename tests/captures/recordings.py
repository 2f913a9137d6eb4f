"""The recordings in `captures/`: what the client said about itself, and h3probe's answer to the same packets."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from h3probe.engine import Engine
from h3probe.show.ndjson import to_json
from h3probe.vantage.files import open_capture

FOLDER = Path(__file__).parents[2] / "captures"
NAMES = sorted(path.stem for path in FOLDER.glob("*.pcap"))

JAVA = re.compile(r"request \d+: (?P<version>HTTP_\S+|\S+Exception)(?P<rest>.*) after (?P<ms>\d+) ms")
CURL = re.compile(r"(?P<version>\d(?:\.\d)?) (?P<status>\d{3}) (?P<seconds>[\d.]+)")
VERSIONS = {"HTTP_1_1": "HTTP/1.1", "HTTP_2": "HTTP/2", "HTTP_3": "HTTP/3", "1.1": "HTTP/1.1", "2": "HTTP/2"}
VERSIONS["3"] = "HTTP/3"


@dataclass(frozen=True, slots=True)
class Request:
    """One request, in the client's own words.

    Attributes:
        version: What carried it; None when it failed.
        waited: Seconds.
        error: Why it failed, None when it did not.
    """

    version: str | None
    waited: float
    error: str | None


@cache
def requests(name: str) -> tuple[Request, ...]:
    """What the client said about each request of a recording."""
    truth = json.loads((FOLDER / f"{name}.truth.json").read_text(encoding="utf-8"))
    found = []
    for command in truth["commands"]:
        for line in command["stdout"]:
            if java := JAVA.fullmatch(line):
                version = VERSIONS.get(java["version"])
                error = None if version else java["version"] + java["rest"]
                found.append(Request(version, int(java["ms"]) / 1000, error))
            elif curl := CURL.fullmatch(line):
                version = VERSIONS.get(curl["version"]) if curl["status"] != "000" else None
                error = None if version else "; ".join(command["stderr"])
                found.append(Request(version, float(curl["seconds"]), error))
    assert found, f"{name}.truth.json says nothing that is understood"
    return tuple(found)


@cache
def answer(name: str) -> tuple[dict[str, Any], ...]:
    """H3probe's records, as a program reads them."""
    engine = Engine(f"{name}.pcap", "pcap")
    with open_capture(FOLDER / f"{name}.pcap") as reader:
        records = [record for event in reader for record in engine.feed(event)]
        records += engine.finish(truncated=reader.truncated, dropped=reader.dropped)
    return tuple(json.loads(to_json(record)) for record in records)


def of_type(name: str, kind: str) -> list[dict[str, Any]]:
    """The records of one type."""
    return [record for record in answer(name) if record["type"] == kind]
