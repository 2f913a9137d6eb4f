from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from h3probe.events import FlowCount, SideCount, Unheard
from h3probe.track.clock import NS
from h3probe.track.mark import Mark
from h3probe.track.quic import QuicConnection
from h3probe.track.quic_silence import TRY_NS, counted, sent
from tests.diagnose.scenario import Network

START = Mark(1, 0)


def connection() -> QuicConnection:
    """One whose client has sent a packet."""
    quic = Network().quic()
    return QuicConnection("quic-1", quic.client_end, quic.server_end, 1, first=START, last=START, last_client=START)


def test_what_comes_after_a_pause_is_a_try() -> None:
    """A burst is none, and an answer takes the tries back."""
    quic = connection()
    sent(quic, Mark(2, TRY_NS - 1), from_client=True)
    assert quic.tries == 0
    sent(quic, Mark(3, TRY_NS), from_client=True)
    assert (quic.tries, quic.tried) == (1, Mark(3, TRY_NS))
    sent(quic, Mark(4, NS), from_client=False)
    assert (quic.tries, quic.tried) == (0, None)


@given(first=st.none() | st.just((2, NS)), answered=st.booleans(), tries=st.integers(0, 2))
def test_sums_say_the_same(*, first: tuple[int, int] | None, answered: bool, tries: int) -> None:
    """What was before counts on where no answer was among the sums."""
    quic = connection()
    quic.tries, quic.tried = 5, START
    side = SideCount(1, 1, 1, 2, NS)
    tried = (3, 2 * NS) if tries else None
    counted(quic, FlowCount("quic-1", side, side if answered else None, unheard=Unheard(first, tries, tried)))
    assert quic.tries == (0 if answered else 5) + (first is not None) + tries
    assert (quic.tried == START) is not answered
