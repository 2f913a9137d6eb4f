"""What was expected of every exchange, and whether it came so: the answer is yes only where nothing is left open."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple

from h3probe.diagnose.words import is_dns, is_h3, may_carry
from h3probe.text import count

if TYPE_CHECKING:
    from collections.abc import Sequence

    from h3probe.diagnose.conclusion import Conclusion
    from h3probe.diagnose.story import Story
    from h3probe.records import HttpVersion
    from h3probe.track.tcp import TcpConnection

WEB: dict[str, HttpVersion] = {"h2": "HTTP/2", "http/1.1": "HTTP/1.1"}
NOTHING = "No request to it was seen."
NO_ORIGIN = "No request to any origin was seen."
BESIDE = "Whether a connection beside them carried more cannot be told."
IN_VAIN = "Whether a request waited for the QUIC attempt that failed, and failed with it, cannot be told."
OPEN = "The packets alone do not tell of every request which version it was."
MISSING = "What is missing from the capture may have been a request that went otherwise."
NO_TCP = "The capture holds no TCP packet at all: where a filter left TCP out, this says less."


@dataclass(frozen=True, slots=True)
class Fulfilment:
    """Whether an origin's exchanges were as expected.

    Attributes:
        origin: `host:port`, or the server's address; None where there was none.
        met: Whether there were exchanges, and each one is known to have been of the version expected.
        versions: Exchanges per version, as far as a vantage point saw them; None where none did.
        reason: How they went.
    """

    origin: str | None
    met: bool
    versions: dict[str, int] | None
    reason: str


class Account(NamedTuple):
    """Exchanges of one kind, to be counted.

    Attributes:
        origin: `host:port`.
        version: What carried them; None where that is not known.
        answered: Whether there was a response.
    """

    origin: str | None
    version: str | None
    answered: bool


@dataclass(frozen=True, slots=True)
class _Told:
    """What a story says of its exchanges.

    Attributes:
        versions: Those that carried some for certain.
        open: Whether there may have been others.
        over_tcp: Whether all were over TCP, so that none was HTTP/3.
        others: What cannot be told of those, where the ones that were seen are counted.
    """

    versions: frozenset[str]
    open: bool = False
    over_tcp: bool = False
    others: str = BESIDE


@dataclass(frozen=True, slots=True)
class Weighed:
    """What a story's verdict is worth as an answer.

    Attributes:
        sentence: The verdict.
        told: What the story says of its exchanges.
        on_wire: Whether nothing but packets tells of them.
        alone: Whether the capture holds no TCP beside it.
    """

    sentence: str
    told: _Told
    on_wire: bool
    alone: bool


class Weighing:
    """The stories by origin, as far as they count."""

    def __init__(self) -> None:
        self.by_origin: dict[str, list[Weighed]] = {}

    def add(self, conclusion: Conclusion) -> None:
        """Take what a story comes to; one that is not about HTTP, or about an address that nobody answers, is none."""
        story = conclusion.story
        if conclusion.sentence is None or _is_dead_address(story):
            return
        on_wire = not story.exchanges
        # An alternative's own port is no origin of any exchange: what is seen there is counted at the origin's.
        weighed = Weighed(conclusion.sentence, _told(conclusion), on_wire, on_wire and story.tcp_unseen)
        self.by_origin.setdefault(story.label, []).append(weighed)


def _is_dead_address(story: Story) -> bool:
    """Whether it is no more than SYNs without an answer: another address of the name may have had all requests."""
    if story.origin is not None or story.quic or story.tunnels or story.exchanges:
        return False
    return all(t.connected is None and t.outcome(story.now_ns) == "unanswered" for t in story.tcp)


def judge(
    weighing: Weighing,
    accounts: Counter[Account],
    expected: HttpVersion,
    absent: Sequence[str] = (),
    *,
    complete: bool = True,
) -> list[Fulfilment]:
    """Say of each origin whether all its exchanges were of one version.

    Args:
        weighing: What all stories come to.
        accounts: The exchanges that a vantage point saw, whether they belong to a story or not.
        expected: The version.
        absent: Origins that were asked for and have no story.
        complete: Whether the capture is not known to miss anything; where it is, the wire alone cannot show that there
            was no other exchange.

    Returns:
        One for each origin, in the order of their stories, then those without one; never none at all.
    """
    stories = weighing.by_origin
    seen: dict[str, Counter[Account]] = {}
    for account, number in accounts.items():
        seen.setdefault(account.origin or "", Counter())[account] += number
    none: Counter[Account] = Counter()
    judged = [
        _of_origin(origin, stories.get(origin, []), seen.get(origin, none), expected, complete=complete)
        for origin in dict.fromkeys([*stories, *seen])
    ]
    judged += [Fulfilment(origin, met=False, versions=None, reason=NOTHING) for origin in absent if origin not in seen]
    return judged or [Fulfilment(None, met=False, versions=None, reason=NO_ORIGIN)]


def _of_origin(
    origin: str, group: list[Weighed], seen: Counter[Account], expected: HttpVersion, *, complete: bool
) -> Fulfilment:
    counts: Counter[str] = Counter()
    for account, number in seen.items():
        if account.answered and account.version is not None:
            counts[account.version] += number
    versions = dict(sorted(counts.items())) or None
    if any(account.version != expected or not account.answered for account in seen):
        return Fulfilment(origin, met=False, versions=versions, reason=_otherwise(seen, expected))
    counted = f"{expected} for {_all(seen.total())}." if seen else ""
    reasons: list[str] = []
    for weighed in group:
        told, sentence = weighed.told, weighed.sentence
        if told.versions != {expected} or told.open:
            reason = f"{sentence} {OPEN}" if told.open and not (told.over_tcp and expected == "HTTP/3") else sentence
            reason = f"{counted} {reason if weighed.on_wire else told.others}".lstrip()
            return Fulfilment(origin, met=False, versions=versions, reason=reason)
        if weighed.on_wire and not complete:
            return Fulfilment(origin, met=False, versions=versions, reason=f"{sentence} {MISSING}")
        reasons.append(f"{sentence} {NO_TCP}" if weighed.alone else sentence)
    return Fulfilment(origin, met=True, versions=versions, reason=counted or reasons[0])


def _all(number: int) -> str:
    return "the one request" if number == 1 else f"all {number:,} requests"


def _otherwise(seen: Counter[Account], expected: HttpVersion) -> str:
    """`Not HTTP/3 for 2 of 3 requests: 1 HTTP/2, 1 got no response.`."""
    wrong: Counter[str] = Counter()
    for account, number in seen.items():
        if not account.answered:
            wrong["got no response"] += number
        elif account.version is None:
            wrong["of a version that is not known"] += number
        elif account.version != expected:
            wrong[account.version] += number
    what = ", ".join(f"{number:,} {words}" for words, number in sorted(wrong.items()))
    return f"Not {expected} for {wrong.total():,} of {count(seen.total(), 'request')}: {what}."


def _told(conclusion: Conclusion) -> _Told:
    story = conclusion.story
    if story.exchanges:
        told = _seen(conclusion)
        return told if not _waited_in_vain(story) or told.open else replace(told, open=True, others=IN_VAIN)
    if story.tunnels:
        return _tunnelled(story)
    told = _on_the_wire(story)
    return replace(told, open=told.open or _waited_in_vain(story))


def _waited_in_vain(story: Story) -> bool:
    """Whether a QUIC attempt went on after another connection had carried something, and came to nothing.

    A later request may have joined it, as a JDK's does, and failed with it: of that the packets show nothing, and
    whoever sees them alone does not know. The client's own log does.
    """
    if story.exchanges and story.exchanges[0].known_from == "client-log":
        return False
    answers = [e.answered_ns for e in story.answered] or [c.ready.time_ns for c in story.connections if c.ready]
    failed = [q for q in story.quic if story.failed(q) and not is_dns(q)]
    return bool(answers) and any((q.last_client or q.last).time_ns > min(answers) for q in failed)


def _seen(conclusion: Conclusion) -> _Told:
    """What was seen of exchanges, and whether another connection may have carried some unseen.

    The client's own log tells of all that the client did: a connection that lost a race was made for nothing. So it was
    where all that it carried is known, and no exchange is among it.
    """
    story = conclusion.story
    versions = frozenset(e.version for e in story.exchanges if e.version is not None)
    carriers = {e.connection for e in story.exchanges}
    if story.exchanges[0].known_from == "client-log":
        carriers |= {id_ for race in conclusion.races for id_ in (race.quic.id, race.tcp.id)}
    known = {c.id for c in story.connections if (c.id in carriers or c.laid_open) and not c.missed}
    beside = any(q.id not in known and (q.established or q.mid_stream) and not is_dns(q) for q in story.quic)
    over_tcp = [*story.tcp, *(carrier for carrier, tunnel in story.tunnels if tunnel.open)]
    return _Told(versions, beside or any(t.id not in known and may_carry(t) for t in over_tcp))


def _tunnelled(story: Story) -> _Told:
    opened = [carrier for carrier, tunnel in story.tunnels if tunnel.open]
    return _over_tcp([carrier for carrier in opened if may_carry(carrier)])


def _on_the_wire(story: Story) -> _Told:
    """What the packets alone leave no doubt of."""
    quic = [q for q in story.quic if (q.established or q.mid_stream) and not is_dns(q)]
    tcp = [t for t in story.tcp if may_carry(t)]
    unread = [q for q in story.quic if not q.decodable and q.version_negotiation is None]
    if story.mixed or unread or (quic and (tcp or story.tcp_before)) or any(q.mid_stream for q in quic):
        return _Told(frozenset(), open=True)
    if quic:
        talked = [q for q in quic if q.talked]
        return _Told(frozenset({"HTTP/3"} if talked else ()), open=not all(map(is_h3, quic)))
    return _over_tcp(tcp)


def _over_tcp(connections: list[TcpConnection]) -> _Told:
    versions = [_version(connection) for connection in connections]
    return _Told(frozenset(v for v in versions if v is not None), open=None in versions, over_tcp=bool(versions))


def _version(connection: TcpConnection) -> HttpVersion | None:
    """The version that the handshake leaves as the only one; None where it leaves several, or none."""
    tls = connection.tls
    if tls is None and (connection.http or connection.preface):
        return "HTTP/2" if connection.preface else "HTTP/1.1"
    if tls is None or tls.hello is None or connection.mid_stream or connection.inner:
        return None
    offered = set(tls.hello.alpn)
    if tls.server_hello is not None and not tls.server_hello.is_tls13:
        return WEB.get(tls.server_hello.alpn or "")
    return WEB.get(offered.pop()) if len(offered) == 1 else None
