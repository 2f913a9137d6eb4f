"""What is spoken on a connection, and where it begins."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from h3probe.redact import Mapping
from h3probe.wire.proxy_protocol import header_length
from tests.redact.flows import KEY, Wire, payloads, redacted
from tests.redact.streams import CONNECT, DATA, HELLO, NEW_NAME, sni


@pytest.mark.parametrize("first", [b"SSH-2.0-OpenSSH ann", b"220 mail.secret-host.org ESMTP"])
def test_other_protocols(first: bytes) -> None:
    """What is not known is noise from its first byte, whoever speaks first; STARTTLS is noticed."""
    wire = Wire()
    frames = [*wire.connected(), wire.tcp(first, back=True), wire.tcp(b"EHLO ann\r\n"), wire.tcp(HELLO)]
    greeting, reply, inner = payloads(redacted(frames, Mapping(KEY)))[3:]
    assert len(greeting) == len(first)
    assert greeting[0] & 0x80
    assert b"ann" not in greeting + reply
    assert sni(inner) == NEW_NAME


@pytest.mark.parametrize("together", [True, False], ids=["one segment", "two"])
@pytest.mark.parametrize(
    "header",
    [
        b"PROXY TCP4 203.0.113.7 203.0.113.8 40000 443\r\n",
        b"\r\n\r\n\0\r\nQUIT\n\x21\x11\0\x0c" + b"\xcb\0\x71\x07" * 3,
    ],
    ids=["text", "binary"],
)
def test_a_header_of_the_proxy_protocol(header: bytes, *, together: bool) -> None:
    """What a load balancer says of a client is gone, the header stands, and TLS behind it is read."""
    wire = Wire()
    frames = [*wire.connected(), *map(wire.tcp, [header + HELLO] if together else [header, HELLO])]
    stream = b"".join(payloads(redacted(frames, Mapping(KEY)))[3:])
    assert header_length(stream) == len(header)
    assert b"203.0.113" not in stream
    assert b"\xcb\0\x71" not in stream[: len(header)]
    assert sni(stream[len(header) :]) == NEW_NAME


@settings(deadline=None)
@given(st.lists(st.integers(1, 600), max_size=4), st.sampled_from((HELLO, CONNECT, DATA + DATA)))
def test_any_cut(cuts: list[int], stream: bytes) -> None:
    """The cuts between segments change nothing in what is written."""
    wire = Wire()
    bounds = [0, *sorted({cut for cut in cuts if cut < len(stream)}), len(stream)]
    frames = wire.connected()
    frames += [wire.tcp(stream[begin:end]) for begin, end in pairwise(bounds)]
    whole = [*(other := Wire()).connected(), other.tcp(stream)]
    assert b"".join(payloads(redacted(frames, Mapping(KEY)))) == b"".join(payloads(redacted(whole, Mapping(KEY))))
