"""What a client says about one of its requests."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

HttpVersion = Literal["HTTP/1.1", "HTTP/2", "HTTP/3"]


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
