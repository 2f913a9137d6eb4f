"""What is fuzzed: functions of bytes, each with an invariant that its module states.

Adding one takes a function, a name here, and inputs to start from in `fuzz/seeds.py`.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from fuzz import conversations, decoders, explaining, handshakes, mixes, texts

if TYPE_CHECKING:
    from collections.abc import Callable

CORPUS = Path(__file__).parents[1] / ".cache" / "fuzz"
"""Where what targets have learnt is kept, a folder each, with their logs and what broke them beside these."""
TARGETS: dict[str, Callable[[bytes], None]] = {
    "quic": decoders.quic,
    "quic-frames": decoders.quic_frames,
    "tls": decoders.tls_stream,
    "dns": decoders.dns_message,
    "http1": decoders.http1_head,
    "http1-stream": decoders.http1_stream,
    "http2": decoders.http2,
    "http3": decoders.http3,
    "qpack": decoders.qpack,
    "key-log": decoders.key_log,
    "frame": decoders.frame,
    "capture": explaining.capture,
    "bundle": explaining.bundle,
    "engine": explaining.engine,
    "shown": explaining.shown,
    "redact": explaining.redact,
    "initials": conversations.initials,
    "segments": conversations.segments,
    "one-rtt": handshakes.one_rtt,
    "tls-records": handshakes.tls_records,
    "mix-decrypted": mixes.decrypted,
    "mix-in-blocks": mixes.in_blocks,
    "mix-redacted": mixes.redacted_too,
    "jdk-log": texts.jdk_log,
    "curl-log": texts.curl_log,
    "net-log": texts.net_log,
    "live-log": texts.live_log,
    "observed": texts.observed,
    "events": texts.events,
    "json": texts.json_texts,
}

BUILDING = frozenset({"initials", "segments", "one-rtt", "tls-records"})
"""Targets that build a packet for every two bytes."""


def most_work(target: str, size: int) -> int:
    """What an input of so many bytes may take at most, as `fuzz.work` counts; it is generous, and linear."""
    return 1_000_000 + size * (2000 if target in BUILDING else 400)
