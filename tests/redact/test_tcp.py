"""Segments of connections."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from h3probe.redact import Mapping
from tests.redact.flows import KEY, Wire, payloads, redacted
from tests.redact.streams import DATA, HELLO, NEW_NAME, sni


def test_a_capture_that_began_late() -> None:
    """Without its SYN a connection is read from its first hello on; what is under way is noise."""
    wire = Wire()
    hellos = payloads(redacted([wire.tcp(HELLO)], Mapping(KEY)))
    assert sni(hellos[0]) == NEW_NAME
    (data,) = payloads(redacted([Wire().tcp(DATA, back=True)]))
    assert b"user" not in data


@settings(deadline=None)
@given(st.lists(st.tuples(st.binary(max_size=40), st.booleans()), max_size=8))
def test_any_bytes(sent: list[tuple[bytes, bool]]) -> None:
    """Whatever goes to and fro, each segment is as long afterwards."""
    wire = Wire()
    frames = [*wire.connected(), *(wire.tcp(data, back=back) for data, back in sent)]
    assert [len(p) for p in payloads(redacted(frames))] == [len(p) for p in payloads(frames)]
