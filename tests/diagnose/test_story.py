from __future__ import annotations

import pytest

from h3probe.diagnose.story import CARRIED_OVER, CHAPTER_LENGTH, chapters
from tests.diagnose.scenario import CURL, JDK, STRANGER, Network, Software


@pytest.mark.parametrize(
    ("software", "seen_for", "had_time"),
    [(CURL, 0.3, False), (CURL, 0.6, True), (JDK, 2.0, False), (JDK, 31.0, True), (STRANGER, 4.0, False)],
)
def test_a_client_has_had_time_by_its_own_habits(software: Software, seen_for: float, *, had_time: bool) -> None:
    """Whether a client would have gone on to TCP by now depends on who it is, and on how long it was seen trying."""
    network = Network()
    network.quic(software=software).initials(0.0, seen_for / 2, seen_for)
    (story,) = network.explain().stories
    assert story.had_time is had_time


def test_time_after_the_clients_last_packet_proves_nothing() -> None:
    """A capture that goes on says nothing of a client that may be gone."""
    network = Network()
    network.quic(software=JDK).initials(0.0, 1.0)
    network.bystander(100.0)
    (story,) = network.explain().stories
    assert not story.had_time


def test_a_second_attempt_is_the_clients_own_answer() -> None:
    """The JDK that tries QUIC again at the same place has decided against TCP."""
    network = Network()
    quic = network.quic(software=JDK)
    quic.initials(0.0, 1.0)
    quic.close(2.75, 0xC)
    quic.again()
    quic.initials(3.0, 4.0)
    (story,) = network.explain().stories
    assert story.had_time


def test_attempts_side_by_side_are_a_crowd() -> None:
    """A client keeps to one attempt at a place: two that overlap belong to two, and which TCP is whose is not told."""
    network = Network()
    network.quic(software=JDK).initials(0.0, 1.0, 3.0)
    network.quic(software=JDK).initials(0.5, 1.5, 3.5)
    network.tcp(software=JDK).connects(2.8)
    explained = network.explain()
    (story,) = explained.stories
    assert story.crowded
    assert explained.sentence == (
        "HTTP/2 or HTTP/1.1, not HTTP/3: QUIC was not answered (3 Initials over 3.00 s), the first of 2 attempts, "
        "several at once."
    )
    assert "fallback-delay" not in explained.rules


def test_what_a_crowd_with_tcp_used_is_not_told() -> None:
    """Where one of several attempts led to a connection, TCP may be that of any of them."""
    network = Network()
    network.quic(software=JDK).initials(0.0, 1.0, 3.0)
    network.quic(software=JDK).connects(0.5)
    network.tcp(software=JDK).connects(2.8)
    assert "cannot be told" in network.explain().sentence


def test_connections_of_a_crowd_without_tcp_are_told() -> None:
    """A browser that opens two QUIC connections at once, and nothing else, used HTTP/3."""
    network = Network()
    network.quic().connects(0.0)
    network.quic().connects(0.01)
    assert network.explain().sentence.startswith("HTTP/3")


def test_a_long_story_has_chapters_that_overlap() -> None:
    """Each chapter begins with the end of the one before, so that nothing falls between two."""
    network = Network()
    for number in range(CHAPTER_LENGTH + 10):
        network.tcp().connects(number * 2.0)
    (story,) = network.explain().stories
    first, second = chapters(story)
    assert len(first.connections) <= CHAPTER_LENGTH
    shared = {c.id for c in first.connections} & {c.id for c in second.connections}
    assert len(shared) == CARRIED_OVER
    assert {c.id for c in first.connections} | {c.id for c in second.connections} == {c.id for c in story.connections}
