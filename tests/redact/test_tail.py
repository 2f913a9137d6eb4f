"""Records and noise where nothing is read any more."""

from __future__ import annotations

from h3probe.redact import Mapping
from h3probe.wire.tls import records
from tests.redact.flows import KEY, Wire, payloads, redacted, server_hello
from tests.redact.streams import CCS, DATA, HELLO, NEW_NAME, sni
from tests.wire.hello_builder import record


def test_tls13() -> None:
    """Record headers stay to the end, hellos are readable, data is noise, a retransmission is the same."""
    wire = Wire()
    frames = [*wire.connected(), wire.tcp(HELLO)]
    frames.append(wire.tcp(record(22, server_hello(), 0x0303) + CCS + DATA[:100], back=True))
    frames.append(wire.tcp(DATA[100:] + DATA[:3], back=True))
    frames.append(wire.tcp(DATA[3:] + DATA, back=True))
    again = wire.sequence[False] - 2 * len(DATA) + 3
    frames.append(wire.tcp(DATA[3:] + DATA, back=True, seq=again))
    _, _, _, first, *answers, last = payloads(redacted(frames, Mapping(KEY)))
    assert sni(first) == NEW_NAME
    assert answers[-1] == last
    stream = b"".join(answers)
    found, end = records(stream)
    assert [(r.content_type, r.length) for r in found] == [
        (22, len(server_hello())), (20, 1), *[(23, len(DATA) - 5)] * 3
    ]  # fmt: skip
    assert end == len(stream)
    assert b"user" not in stream


def test_a_hole_in_the_records() -> None:
    """After lost segments no data is let through; headers are found again where a segment begins with one."""
    wire = Wire()
    frames = [*wire.connected(), wire.tcp(HELLO), wire.tcp(record(22, server_hello(), 0x0303) + DATA, back=True)]
    wire.sequence[False] += 5000
    frames += [wire.tcp(b"the user's own" + DATA, back=True), wire.tcp(DATA, back=True)]
    torn, sound = payloads(redacted(frames, Mapping(KEY)))[5:]
    assert b"user" not in torn + sound
    assert sound[:5] == DATA[:5]
