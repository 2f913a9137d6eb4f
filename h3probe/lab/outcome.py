"""What a client says about one of its requests, and the line in which the lab's clients say it."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final, Literal

HttpVersion = Literal["HTTP/1.1", "HTTP/2", "HTTP/3"]

_LINE: Final = re.compile(
    r"request (?P<number>\d+): (?P<result>.*) after (?P<millis>\d+) ms(?: from port (?P<port>\d+))?"
)
_RESPONSE: Final = re.compile(r"(?P<version>HTTP_\S+) (?P<status>\d{3}) alt-svc=(?P<alt_svc>.*)")
_VERSIONS: Final[dict[str, HttpVersion]] = {"HTTP_1_1": "HTTP/1.1", "HTTP_2": "HTTP/2", "HTTP_3": "HTTP/3"}
_WRITTEN: Final[dict[HttpVersion, str]] = {version: written for written, version in _VERSIONS.items()}


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of one request.

    Attributes:
        number: From 1.
        version: What carried it; None when nothing did.
        status: The response's status code.
        alt_svc: Its first `Alt-Svc` value.
        seconds: From the call to the end of the response.
        error: Why there is no response.
        local_port: The client's port, UDP or TCP, where it tells.
    """

    number: int
    version: HttpVersion | None
    status: int | None
    alt_svc: str | None
    seconds: float
    error: str | None = None
    local_port: int | None = None


def parse_outcome(line: str) -> Outcome | None:
    """Read one line that Probe.java printed, or `write_outcome` wrote; None for anything else."""
    match = _LINE.fullmatch(line.strip())
    if match is None:
        return None
    number, seconds = int(match["number"]), int(match["millis"]) / 1000
    port = int(match["port"]) if match["port"] else None
    response = _RESPONSE.fullmatch(match["result"])
    if response is None:
        return Outcome(number, None, None, None, seconds, match["result"], port)
    alt_svc = None if response["alt_svc"] == "-" else response["alt_svc"]
    return Outcome(number, _VERSIONS.get(response["version"]), int(response["status"]), alt_svc, seconds, None, port)


def write_outcome(outcome: Outcome) -> str:
    """The line that Probe.java prints for such an outcome, and the client's port, which Java does not tell."""
    result = outcome.error or "no response"
    if outcome.version is not None:
        result = f"{_WRITTEN[outcome.version]} {outcome.status} alt-svc={outcome.alt_svc or '-'}"
    port = f" from port {outcome.local_port}" if outcome.local_port else ""
    return f"request {outcome.number}: {result} after {outcome.seconds * 1000:.0f} ms{port}"
