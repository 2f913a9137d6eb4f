from __future__ import annotations

import pytest

from h3probe.engine import Engine
from h3probe.events import Dropped
from h3probe.filters import Filters
from tests.diagnose.scenario import CLIENT, Network
from tests.engine.test_engine import busy, validate


@pytest.mark.parametrize(
    ("origin", "found"),
    [
        ("example.org", {"example.org:443"}),
        ("example.org:443", {"example.org:443"}),
        ("example.org:444", {"example.org:444"}),
        ("198.51.100.3", {"third.example:443"}),
        ("other.example", {"other.example:443"}),
    ],
)
def test_a_filter_by_origin_leaves_the_rest_out(origin: str, found: set[str]) -> None:
    """By name or by address, with a port or without; a tunnel's target counts."""
    explained = busy().explain(filters=Filters(origins=frozenset({origin})))
    validate(explained.records)
    assert {verdict.origin for verdict in explained.verdicts} == found
    rest = {"example.org:443", "third.example:443", "other.example:443"} - found
    assert not any(finding.origin in rest for finding in explained.findings)


def test_every_prefix_of_silence_is_judged_by_the_client_alone() -> None:
    """Time that only others' packets show makes no failure of a client that is gone."""
    network = Network()
    network.quic().initial(0.0)
    for at in range(1, 100):
        network.bystander(float(at))
    explained = network.explain()
    assert explained.findings == []
    assert explained.verdicts[0].client == CLIENT


def fed(engine: Engine) -> Engine:
    """An engine that took the packets of one client's QUIC attempt, and nothing else."""
    network = Network()
    network.quic().initial(0.0)
    for event in network.events():
        engine.feed(event)
    return engine


def test_a_command_in_a_network_of_its_own_is_the_client() -> None:
    """Whose sockets they are need not be known there; elsewhere the client is an address."""
    (story,) = fed(Engine("a network of its own", "live", alone="curl")).stories()
    (elsewhere,) = fed(Engine("any", "live")).stories()
    assert (story.client, elsewhere.client) == ("curl", CLIENT)


@pytest.mark.parametrize(("kind", "lacks"), [("live", set()), ("pcap", {"tcp"})])
def test_what_a_capture_lacks_may_come_while_it_runs(kind: str, lacks: set[str]) -> None:
    """That a file has no TCP at all may be its filter's doing; a live run sees what there is."""
    (story,) = fed(Engine("test", kind)).stories()
    assert story.lacks == lacks


@pytest.mark.parametrize("of_command", [True, False])
def test_a_connection_without_an_owner_is_nobodys_where_a_command_is_watched(*, of_command: bool) -> None:
    """Only a command's traffic is wanted, and that this is its is not known."""
    (story,) = fed(Engine("any", "live", wants_command=of_command)).stories()
    assert (story.of_command, story.unowned) == (of_command, of_command)


def test_losses_weaken_every_story() -> None:
    """Packets that were lost before they were seen may have been of any of them."""
    engine = fed(Engine("test", "pcap"))
    assert [story.lossy for story in engine.stories()] == [False]
    engine.feed(Dropped(3, "the kernel had no room"))
    assert [story.lossy for story in engine.stories()] == [True]
