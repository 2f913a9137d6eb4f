"""What else a client's host did."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import pytest

from fuzz.work import work
from h3probe.diagnose.conclusion import conclude
from h3probe.diagnose.surroundings import HostQuic, QuicBeside
from h3probe.events import Process
from tests.diagnose.scenario import Network

if TYPE_CHECKING:
    from h3probe.diagnose.surroundings import Whose
    from h3probe.engine import Engine
    from h3probe.track.quic import QuicConnection


def attempts() -> list[QuicConnection]:
    """Of three processes: 1 and 2 for a name each, and one that nobody knows for none."""
    network = Network()
    for number, sni in enumerate(["Site.example.", "other.example", None], 1):
        network.quic(sni=sni).initials(float(number))
    found = [c for c in network.explain().engine._kept if c.transport == "quic"]
    for pid, quic in enumerate(found[:2], 1):
        quic.process = Process(pid, "client")
    return found


@pytest.mark.parametrize(
    ("pids", "whose", "expected"),
    [
        ((), "own", [0, 1, 2]),
        ((), "others", []),
        ((), "nobody's", []),
        ((1,), "own", [0]),
        ((1,), "others", [1]),
        ((1,), "nobody's", [2]),
        ((1, 2), "own", [0, 1]),
        ((7,), "own", []),
        ((7,), "others", [0, 1]),
    ],
)
def test_whose_it_is(pids: tuple[int, ...], whose: Whose, expected: list[int]) -> None:
    """Where processes are known, a story's own QUIC, that of others and that of nobody known add up to the host's."""
    found = attempts()
    beside = QuicBeside(HostQuic(found), frozenset(pids), whose)
    assert [found.index(quic) for quic in beside] == expected
    assert len(beside) == len(expected)
    assert beside.to_name("site.EXAMPLE") == [found[0]] * (0 in expected)
    assert beside.unnamed_to(found[2].server) == [found[2]] * (2 in expected)


def test_a_host_is_not_gone_through_for_each_story() -> None:
    """Of twice as many origins that one host asked for, telling the stories takes about twice the steps."""
    steps = []
    for origins in (30, 60):
        network = Network()
        for number in range(origins):
            network.quic(sni=f"s{number}.example").initials(float(number))
            network.tcp(sni=f"s{number}.example").connects(number + 0.1)
        steps.append(work(partial(tell, network.explain().engine), b""))
    assert steps[1] < 2.3 * steps[0]


def tell(engine: Engine, _: bytes) -> None:
    """Tell the stories."""
    for story in engine.stories():
        conclude(story)
