from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from h3probe.engine import Engine
from h3probe.events import Block, Endpoint, Frame, Process
from h3probe.records import QuicRecord, SummaryRecord, TcpRecord
from h3probe.run.attribution import Attribution
from h3probe.run.recorder import Recorder
from h3probe.run.session import Session
from h3probe.vantage.owners import Owner
from h3probe.vantage.synthesis import ACK, FIN
from tests.blocks import in_a_block
from tests.run.test_attribution import Told
from tests.run.traffic import CLIENT, ELSEWHERE, Traffic
from tests.track import builders

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from h3probe.records import AnyRecord, Moment

ROOT = 4000


class Shown:
    """An output that keeps everything."""

    wants_moments = True

    def __init__(self) -> None:
        self.lines: list[Moment] = []
        self.told: list[AnyRecord] = []
        self.closed = False

    def moments(self, moments: Iterable[Moment]) -> None:
        """Keep them."""
        self.lines += moments

    def records(self, records: Iterable[AnyRecord]) -> None:
        """Keep them."""
        self.told += records

    def note(self, text: str) -> None:
        """Nobody listens."""

    def close(self) -> None:
        """The end."""
        self.closed = True


class Run:
    """A session with owners that say what a test tells them to."""

    def __init__(self) -> None:
        self.owners = Told()
        self.shown = Shown()
        attribution = Attribution(self.owners, frozenset())
        attribution.narrow(ROOT)
        self.session = Session(Engine("lo", "live"), self.shown, attribution, None)

    def types(self) -> list[str]:
        """The types of the records told."""
        return [record.type for record in self.shown.told]


def conversation(traffic: Traffic) -> list[Frame]:
    """A TCP connection from its SYN to its end."""
    return [
        *traffic.connected(),
        traffic.tcp(flags=FIN | ACK),
        traffic.tcp(flags=FIN | ACK, back=True),
        traffic.tcp(flags=ACK),
    ]


def test_a_line_waits_for_its_process() -> None:
    """A line of the timeline is shown when its process is known, with it, and those after it in their order."""
    run = Run()
    run.session.events([Traffic().initial(), Traffic(client=Endpoint(CLIENT.host, 50001)).initial()])
    assert run.shown.lines == []
    run.owners.answer(Owner(Process(ROOT, "java"), in_tree=True), Endpoint(CLIENT.host, 50001))
    run.session.tick()
    assert run.shown.lines == []
    run.owners.answer(Owner(Process(ROOT, "java"), in_tree=True))
    run.session.tick()
    assert [line.client[-5:] for line in run.shown.lines] == ["50000", "50001"]
    assert all(line.process is not None and line.process.name == "java" for line in run.shown.lines)


def test_a_line_says_that_nobody_may_own_it() -> None:
    """Beside a command a connection whose owner is not found may be a stranger's: its first line says so."""
    for owned in (False, True):
        run = Run()
        run.session.engine.wants_command = True
        run.session.events(conversation(Traffic()))
        if owned:
            run.owners.answer(Owner(Process(ROOT, "java"), in_tree=True), protocol=6)
        run.session.finish(dropped=0)
        said = [line.text.endswith("; owner not known") for line in run.shown.lines]
        assert said == [not owned, *[False] * (len(said) - 1)]


def test_a_settled_record_waits_for_its_process() -> None:
    """A connection that is over before its owner is known is told of with its owner."""
    run = Run()
    run.session.events(conversation(Traffic()))
    assert "tcp" not in run.types()
    run.owners.answer(Owner(Process(ROOT, "java"), in_tree=True), protocol=6)
    run.session.tick()
    run.session.finish(dropped=0)
    (tcp,) = [record for record in run.shown.told if isinstance(record, TcpRecord)]
    assert tcp.process is not None
    assert tcp.process.pid == ROOT


def test_somebody_elses_connection_is_left_out() -> None:
    """Neither a line nor a record tells of a connection that is not the command's."""
    run = Run()
    run.session.events(conversation(Traffic()))
    run.owners.answer(Owner(None, in_tree=False), protocol=6)
    run.session.tick()
    run.session.finish(dropped=0)
    assert run.types() == ["capture", "summary"]
    assert run.shown.lines == []


def test_the_end_tells_everything() -> None:
    """At the end nothing is waited for: lines and records come out, the summary last, and the output is closed."""
    run = Run()
    run.session.events([Traffic().initial()])
    run.session.finish(dropped=7)
    assert [line.process for line in run.shown.lines] == [None] * len(run.shown.lines)
    assert run.shown.lines
    assert run.types()[0] == "capture"
    summary = run.shown.told[-1]
    assert isinstance(summary, SummaryRecord)
    assert (summary.packets, summary.dropped) == (1, 7)
    assert "quic" in run.types()
    assert run.shown.closed


def test_blocks_tell_the_same() -> None:
    """A transfer that comes in blocks is told as one that comes packet by packet, whatever comes in between."""
    watch = builders.QuicWatch()
    watch.handshake()
    for number in range(300):
        send, to = (watch.client, builders.SERVER_ID) if number % 3 else (watch.server, builders.CLIENT_ID)
        send(builders.short(to, 100 + number % 7), at=40 + number)
    frames = [builders.to_frame(fact) for fact in watch.facts]
    mixed: list[Frame | Block] = [*frames[:20], in_a_block(frames[20:150]), *frames[150:152], in_a_block(frames[152:])]
    said = []
    for events in (list[Frame | Block](frames), mixed):
        shown = Shown()
        session = Session(Engine("lo", "live"), shown, None, None)
        session.events(events)
        session.finish(dropped=0)
        said.append([str(record) for record in shown.told if isinstance(record, QuicRecord | SummaryRecord)])
    assert said[0] == said[1]
    assert "packets=305" in said[0][-1]
    assert "outcome='established'" in said[0][0]


def test_blocks_are_recorded_as_frames_are(tmp_path: Path) -> None:
    """The file is the same to the byte, numbers included, whether a transfer comes in blocks or packet by packet."""
    quic, tcp = builders.QuicWatch(), builders.TcpWatch()
    quic.handshake()
    tcp.connect()
    tcp.client(builders.handshake(builders.client_hello()))
    tcp.server(builders.handshake(builders.server_hello()) + builders.protected(900))
    tcp.client(builders.protected(53))
    for number in range(200):
        quic.server(builders.short(builders.CLIENT_ID, 500 + number % 7), at=40 + number)
        tcp.server(bytes([number]) * 300, at=40 + number)
    opening = [builders.to_frame(fact) for fact in quic.facts[:5]] + [builders.to_frame(fact) for fact in tcp.facts[:6]]
    inside: list[Frame] = []
    for datagram, segment in zip(quic.facts[5:], tcp.facts[6:], strict=True):
        inside += [builders.to_frame(datagram), builders.to_frame(segment)]
    stranger = [builders.to_frame(replace(fact, source=ELSEWHERE)) for fact in quic.facts[5:9]]
    frames = [replace(each, number=number) for number, each in enumerate([*opening, *inside, *stranger], 1)]
    written = []
    mixed: list[Frame | Block] = [*frames[:20], in_a_block(frames[20:])]
    for name, events in (("one", list[Frame | Block](frames)), ("all", mixed)):
        recorder = Recorder(tmp_path / name, Shown(), full=False, force=False)
        assert recorder.takes_blocks
        session = Session(Engine("lo", "live"), Shown(), None, recorder)
        session.events(events)
        assert recorder.last_number == len(frames)
        session.finish(dropped=0)
        written.append((tmp_path / name).read_bytes())
    assert written[0] == written[1]
    assert b"\xcc" * 33 not in written[0]
