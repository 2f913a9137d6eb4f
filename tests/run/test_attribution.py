from __future__ import annotations

from typing import TYPE_CHECKING

from h3probe.events import Endpoint, Frame, Process
from h3probe.run.attribution import RETRIES_S, Attribution
from h3probe.track.tracker import Tracker
from h3probe.vantage.owners import Answer, Owner, Question
from h3probe.vantage.synthesis import ACK, FIN
from tests.run.traffic import CLIENT, ELSEWHERE, MS, SERVER, START_NS, Traffic

if TYPE_CHECKING:
    from collections.abc import Iterable

    from h3probe.track.tracker import Connection

ROOT = 4000
OTHER_SERVER = SERVER._replace(port=8443)
MINE, CHILD, OTHER = Process(ROOT, "java"), Process(4001, "curl"), Process(1, "init")


class Told:
    """Owners that say what a test tells them to."""

    def __init__(self) -> None:
        self.asked: list[tuple[int, Endpoint, Endpoint]] = []
        self._found: list[Answer] = []

    def ask(self, protocol: int, local: Endpoint, remote: Endpoint) -> None:
        """Remember it."""
        self.asked.append((protocol, local, remote))

    def answer(
        self,
        owner: Owner,
        local: Endpoint = CLIENT,
        protocol: int = 17,
        *,
        inode: int | None = None,
        asked_ns: int = 0,
    ) -> None:
        """Say who the owner is."""
        self._found.append(Answer(START_NS, Question(protocol, local, SERVER, inode, asked_ns), owner))

    def answers(self) -> list[Answer]:
        """What was told."""
        found, self._found = self._found, []
        return found


class Watch:
    """An attribution with a tracker before it."""

    def __init__(self, local: frozenset[bytes] = frozenset()) -> None:
        self.owners = Told()
        self.attribution = Attribution(self.owners, local)
        self.tracker = Tracker()

    def see(self, frames: Iterable[Frame]) -> list[Connection]:
        """Give frames to both, as a session does."""
        frames = list(frames)
        for frame in frames:
            self.attribution.sniffed(frame)
            self.tracker.feed(frame)
        opened = self.tracker.take().opened
        for connection in opened:
            self.attribution.opened(connection)
        return opened


def test_asked_before_it_is_decoded() -> None:
    """The frame that may begin a connection is enough to ask; later ones, and answers, ask nothing."""
    watch = Watch()
    traffic = Traffic()
    first = traffic.initial()
    watch.attribution.sniffed(first)
    watch.attribution.sniffed(traffic.initial())
    answer = Frame(3, START_NS, 101, traffic.udp(b"\xc0" + bytes(40), back=True).data, 100)
    watch.attribution.sniffed(answer)
    assert watch.owners.asked == [(17, CLIENT, SERVER)]


def test_an_owner_is_named() -> None:
    """An answer names the connection's process, and what waited for it waits no longer."""
    watch = Watch()
    watch.attribution.narrow(ROOT)
    (connection,) = watch.see([Traffic().initial()])
    assert watch.attribution.pending(connection)
    watch.owners.answer(Owner(CHILD, in_tree=True))
    watch.attribution.poll()
    assert connection.process == CHILD
    assert not watch.attribution.pending(connection)
    assert watch.attribution.wanted(connection)


def test_protocols_are_apart() -> None:
    """The owner of a UDP port is not the owner of the same TCP port."""
    watch = Watch()
    traffic = Traffic()
    quic, tcp = watch.see([traffic.initial(), *traffic.connected()])
    watch.owners.answer(Owner(MINE, in_tree=None), protocol=6)
    watch.attribution.poll()
    assert (quic.process, tcp.process) == (None, MINE)


def test_a_weaker_answer_changes_nothing() -> None:
    """What was known while the socket was open stays known when it is gone."""
    watch = Watch()
    watch.attribution.narrow(ROOT)
    (connection,) = watch.see([Traffic().initial()])
    watch.owners.answer(Owner(None, in_tree=False))
    watch.owners.answer(Owner(None, in_tree=None, missed_ns=START_NS + 9 * MS))
    watch.attribution.poll()
    assert not watch.attribution.wanted(connection)


def test_a_port_that_is_used_again() -> None:
    """Long after, the same port is another socket, and asked for anew."""
    watch = Watch()
    watch.see([Traffic().initial()])
    watch.owners.answer(Owner(MINE, in_tree=True))
    watch.attribution.poll()
    (second,) = watch.see([Traffic(server=OTHER_SERVER, start_ns=START_NS + 60_000 * MS).initial()])
    watch.attribution.poll()
    assert second.process is None
    assert (17, CLIENT, OTHER_SERVER) in watch.owners.asked


def test_somebody_elses_is_not_wanted() -> None:
    """A connection of a process outside of the tree is left out, whether its process is known or not."""
    for owner in (Owner(OTHER, in_tree=False), Owner(None, in_tree=False)):
        watch = Watch()
        watch.attribution.narrow(ROOT)
        (connection,) = watch.see([Traffic().initial()])
        watch.owners.answer(owner)
        watch.attribution.poll()
        assert not watch.attribution.wanted(connection)
        assert not watch.attribution.pending(connection)


def test_a_packet_sent_after_the_tree_was_looked_at() -> None:
    """A socket that the tree did not have, and that sent something later, is somebody else's; else nobody knows."""
    traffic = Traffic()
    watch = Watch()
    watch.attribution.narrow(ROOT)
    first = traffic.initial()
    (connection,) = watch.see([first])
    watch.owners.answer(Owner(None, in_tree=None, missed_ns=first.time_ns))
    watch.attribution.poll()
    assert watch.attribution.wanted(connection)
    watch.see([traffic.udp(b"\x40" + bytes(30))])
    watch.attribution.poll()
    assert not watch.attribution.wanted(connection)


def test_a_socket_that_is_being_closed() -> None:
    """The FIN of a socket whose descriptor is gone, and the acknowledgement after it, prove nothing."""
    traffic = Traffic()
    watch = Watch()
    watch.attribution.narrow(ROOT)
    (connection,) = watch.see(traffic.connected())
    watch.owners.answer(Owner(None, in_tree=None, missed_ns=START_NS + 4 * MS), protocol=6)
    watch.attribution.poll()
    watch.see([traffic.frame(b""), traffic.tcp(flags=FIN | ACK), traffic.tcp(flags=ACK)])
    watch.attribution.poll()
    assert watch.attribution.wanted(connection)


def test_a_socket_that_is_still_there_later() -> None:
    """A socket that is there long after the tree did not have it is somebody else's; soon after it may be closing."""
    for later, wanted in ((1, True), (200, False)):
        watch = Watch()
        watch.attribution.narrow(ROOT)
        (connection,) = watch.see([Traffic().initial()])
        missed = START_NS + 2 * MS
        watch.owners.answer(Owner(None, in_tree=None, missed_ns=missed))
        owner = Owner(None, in_tree=None, missed_ns=missed + later * MS)
        watch.owners.answer(owner, inode=7, asked_ns=missed + later * MS)
        watch.attribution.poll()
        assert watch.attribution.wanted(connection) == wanted


def test_what_is_not_known_is_reported() -> None:
    """A local connection whose owner nobody saw is reported, without a process, once the asking is over."""
    watch = Watch()
    watch.attribution.narrow(ROOT)
    (connection,) = watch.see([Traffic().initial()])
    watch.attribution._open[connection.id].began -= max(RETRIES_S)
    for _ in RETRIES_S:
        watch.attribution.poll()
    assert len(watch.owners.asked) == len(RETRIES_S)
    assert not watch.attribution.pending(connection)
    assert watch.attribution.wanted(connection)
    assert connection.process is None


def test_what_began_before_the_command() -> None:
    """A connection that is older than the command is not its own."""
    watch = Watch()
    watch.attribution.narrow(ROOT, since_ns=START_NS + 2 * MS)
    (connection,) = watch.see([Traffic().initial()])
    assert not watch.attribution.wanted(connection)


def test_other_hosts() -> None:
    """A connection from another host is nobody's here: not asked for, and not wanted beside a command."""
    watch = Watch()
    (connection,) = watch.see([Traffic(client=ELSEWHERE).initial()])
    assert watch.owners.asked == []
    assert watch.attribution.wanted(connection)
    watch.attribution.narrow(ROOT)
    assert not watch.attribution.wanted(connection)


def test_this_hosts_addresses() -> None:
    """A connection from one of this host's own addresses is asked for."""
    watch = Watch(frozenset([ELSEWHERE.host]))
    watch.see([Traffic(client=ELSEWHERE).initial()])
    assert (17, ELSEWHERE, SERVER) in watch.owners.asked


def test_without_a_command_everyone_is_wanted() -> None:
    """Without a command, or a process, nothing is left out."""
    watch = Watch()
    (connection,) = watch.see([Traffic().initial()])
    watch.owners.answer(Owner(OTHER, in_tree=None))
    watch.attribution.poll()
    assert connection.process == OTHER
    assert watch.attribution.wanted(connection)
