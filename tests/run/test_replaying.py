from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING

from hypothesis import given
from hypothesis import strategies as st

from fuzz.explaining import show
from h3probe.engine import Engine
from h3probe.events import ConnectionOwner, Endpoint, Process, RunBegan, RunEnded, TimePassed
from h3probe.filters import Filters
from h3probe.run.attribution import Attribution
from h3probe.run.explaining import Asked, explained
from h3probe.run.folder import FolderRecorder
from h3probe.run.replaying import Replay, run_began
from h3probe.run.session import Session
from h3probe.vantage.owners import Owner
from h3probe.vantage.proxy_events import OBSERVED_TYPES, Observed, format_observed, parse_observed
from tests.run.test_attribution import Told
from tests.run.test_bundling import answer
from tests.run.test_recorder import Notes
from tests.run.test_session import ROOT, Shown, conversation
from tests.run.traffic import CLIENT, ELSEWHERE, SERVER, START_NS, Traffic
from tests.vantage.test_proxy_events import any_event

if TYPE_CHECKING:
    from pathlib import Path

    from h3probe.events import Event

BEGAN = RunBegan(1, "all interfaces", "live", "wire", narrowed=True, of_command=True)


EVENTS = st.one_of([any_event(kind) for kind in OBSERVED_TYPES.values()])
# What makes events be about the same connections, tunnels and origins.
SHARED = {"connection": "c1", "tunnel": "t1", "id": "t1", "client": "192.0.2.1:5000", "proxy": "192.0.2.2:8080",
          "origin": "https://h3.test:443"}  # fmt: skip


def about_the_same(event: Observed) -> Observed:
    """An event with `SHARED` in it, as far as it has such fields."""
    fields = json.loads(format_observed(event, 0))
    return parse_observed(json.dumps(fields | {name: value for name, value in SHARED.items() if fields.get(name)}))[0]


def replayed(*events: Event, filters: Filters | None = None) -> Engine:
    """An engine that was fed a run's events."""
    engine = Engine("x.h3probe.zip", "pcapng", filters or Filters())
    replay = Replay(engine)
    for event in events:
        replay.feed(event)
    return engine


def owner(*, wanted: bool, client: Endpoint = CLIENT, process: Process | None = None) -> ConnectionOwner:
    """Whose the QUIC connection is that begins with a traffic's first frame."""
    return ConnectionOwner(START_NS + 1_000_000, 17, client, process, wanted=wanted)


def test_a_run_gives_its_answer_again(tmp_path: Path) -> None:
    """The command's connection, somebody else's and nobody's; the run's filter, conditions and end; all records."""
    shown, owners = Shown(), Told()
    engine = Engine("all interfaces", "live", Filters(ports=frozenset({SERVER.port})), expects="HTTP/3")
    engine.wants_command, engine.conditions = True, ["UDP to port 4433 vanishes"]
    attribution = Attribution(owners, frozenset())
    attribution.narrow(ROOT)
    with FolderRecorder(tmp_path / "x", Notes(), {}, full=False, force=False) as recorder:
        session = Session(engine, shown, attribution, recorder)
        others = Endpoint(CLIENT.host, 50001)
        seen = [Traffic().initial(), *conversation(Traffic()), Traffic(client=others).initial()]
        session.events(replace(frame, number=number) for number, frame in enumerate(seen, 1))
        owners.answer(Owner(Process(ROOT, "java"), in_tree=True))
        owners.answer(Owner(Process(7, "other"), in_tree=False), others)
        session.tick()
        session.finish(dropped=3, client_over=True)
    assert {"quic", "tcp", "verdict", "expectation"} <= {record.type for record in shown.told}
    again = explained(Asked((str(tmp_path / "x"),)))
    assert answer(again.all_records) == answer(shown.told)


def test_what_was_asked_of_the_engine_goes_first() -> None:
    """A filter or an expectation of `explain` is in place of the run's."""
    began = replace(BEGAN, origins=("example.org",), ports=(1,), expects="HTTP/3")
    assert replayed(began).filters.ports == frozenset({1})
    engine = replayed(began, filters=Filters(origins=frozenset({"localhost"})))
    assert (engine.filters.origins, engine.filters.ports, engine.expects) == ({"localhost"}, None, "HTTP/3")


def test_whose_connections_are_wanted() -> None:
    """Those that were found to be the command's, and of the others those that may be: begun here, and after it."""
    traffic = [Traffic().initial(), Traffic(client=ELSEWHERE).initial()]
    cases: list[tuple[tuple[Event, ...], list[bool]]] = [
        ((BEGAN, *traffic), [True, False]),
        ((BEGAN, *traffic, owner(wanted=False)), [False, False]),
        ((BEGAN, *traffic, owner(wanted=True, client=ELSEWHERE, process=Process(1, "curl"))), [True, True]),
        ((replace(BEGAN, local=(ELSEWHERE.host,)), *traffic), [True, True]),
        ((replace(BEGAN, since_ns=START_NS * 2), *traffic), [False, False]),
        ((replace(BEGAN, narrowed=False), *traffic), [True, True]),
    ]
    for events, wanted in cases:
        engine = replayed(*events)
        assert engine.filters.wanted is not None
        found = [engine.filters.wanted(c) for c in engine.tracker._alive.values()]
        assert found == wanted


def test_time_passes_as_it_did() -> None:
    """What was concluded from silence is concluded again, at the same time; the end says whether the client is over."""
    engine = replayed(BEGAN, Traffic().initial(), TimePassed(START_NS + 10**9))
    assert engine.tracker.clock.now_ns == START_NS + 10**9
    assert not engine.client_over
    engine = replayed(BEGAN, Traffic().initial(), RunEnded(START_NS + 2 * 10**9, client_over=True))
    assert engine.tracker.clock.now_ns == START_NS + 2 * 10**9
    assert engine.client_over


def test_what_is_noted_is_what_is_told_again() -> None:
    """All that a run sets of an engine comes back."""
    engine = Engine("lo", "live", Filters(ports=frozenset({443})), expects="HTTP/3")
    engine.vantage, engine.alone, engine.behind_proxy, engine.is_java = "proxy", "curl", "java", True
    engine.conditions, engine.swallows_icmp, engine.wants_command = ("IPv4 alone",), "pasta", True
    attribution = Attribution(Told(), frozenset({CLIENT.host}))
    attribution.narrow(ROOT, 5)
    noted = run_began(engine, attribution)
    again = replayed(noted)
    assert again.filters.pending is not None
    assert replace(run_began(again, attribution), source="lo", time_ns=noted.time_ns) == noted


@given(st.lists(EVENTS | EVENTS.map(about_the_same), max_size=8))
def test_any_events(events: list[Observed]) -> None:
    """Whatever was observed, in whatever order: it is explained, and all that is shown of it prints."""
    show(events, {})
