"""Chromium's NetLog, made up."""

from __future__ import annotations

import json
from typing import Any

from h3probe.vantage.clientlog.netlog import VERSIONS
from h3probe.vantage.clientlog.netlog_sources import BEHIND

NAMES = [
    *BEHIND,
    *VERSIONS,
    "REQUEST_ALIVE",
    "URL_REQUEST_START_JOB",
    "HTTP_TRANSACTION_READ_RESPONSE_HEADERS",
    "TCP_CONNECT_ATTEMPT",
    "QUIC_SESSION_PACKET_RECEIVED",
    "QUIC_SESSION_CREATED",
    "UDP_CONNECT",
    "UDP_LOCAL_ADDRESS",
    "HTTP_STREAM_JOB_CONTROLLER_BOUND",
    "HTTP_STREAM_REQUEST_STARTED_JOB",
    "HTTP_STREAM_JOB_CONTROLLER_ALT_SVC_FOUND",
    "SOMETHING_ELSE",
]
TYPES = {name: number for number, name in enumerate(NAMES, 100)}
CONSTANTS = {
    "logEventTypes": TYPES,
    "netError": {"OK": 0, "ERR_CONNECTION_REFUSED": -102, "ERR_QUIC_PROTOCOL_ERROR": -356},
    "timeTickOffset": "1796044480000",
}
SOCKET, SESSION, JOB, QUIC = 30, 31, 32, 33
CONTROLLER, OTHER_JOB, POOL, UDP_CLIENT, UDP, PROBE_CLIENT, PROBE = 40, 41, 42, 43, 44, 45, 46


def event(source: int, name: str, at: int, params: dict[str, Any] | None = None, phase: int = 0) -> str:
    """One event, as Chromium writes it."""
    value = {"phase": phase, "source": {"id": source, "start_time": "1", "type": 1}, "time": str(at)}
    return json.dumps({**value, "type": TYPES[name], **({} if params is None else {"params": params})})


def behind(source: int, name: str, other: int) -> str:
    """An event that refers to another source."""
    return event(source, name, 1, {"source_dependency": {"id": other, "type": 2}})


def request(source: int, version: str, url: str, at: int, *headers: str) -> list[str]:
    """A request and the head of its response, 50 ms later."""
    (sent,) = [name for name, each in VERSIONS.items() if each == version]
    return [
        event(source, "URL_REQUEST_START_JOB", at, {"method": "GET", "url": url}, phase=1),
        event(source, "URL_REQUEST_START_JOB", at, phase=2),
        event(source, sent, at + 1, {"headers": []}),
        event(source, "HTTP_TRANSACTION_READ_RESPONSE_HEADERS", at + 50, {"headers": ["HTTP/1.1 200", *headers]}),
        event(source, "REQUEST_ALIVE", at + 60, phase=2),
    ]


EVENTS = [
    event(SOCKET, "TCP_CONNECT_ATTEMPT", 1, {"local_address": "10.0.0.5:50001", "remote_address": "192.0.2.1:443"}),
    behind(SESSION, "HTTP2_SESSION_INITIALIZED", SOCKET),
    behind(JOB, "HTTP2_SESSION_POOL_FOUND_EXISTING_SESSION", SESSION),
    behind(1, "HTTP_STREAM_REQUEST_BOUND_TO_JOB", JOB),
    *request(1, "HTTP/2", "https://example.org/a?b=c", 100, 'Alt-Svc: h3=":443"'),
    event(QUIC, "QUIC_SESSION_PACKET_RECEIVED", 200, {"self_address": "[::1]:50002", "peer_address": "[::1]:443"}),
    behind(2, "HTTP_STREAM_REQUEST_BOUND_TO_QUIC_SESSION", QUIC),
    *request(2, "HTTP/3", "https://example.org/", 300),
]


def file(*events: str, end: str = "]}\n") -> str:
    """A log as Chromium writes it."""
    return f'{{"constants":{json.dumps(CONSTANTS)},\n"events": [\n' + ",\n".join(events) + end
