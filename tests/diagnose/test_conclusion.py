from h3probe.diagnose.story import CHAPTER_LENGTH

from .scenario import JDK, Network


def test_a_very_long_story_is_told_to_its_end() -> None:
    """What happens after hundreds of connections to one origin is found, and the verdict says it."""
    network = Network()
    for number in range(2 * CHAPTER_LENGTH):
        network.tcp(software=JDK).connects(number * 2.0)
    at = 5000.0
    quic = network.quic(software=JDK)
    quic.initials(at, at + 1.0)
    quic.close(at + 2.75, 0xC)
    network.tcp(software=JDK).connects(at + 2.78)
    explained = network.explain()
    assert "fallback-delay" in explained.rules
    assert "2.78 s" in explained.sentence
