"""The connections that are kept."""

from __future__ import annotations

from typing import TYPE_CHECKING

from h3probe.track import kept as module
from h3probe.track.kept import KeptConnections
from tests.track.test_packed import connections

if TYPE_CHECKING:
    import pytest

    from h3probe.events import Endpoint


def by_address(endpoint: Endpoint) -> str:
    """A host for each address."""
    return endpoint.address


def test_what_is_used_least_recently_is_forgotten() -> None:
    """Without packing a full table forgets, and counts; all that is left comes at once."""
    kept = KeptConnections(4)
    first, *others = connections()[:5]
    for connection in (first, *others[:3]):
        kept.put(connection)
    assert kept.get(first.id) is first
    kept.put(others[3])
    assert kept.peek(others[0].id) is None
    assert kept.evicted == 1
    assert list(kept.by_client(by_address)) == [[*others[1:3], first, others[3]]]


def test_with_packing_none_is(monkeypatch: pytest.MonkeyPatch) -> None:
    """All connections come, client by client, and nothing was forgotten."""
    monkeypatch.setattr(module, "AT_ONCE", 2)
    kept, many = KeptConnections(6, 4), connections()
    packed = [each for connection in many for each in kept.put(connection, packs=True)]
    assert [*packed, *kept] == many
    assert 2 <= len(list(kept)) < 6
    found = list(kept.by_client(by_address))
    assert [{c.client.address for c in group} for group in found] == [{"192.0.2.10"}, {"192.0.2.11"}]
    assert sorted((c for group in found for c in group), key=lambda c: c.first) == sorted(many, key=lambda c: c.first)
    assert kept.evicted == 0
    assert len(kept.tunnelled) == 1


def test_what_cannot_be_looked_at_together_is_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a client that made too many connections the latest and the first are left, and the others are counted."""
    monkeypatch.setattr(module, "AT_ONCE", 2)
    monkeypatch.setattr(module, "OF_A_CLIENT", 4)
    kept, many = KeptConnections(6, 2), [c for c in connections() if c.client.address == "192.0.2.10"]
    for connection in many:
        kept.put(connection, packs=True)
    latest = list(kept)
    (found,) = kept.by_client(by_address)
    assert len(many) > len(found) == 4
    assert found[-len(latest) :] == latest
    assert found[0] == many[0]
    assert kept.evicted == len(many) - 4


def test_what_is_not_over_is_not_packed(monkeypatch: pytest.MonkeyPatch) -> None:
    """A connection that still changes stays, and so does one on loopback."""
    monkeypatch.setattr(module, "AT_ONCE", 2)
    kept, (first, *many) = KeptConnections(6, 4), connections()
    first.settled = False
    for connection in (first, *many[:5]):
        kept.put(connection, packs=True)
    assert kept.peek(first.id) is first


def test_where_none_is_over_the_table_is_not_searched_for_each(monkeypatch: pytest.MonkeyPatch) -> None:
    """With nothing to pack the next try waits for some more connections."""
    searched: list[int] = []
    monkeypatch.setattr(module, "AT_ONCE", 800)
    kept = KeptConnections(1, 1)
    monkeypatch.setattr(kept._packed, "put", lambda over: searched.append(len(over)))
    for connection in connections():
        connection.settled = False
        kept.put(connection, packs=True)
    assert searched == [0]
    assert kept.evicted == 12
