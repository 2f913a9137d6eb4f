from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.vantage.clientlog.netlog_builder import (
    CONTROLLER,
    JOB,
    OTHER_JOB,
    POOL,
    PROBE,
    PROBE_CLIENT,
    QUIC,
    UDP,
    UDP_CLIENT,
    behind,
    event,
    file,
    request,
)
from tests.vantage.clientlog.reading import written

if TYPE_CHECKING:
    from pathlib import Path


def attempt(port: int = 50_003, job: int = OTHER_JOB, pool: int = POOL, apart: int = 0) -> list[str]:
    """A job's own attempt over QUIC, as Chromium 156 tells of it, with its look for a way to IPv6 before."""
    probe_client, probe, client, udp, quic = (n + apart for n in (PROBE_CLIENT, PROBE, UDP_CLIENT, UDP, QUIC))
    return [
        behind(job, "BOUND_TO_QUIC_SESSION_POOL_JOB", pool),
        behind(probe, "SOCKET_ALIVE", probe_client),
        behind(probe_client, "SOCKET_ALIVE", pool),
        event(probe, "UDP_CONNECT", 1, {"address": "[2001:db8::8888]:443"}, phase=1),
        event(probe, "UDP_LOCAL_ADDRESS", 1, {"address": "[2001:db8::5]:50009"}),
        behind(udp, "SOCKET_ALIVE", client),
        behind(client, "SOCKET_ALIVE", pool),
        event(udp, "UDP_CONNECT", 1, {"address": "192.0.2.1:443"}, phase=1),
        event(udp, "UDP_CONNECT", 1, phase=2),
        event(udp, "UDP_LOCAL_ADDRESS", 1, {"address": f"10.0.0.5:{port}"}),
        behind(pool, "QUIC_SESSION_CREATED", quic),
    ]


def failing(error: int, *jobs: int, between: list[str]) -> list[str]:
    """A request that several jobs looked for a way for, and that failed."""
    return [
        event(1, "URL_REQUEST_START_JOB", 100, {"method": "GET", "url": "https://example.org/"}, phase=1),
        behind(1, "HTTP_STREAM_JOB_CONTROLLER_BOUND", CONTROLLER),
        behind(CONTROLLER, "HTTP_STREAM_JOB_CONTROLLER_BOUND", 1),
        *(behind(CONTROLLER, "HTTP_STREAM_REQUEST_STARTED_JOB", job) for job in jobs),
        *between,
        event(1, "REQUEST_ALIVE", 4_160, {"net_error": error}, phase=2),
    ]


def test_a_failure_over_quic_leads_to_its_attempt(tmp_path: Path) -> None:
    """The job's own socket is told of, not the one by which Chromium looked for a way to IPv6."""
    events = failing(-356, OTHER_JOB, JOB, between=attempt())
    (only,) = written(tmp_path / "netlog.json", file(*events)).exchanges
    assert only.error == "net::ERR_QUIC_PROTOCOL_ERROR"
    assert (str(only.client), str(only.server)) == ("10.0.0.5:50003", "192.0.2.1:443")


@pytest.mark.parametrize("error", [-356, -102])
def test_a_failure_that_may_be_of_several_attempts_is_of_none(tmp_path: Path, error: int) -> None:
    """With two QUIC attempts, and with an error that is not QUIC's, no connection is told."""
    second = attempt(50_004, JOB, POOL + 100, apart=100) if error == -356 else []
    events = failing(error, OTHER_JOB, JOB, between=[*attempt(), *second])
    (only,) = written(tmp_path / "netlog.json", file(*events)).exchanges
    assert (only.client, only.server) == (None, None)


@pytest.mark.parametrize("broken", [True, False])
def test_a_broken_alternative_is_told_of(tmp_path: Path, *, broken: bool) -> None:
    """What the controller knows of the alternative is told with the request that it looks for a way for."""
    known = {"alt_svc": "quic example.org:443, expires 2026-11-30 16:41:21", "is_broken": broken}
    events = request(1, "HTTP/2", "https://example.org/", 100)
    events[1:1] = [
        behind(1, "HTTP_STREAM_JOB_CONTROLLER_BOUND", CONTROLLER),
        event(CONTROLLER, "HTTP_STREAM_JOB_CONTROLLER_ALT_SVC_FOUND", 100, known),
    ]
    (only,) = written(tmp_path / "netlog.json", file(*events)).exchanges
    assert only.broken is broken
