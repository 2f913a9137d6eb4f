"""quic-lost: an established QUIC connection was refused, while the client still used it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from h3probe.diagnose.rule import NOTICEABLE_S, Finding, Rule
from h3probe.diagnose.words import cut
from h3probe.events import Endpoint
from h3probe.text import count, seconds
from h3probe.track.clock import NS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from h3probe.diagnose.story import Story
    from h3probe.track.mark import Mark
    from h3probe.track.quic import QuicConnection
    from h3probe.wire.packet import IcmpError

SLUG = "quic-lost"
ADVICE = (
    "The server's program ended, or its port was closed, while this connection was in use: look at its log for that "
    "moment. A client that does not hear the error waits out its idle timeout (max_idle_timeout, RFC 9000, 10.1): a "
    "shorter one on either side makes that shorter."
)
# One error may answer a client's good-bye to a server that ended first.
FEWEST = 2


def check(story: Story) -> Iterator[Finding]:
    """Fire for each connection that the client went on with for a second or more though it was refused."""
    for connection in story.quic:
        ready = connection.ready
        if ready is None or connection.mid_stream:
            continue
        lost = [(mark, error) for mark, error in connection.refusals if mark.time_ns > ready.time_ns]
        if len(lost) < FEWEST:
            continue
        went_on = ((connection.last_client or connection.last).time_ns - lost[0][0].time_ns) / NS
        if went_on >= NOTICEABLE_S:
            yield _finding(connection, ready, lost, went_on)


def _finding(connection: QuicConnection, ready: Mark, lost: list[tuple[Mark, IcmpError]], went_on: float) -> Finding:
    first, error = lost[0]
    sender = Endpoint(error.sender, 0).address
    sent = connection.refusals_seen - len(connection.refusals) + len(lost)
    summary = (
        f"QUIC to {connection.server} had been ready for {seconds((first.time_ns - ready.time_ns) / NS)} when its "
        f"packets were refused: {count(sent, 'ICMP error')}, {error.meaning}, from {sender}. The client went on for "
        f"{seconds(went_on)}."
    )
    evidence: list[tuple[Mark, str]] = [
        (ready, "QUIC is ready"),
        (first, f"ICMP {error.icmp_type}/{error.icmp_code} from {sender}"),
        (lost[-1][0], "and again"),
        (connection.last_client or connection.last, "the client's last packet"),
    ]
    return Finding(SLUG, "problem", summary, cut(evidence), ADVICE, [connection])


RULE = Rule(
    slug=SLUG,
    severity="problem",
    title="QUIC lost its server",
    looks_for=(
        "ICMP errors that quote a client's datagrams of a QUIC connection that was ready before, and the client "
        "sending more for a second or longer. Where there is silence and no ICMP error it is `quic-cut-off`."
    ),
    advice=ADVICE,
    sources=(
        "RFC 9000, 10.1",
        "measured: Firefox 153 and quic-go wait for 30 s when nginx is killed, and the request fails",
    ),
    check=check,
)
