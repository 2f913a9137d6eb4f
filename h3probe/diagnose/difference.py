"""What differs between two outputs, per origin and client, and which findings explain it.

Nothing is concluded here that no rule found: a difference that no finding of either side is about is said to be
unexplained.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Literal

from h3probe.diagnose.retold import is_address, retell
from h3probe.diagnose.rules import CATALOGUE
from h3probe.diagnose.words import AT_ONCE, TOO_LITTLE
from h3probe.records import DifferenceRecord, DifferenceSide, FindingRecord, TimeDifference
from h3probe.text import count, seconds

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Sequence

    from h3probe.diagnose.retold import Retold
    from h3probe.records import AnyRecord, QuicRecord, TcpRecord

    What = Literal["quic-ready", "tcp-ready", "cost", "head-start"]

NOISE_S = 0.25
"""Seconds: two recordings of one JVM at one server differ by 213 ms in when QUIC was ready."""
NOISE_SHARE = 0.25
"""And of the larger of two times, but where timers make them; what differs by less than either is noise."""
INCOMPLETE = "incomplete-capture"
RULES_SAID = 3
UNEXPLAINED = "No finding explains the difference."
UNEXPLAINED_TIMES = "No finding explains the difference in time."
# What these find is beside the question why HTTP/3 was used here and not there.
NO_CAUSES = frozenset({INCOMPLETE, "socket-fan-out"})
# Of a time that is larger in B, and smaller.
CHANGES: dict[What, tuple[str, str]] = {
    "quic-ready": ("QUIC was ready {} later in B", "QUIC was ready {} sooner in B"),
    "tcp-ready": ("TCP was ready {} later in B", "TCP was ready {} sooner in B"),
    "cost": ("B lost {} more", "B lost {} less"),
    "head-start": ("QUIC's head start was {} longer in B", "QUIC's head start was {} shorter in B"),
}

Pair = tuple["Retold | None", "Retold | None"]
Sides = tuple[DifferenceSide | None, DifferenceSide | None]


def compare(a: Sequence[AnyRecord], b: Sequence[AnyRecord]) -> list[DifferenceRecord]:
    """Compare two outputs, each with all its records.

    Origins are matched by name; one that has none in an output, by the server's address. Several clients of one
    origin are matched by their names, process numbers left out, and by nothing else.

    Returns:
        One record for each origin and client of either, in the order of A and then of B.
    """
    holes = [name for name, records in (("A", a), ("B", b)) if _is_incomplete(records)]
    pairs = list(_pairs(retell(a), retell(b)))
    return [_difference(number, pair, holes) for number, pair in enumerate(pairs, 1)]


def is_noise(what: What, a: float, b: float) -> bool:
    """Whether two times, in seconds, differ by no more than two runs of the same thing do."""
    share = 0.0 if what == "cost" else NOISE_SHARE * max(abs(a), abs(b))
    return abs(b - a) < max(NOISE_S, share)


# -- which belongs to which


def _pairs(a: list[Retold], b: list[Retold]) -> Iterator[Pair]:
    of_a, of_b = _by_origin(a), _by_origin(b)
    partners = _partners(of_a, of_b)
    for origin, stories in of_a.items():
        yield from _clients(stories, of_b.get(partners.get(origin, ""), []))
    taken = set(partners.values())
    for origin, stories in of_b.items():
        if origin not in taken:
            yield from _clients([], stories)


def _by_origin(stories: Iterable[Retold]) -> dict[str, list[Retold]]:
    found: dict[str, list[Retold]] = {}
    for story in stories:
        found.setdefault(story.origin.lower() if story.origin is not None else "-", []).append(story)
    return found


def _partners(a: dict[str, list[Retold]], b: dict[str, list[Retold]]) -> dict[str, str]:
    """The origin in B of each origin in A that has one."""
    partners = {origin: origin for origin in a if origin in b}
    left_a, left_b = ([origin for origin in one if origin not in partners] for one in (a, b))
    for origin in left_a:
        near = [other for other in left_b if _may_be(a, origin, b, other)]
        if len(near) == 1 and not any(_may_be(a, rival, b, near[0]) for rival in left_a if rival != origin):
            partners[origin] = near[0]
    return partners


def _may_be(a: dict[str, list[Retold]], origin: str, b: dict[str, list[Retold]], other: str) -> bool:
    """Whether an origin of A and one of B have a server in common; two names are two origins wherever they lead."""
    if not (is_address(origin) or is_address(other)):
        return False
    return any(not one.servers.isdisjoint(two.servers) for one in a[origin] for two in b[other])


def _clients(a: Sequence[Retold], b: Sequence[Retold]) -> Iterator[Pair]:
    """Pairs of one origin's stories; those of clients that only one side has stand alone."""
    if len(a) == len(b) == 1:
        yield a[0], b[0]
        return
    names_a, names_b = Counter(s.client for s in a), Counter(s.client for s in b)
    left = {s.client: s for s in b if names_a[s.client] == names_b[s.client] == 1}
    for story in a:
        yield story, left.get(story.client)
    for story in b:
        if story.client not in left:
            yield None, story


# -- what differs


def _difference(number: int, pair: Pair, holes: Sequence[str]) -> DifferenceRecord:
    a, b = pair
    sides = (_side(a), _side(b))
    went, came = _findings_only_in(sides)
    times = list(_times(a, b))
    changed = [time for time in times if time.noise is False]
    other = _ended_otherwise(sides)
    same = None not in sides and not (other or came or went or changed)
    sentence = _sentence(pair, sides, (went, came), changed)
    if holes:
        sentence += f" {' and '.join(holes)} {'do' if len(holes) > 1 else 'does'} not hold everything ({INCOMPLETE}): "
        sentence += "what is missing there proves nothing."
    known = [story for story in pair if story is not None]
    return DifferenceRecord(
        id=f"difference-{number}",
        at=0.0,
        time=None,
        origin=next((story.origin for story in known if story.named), known[0].origin),
        a=sides[0],
        b=sides[1],
        same=same,
        came=came,
        went=went,
        times=times,
        sentence=sentence,
    )


def _side(story: Retold | None) -> DifferenceSide | None:
    if story is None:
        return None
    return DifferenceSide(
        origin=story.origin,
        client=story.verdict.client,
        verdict=story.verdict.sentence,
        http3=_http3(story),
        versions=story.verdict.versions,
        quic=sorted({q.outcome for q in story.quic}, key=str),
        tcp=sorted({t.outcome for t in story.tcp}, key=str),
        rules=_in_order({*story.verdict.rules, *(finding.rule for finding in story.findings)}),
    )


def _findings_only_in(sides: Sides) -> tuple[list[str], list[str]]:
    """The rules that only A has, and those that only B has; none where there is nothing to compare with."""
    a, b = sides
    if a is None or b is None:
        return [], []
    return _in_order(set(a.rules) - set(b.rules)), _in_order(set(b.rules) - set(a.rules))


def _in_order(slugs: Collection[str]) -> list[str]:
    """In the order of the catalogue: what explains most comes first."""
    return [slug for slug in CATALOGUE if slug in slugs]


def _ended_otherwise(sides: Sides) -> bool:
    """Whether HTTP/3 was used on one side alone, other versions were, or attempts ended in other ways."""
    a, b = sides
    if a is None or b is None:
        return False
    if a.http3 is not None and b.http3 is not None and a.http3 != b.http3:
        return True
    if a.versions is not None and b.versions is not None and a.versions.keys() != b.versions.keys():
        return True
    return (a.quic, a.tcp) != (b.quic, b.tcp)


def _is_incomplete(records: Iterable[AnyRecord]) -> bool:
    return any(isinstance(record, FindingRecord) and record.rule == INCOMPLETE for record in records)


# -- what each side was


def _http3(story: Retold) -> bool | None:
    """Whether a request used HTTP/3, None where the wire does not tell, or where silence is all that speaks for no."""
    if story.verdict.versions is not None:
        return "HTTP/3" in story.verdict.versions
    if any(race.carried == "quic" for race in story.races):
        return True
    over_quic, over_tcp = _ready_quic(story), _ready_tcp(story)
    if over_quic:
        alone, said = not over_tcp and not story.tunnels, story.verdict.sentence
        # The verdict has looked at more than whether it was ready.
        return True if alone and said.startswith("HTTP/3") and TOO_LITTLE not in said else None
    rules = {finding.rule for finding in story.findings}
    tried = bool(story.quic) and all(q.outcome not in (None, "established", "mid-stream") for q in story.quic)
    return False if tried or rules & {"proxy-downgrade", "no-quic-attempt"} else None


def _ready_quic(story: Retold) -> list[QuicRecord]:
    return [q for q in story.quic if q.ready_at is not None and any(p.startswith("h3") for p in q.alpn or ())]


def _ready_tcp(story: Retold) -> list[TcpRecord]:
    return [t for t in story.tcp if t.ready_at is not None]


def _how(story: Retold) -> str:
    """What carried the requests, in a few words."""
    versions = story.verdict.versions
    if versions:
        return ", ".join(f"{count(number, 'request')} over {version}" for version, number in sorted(versions.items()))
    over_quic, over_tcp = _ready_quic(story), _ready_tcp(story)
    if over_quic and over_tcp:
        carried = story.races[0].carried if story.races else None
        first = {"quic": ", and QUIC carried the first request", "tcp": ", and TCP carried the first request"}
        return "QUIC and TCP were ready" + first.get(carried or "", "")
    if over_quic:
        if not _http3(story) or len(over_quic) < len(story.quic):
            return "QUIC was ready"
        return f"HTTP/3 {AT_ONCE}" if AT_ONCE in story.verdict.sentence else "HTTP/3"
    if any(tunnel.status is not None and 200 <= tunnel.status < 300 for tunnel in story.tunnels):
        return "HTTP/2 or HTTP/1.1 through a proxy's tunnel"
    if over_tcp:
        return "HTTP/2 or HTTP/1.1" + ("" if story.quic else ", and no QUIC attempt is seen")
    return "no connection that became ready is seen"


def _times(a: Retold | None, b: Retold | None) -> Iterator[TimeDifference]:
    of_a, of_b = _measured(a), _measured(b)
    for what in CHANGES:
        first, second = of_a.get(what), of_b.get(what)
        if first is None and second is None:
            continue
        if first is None or second is None:
            yield TimeDifference(what, first, second, None, None)
        else:
            yield TimeDifference(what, first, second, second - first, is_noise(what, first, second))


def _measured(story: Retold | None) -> dict[What, float]:
    """The times of a story that are known."""
    found: dict[What, float] = {}
    if story is None:
        return found
    quic = [q.ready_at - q.at for q in story.quic if q.ready_at is not None]
    tcp = [t.ready_at - t.at for t in story.tcp if t.ready_at is not None and t.ja4 is not None]  # TLS, not a proxy
    costs = [finding.cost for finding in story.findings if finding.cost is not None]
    if quic:
        found["quic-ready"] = quic[0]
    if tcp:
        found["tcp-ready"] = tcp[0]
    if costs:
        found["cost"] = sum(costs)
    if story.races:
        found["head-start"] = story.races[0].head_start
    return found


# -- in words


def _sentence(pair: Pair, sides: Sides, only_in: tuple[list[str], list[str]], changed: Sequence[TimeDifference]) -> str:
    a, b = pair
    if a is None or b is None:
        name, story = ("A", a) if b is None else ("B", b)
        return f"Only in {name}: {_how(story)}{_because(story.verdict.rules)}." if story is not None else ""
    if a.silent and b.silent:
        return f"In A: {a.verdict.sentence} In B: {b.verdict.sentence}"
    (how_a, how_b), (went, came) = (_how(a), _how(b)), only_in
    if how_a == how_b:
        parts = [f"In both {how_a}"]
        parts += [f"only in {name}{_because(rules)}" for name, rules in (("A", went), ("B", came)) if rules]
    else:
        parts = [f"In A {how_a}{_because(went)}", f"in B {how_b}{_because(came)}"]
    parts += map(_changed, changed)
    text = "; ".join(parts) + "."
    if _ended_otherwise(sides) and not _explained(sides, only_in):
        return f"{text} {UNEXPLAINED}"
    # Only what findings say was lost has its explanation with it.
    return f"{text} {UNEXPLAINED_TIMES}" if any(time.what != "cost" for time in changed) else text


def _explained(sides: Sides, only_in: tuple[list[str], list[str]]) -> bool:
    """Whether a finding is about the difference: where one side had no HTTP/3, a finding of that side."""
    went, came = (set(slugs) - NO_CAUSES for slugs in only_in)
    a, b = sides
    if a is not None and b is not None and {a.http3, b.http3} == {True, False}:
        return bool(went if b.http3 else came)
    return bool(went or came)


def _because(slugs: Sequence[str]) -> str:
    causes = [slug for slug in slugs if slug != INCOMPLETE]
    said = [f"{_small(CATALOGUE[slug].title)} ({slug})" for slug in causes[:RULES_SAID]]
    more = [count(len(causes) - RULES_SAID, "finding") + " more"] if len(causes) > RULES_SAID else []
    return ": " + ", ".join([*said, *more]) if said else ""


def _changed(time: TimeDifference) -> str:
    change = time.change or 0.0
    return CHANGES[time.what][change < 0].format(seconds(abs(change)))


def _small(title: str) -> str:
    """A title within a sentence: abbreviations and names stay as they are."""
    first = title.split(" ", 1)[0]
    return title if not first[1:].islower() and len(first) > 1 else title[:1].lower() + title[1:]
