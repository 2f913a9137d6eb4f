"""h3probe's answer against what the client itself printed: what of it is wrong, and what is not told.

The client's own words are the truth, of each request the version and the seconds, and the local port where it tells
one. What h3probe does not know may stay open; what it says must be so.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from h3probe.records import (
    ExchangeRecord,
    ExpectationRecord,
    FindingRecord,
    QuicRecord,
    RaceRecord,
    TcpRecord,
    VerdictRecord,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from h3probe.lab.outcome import Outcome
    from h3probe.records import AnyRecord

NOTICEABLE_S: Final = 1.0
"""A wait that is long enough to have a cost."""
SLACK_S: Final = 3.0
"""What a request may take beside the wait for QUIC: a cold client, its handshakes, a busy machine."""
LOGGED_S: Final = 1.1
"""What the time of an exchange may be off where the client's log tells it in whole seconds."""
ROUNDING_S: Final = 0.1
"""What a cost may be above what the client printed in whole milliseconds."""

_HERE: Final = ("localhost:", "127.0.0.1:", "[::1]:")


@dataclass(slots=True)
class Compared:
    """An answer, compared.

    Attributes:
        wrong: What h3probe says and the client says otherwise, a sentence each.
        untold: What h3probe leaves open: of `version`, `transport`, `seconds`.
    """

    wrong: list[str] = field(default_factory=list)
    untold: list[str] = field(default_factory=list)

    def leave_open(self, what: str, *, told: bool) -> None:
        """Note whether something is told of every request."""
        if not told and what not in self.untold:
            self.untold.append(what)


def compare(
    records: Sequence[AnyRecord], outcomes: Sequence[Outcome], *, cold_s: float = 0.0, sees_all: bool = False
) -> Compared:
    """Compare.

    Args:
        records: What h3probe says.
        outcomes: What the client says, in the order in which it asked.
        cold_s: Seconds that its first request takes because the client itself has just begun.
        sees_all: Whether all the client's packets were to be seen.
    """
    if not outcomes:
        return Compared(["the client says nothing"])
    # A browser asks its maker for this and that as well.
    origins = [(each, getattr(each, "origin", None)) for each in records]
    records = [each for each, origin in origins if origin is None or origin.startswith(_HERE)]
    result = Compared()
    exchanges = sorted((each for each in records if isinstance(each, ExchangeRecord)), key=lambda each: each.at)
    connections: dict[str | None, QuicRecord | TcpRecord] = {
        each.id: each for each in records if isinstance(each, QuicRecord | TcpRecord)
    }
    places = _places(exchanges, outcomes)
    if places is None:
        said = ", ".join(each.version or ("unknown" if each.status else "error") for each in exchanges)
        result.wrong.append(f"exchanges: h3probe says {said}; the client {_words(outcomes)}")
    whole = _all_of(records, outcomes, result)
    _counts(records, outcomes, result)
    _sentences(records, outcomes, result)
    # Of fewer exchanges than requests it is not certain which is which.
    known = list(zip(exchanges, outcomes, strict=True)) if places is not None and len(places) == len(outcomes) else []
    for exchange, outcome in known:
        _check_details(exchange, outcome, connections, result)
    _transports(exchanges, connections, result)
    _races(records, outcomes, result)
    if sees_all:
        _carriers(connections, outcomes, result)
    versions = bool(known) and all(e.version is not None or o.version is None for e, o in known)
    carriers = bool(known) and all(e.connection is not None or o.version is None for e, o in known)
    result.leave_open("version", told=versions or whole)
    result.leave_open("transport", told=carriers or whole)
    _seconds(records, outcomes, cold_s, result)
    return result


def _words(outcomes: Sequence[Outcome]) -> str:
    return ", ".join(outcome.version or "error" for outcome in outcomes) or "nothing"


def _places(exchanges: Sequence[ExchangeRecord], outcomes: Sequence[Outcome]) -> list[int] | None:
    """Which of the client's requests each exchange is, in order; None where they cannot be those."""
    places: list[int] = []
    ahead = iter(enumerate(outcomes))
    for exchange in exchanges:
        place = next((number for number, outcome in ahead if _same(exchange, outcome)), None)
        if place is None:
            return None
        places.append(place)
    return places


def _same(exchange: ExchangeRecord, outcome: Outcome) -> bool:
    if exchange.status is None:
        return outcome.version is None
    return outcome.version is not None and exchange.version in {None, outcome.version}


def _all_of(records: Sequence[AnyRecord], outcomes: Sequence[Outcome], result: Compared) -> bool:
    """Check what is said of all exchanges at once, and tell whether anything is."""
    asked = [each for each in records if isinstance(each, ExpectationRecord)]
    met = {each.expected for each in asked if each.met} - {each.expected for each in asked if not each.met}
    for version in met:
        if any(outcome.version != version for outcome in outcomes):
            result.wrong.append(f"expectation: all exchanges were {version}; the client {_words(outcomes)}")
    return bool(met)


def _counts(records: Sequence[AnyRecord], outcomes: Sequence[Outcome], result: Compared) -> None:
    told: Counter[str] = Counter()
    for each in records:
        if isinstance(each, VerdictRecord):
            told.update(each.versions or {})
    if told - Counter(outcome.version for outcome in outcomes if outcome.version is not None):
        result.wrong.append(f"verdict: counts {dict(told)}; the client {_words(outcomes)}")


def _check_details(
    exchange: ExchangeRecord,
    outcome: Outcome,
    connections: Mapping[str | None, QuicRecord | TcpRecord],
    result: Compared,
) -> None:
    """Check time and local port of an exchange that is known to be a certain request."""
    # A log may tell whole seconds; who stands on the way sees less than the client waits.
    longest = outcome.seconds + (LOGGED_S if exchange.known_from == "client-log" else ROUNDING_S)
    if exchange.took is not None and exchange.took > longest:
        result.wrong.append(f"{exchange.id}: took {exchange.took:.3f} s; the client {outcome.seconds:.3f} s")
    connection = connections.get(exchange.connection)
    port = connection.client.rpartition(":")[2] if connection is not None and outcome.version is not None else None
    if port is not None and outcome.local_port is not None and port != str(outcome.local_port):
        result.wrong.append(f"{exchange.id}: from port {port}; the client {outcome.local_port}")


def _transports(
    exchanges: Sequence[ExchangeRecord], connections: Mapping[str | None, QuicRecord | TcpRecord], result: Compared
) -> None:
    """Check that each exchange, whose version is compared already, is on a connection that can carry it."""
    for exchange in exchanges:
        connection = connections.get(exchange.connection)
        if connection is None or exchange.version is None:
            continue
        if (connection.type == "quic") != (exchange.version == "HTTP/3"):
            result.wrong.append(f"{exchange.id}: {exchange.version} carried by {connection.type}")


def _races(records: Sequence[AnyRecord], outcomes: Sequence[Outcome], result: Compared) -> None:
    """Check who carried the first request of a race: the first race is about the first request, later ones any."""
    answered = [("quic" if outcome.version == "HTTP/3" else "tcp") for outcome in outcomes if outcome.version]
    for number, race in enumerate(each for each in records if isinstance(each, RaceRecord)):
        likely = answered[:1] if number == 0 else answered
        if race.carried is not None and race.carried not in likely:
            result.wrong.append(f"{race.id}: carried by {race.carried}; the client {_words(outcomes)}")


def _carriers(
    connections: Mapping[str | None, QuicRecord | TcpRecord], outcomes: Sequence[Outcome], result: Compared
) -> None:
    """Check that what carried the client's requests was seen to be established."""
    seen = {each.type for each in connections.values() if each.outcome == "established"}
    wanted = ["quic" if outcome.version == "HTTP/3" else "tcp" for outcome in outcomes if outcome.version is not None]
    for carrier in dict.fromkeys(wanted):
        if carrier not in seen:
            result.wrong.append(f"{carrier}: no connection was established; the client {_words(outcomes)}")


def _seconds(records: Sequence[AnyRecord], outcomes: Sequence[Outcome], cold_s: float, result: Compared) -> None:
    """Check that every noticeable cost is a wait of the client's own, of about that length, each of another request."""
    waits = [outcome.seconds for outcome in outcomes]
    costs = sorted((f.cost for f in records if isinstance(f, FindingRecord) and f.cost is not None), reverse=True)
    for cost in costs:
        if cost <= NOTICEABLE_S:
            if cost > max(outcome.seconds for outcome in outcomes) + ROUNDING_S:
                result.wrong.append(f"cost: {cost:.3f} s, longer than any request")
            continue
        # How long a cold client takes to begin with is the machine's affair.
        cold = [outcomes[0].seconds] if cold_s and waits[:1] == [outcomes[0].seconds] else []
        fitting = [wait for wait in waits if cost - ROUNDING_S <= wait and (wait in cold or wait <= cost + SLACK_S)]
        if fitting:
            waits.remove(min(fitting))
        else:
            took = ", ".join(f"{outcome.seconds:.3f}" for outcome in outcomes)
            result.wrong.append(f"cost: {cost:.3f} s; the client's requests took {took} s")
    warm = waits if waits[:1] != [outcomes[0].seconds] else [waits[0] - cold_s, *waits[1:]]
    result.leave_open("seconds", told=all(wait <= NOTICEABLE_S for wait in warm))


def _none(versions: Sequence[str | None]) -> bool:
    return not any(versions)


def _no_http3(versions: Sequence[str | None]) -> bool:
    return "HTTP/3" not in versions


_CLAIMS: Final[tuple[tuple[str, Callable[[Sequence[str | None]], bool]], ...]] = (
    (r"^HTTP/3 from the first request", lambda versions: set(versions) == {"HTTP/3"}),
    (r"not HTTP/3|no QUIC packet was sent|no QUIC packet left|such a tunnel cannot carry HTTP/3", _no_http3),
    (r"^HTTP/3.* won the race", lambda versions: versions[0] == "HTTP/3"),
    (r"^HTTP/(?:2|1\.1).* won the race", lambda versions: _no_http3(versions[:1]) and not _none(versions)),
    (
        r"first, then HTTP/3",
        lambda versions: versions[0] != "HTTP/3" and "HTTP/3" in versions and not _none(versions[:1]),
    ),
    (r"^(?:No connection|No response|No request|Nothing was sent)", _none),
)
"""What a verdict's words claim of the requests, in order; None stands for one without an answer."""

_COUNTED: Final = re.compile(
    r"^(?P<version>HTTP/[\d.]+) for (?:(?P<one>the one request)|(?P<two>both requests)|all (?P<all>\d+) requests)"
    r"(?! over TCP)"
)


def _sentences(records: Sequence[AnyRecord], outcomes: Sequence[Outcome], result: Compared) -> None:
    """Check the words that a person reads; of several verdicts none is about all that the client did."""
    verdicts = [each.sentence for each in records if isinstance(each, VerdictRecord)]
    if len(verdicts) != 1:
        return
    versions = [outcome.version for outcome in outcomes]
    for claim in _false_claims(verdicts[0], versions):
        result.wrong.append(f"verdict: {claim!r} in {verdicts[0]!r}; the client {_words(outcomes)}")


def _false_claims(sentence: str, versions: Sequence[str | None]) -> Iterator[str]:
    for pattern, holds in _CLAIMS:
        found = re.search(pattern, sentence)
        if found is not None and not holds(versions):
            yield found[0]
    counted = _COUNTED.match(sentence)
    if counted is not None:
        number = 1 if counted["one"] else 2 if counted["two"] else int(counted["all"])
        if [version for version in versions if version is not None] != [counted["version"]] * number:
            yield counted[0]
