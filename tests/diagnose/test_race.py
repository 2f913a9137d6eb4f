from __future__ import annotations

from typing import Any, Literal

import pytest

from tests.diagnose.scenario import (
    CLIENT,
    CLIENT6,
    CURL,
    JDK,
    SERVER6,
    STATION,
    STRANGER,
    Explained,
    Network,
    Packet,
    Quic,
    Software,
    Tcp,
)


def test_a_race_has_its_times() -> None:
    """Head start, both moments of readiness, who was first and by how much."""
    network = Network()
    network.quic().connects(0.0, rtt=0.1)
    network.tcp().connects(0.03)
    (race,) = network.explain().races
    assert (race.quic, race.tcp, race.origin) == ("quic-1", "tcp-1", "example.org:443")
    assert race.head_start == pytest.approx(0.03)
    assert race.quic_ready_at == pytest.approx(0.101)
    assert race.tcp_ready_at == pytest.approx(0.0711)
    assert race.first_ready == "tcp"
    assert race.ready_margin == pytest.approx(0.0299)
    assert race.at == 0.0


def test_tcp_may_begin() -> None:
    """A client that gives TCP the head start races as well: the head start is negative."""
    network = Network()
    network.tcp().connects(0.0)
    network.quic().connects(0.01)
    (race,) = network.explain().races
    assert race.head_start == pytest.approx(-0.01)


@pytest.mark.parametrize(("gap", "races"), [(0.99, 1), (1.01, 0)])
def test_the_head_start_has_a_limit(gap: float, races: int) -> None:
    """A SYN more than a second after the Initial of an unknown client is a fallback, no race."""
    network = Network()
    network.quic().initials(0.0, 0.5, 2.0)
    network.tcp().connects(gap)
    assert len(network.explain().races) == races


def test_what_was_ready_before_does_not_race() -> None:
    """Neither side may have been ready when the other began."""
    network = Network()
    network.quic().connects(0.0)
    network.tcp().connects(0.5)
    assert network.explain().races == []


def test_what_was_over_before_does_not_race() -> None:
    """A QUIC attempt that the client had closed is replaced, not raced."""
    network = Network()
    quic = network.quic()
    quic.initial(0.0)
    quic.close(0.3, 0)
    network.tcp().connects(0.31)
    assert network.explain().races == []


@pytest.mark.parametrize(
    ("software", "again", "races"), [(CURL, False, 0), (CURL, True, 1), (JDK, False, 1), (STRANGER, False, 0)]
)
def test_a_refusal_that_is_heeded_ends_the_race(software: Software, *, again: bool, races: int) -> None:
    """curl, as anyone who sends nothing more, goes on because it was refused; the JDK does not listen, and races."""
    network = Network()
    quic = network.quic(software=software)
    quic.initial(0.0)
    quic.unreachable(0.000_05)
    network.tcp().connects(0.01)
    if again:
        quic.client_initial(1.0, b"\x01")
    assert len(network.explain().races) == races


def test_a_refused_twin_does_not_end_the_race() -> None:
    """`localhost`: TCP to ::1 was refused at once, which says nothing about 127.0.0.1."""
    network = Network()
    six = network.tcp(client="::1", server="::1", port=4433, sni=None)
    six.syn(0.0)
    six.refuse(0.000_01)
    network.quic(client="127.0.0.1", server="127.0.0.1", port=4433, sni="localhost").initials(0.001, 1.0)
    network.tcp(client="127.0.0.1", server="127.0.0.1", port=4433, sni="localhost").connects(0.002)
    (race,) = network.explain().races
    assert race.tcp == "tcp-2"


def test_a_refusal_at_the_same_address_ends_the_race() -> None:
    """QUIC that is tried because the same server refused TCP does not race it."""
    network = Network()
    tcp = network.tcp(sni=None)
    tcp.syn(0.0)
    tcp.refuse(0.01)
    network.quic().connects(0.1)
    assert network.explain().races == []


def test_addresses_of_both_families_are_one_race() -> None:
    """Happy eyeballs over both transports and families is one try; the attempts that got furthest stand for it."""
    network = Network(stations={CLIENT: STATION, CLIENT6: STATION})
    network.quic(client=CLIENT6, server=SERVER6).initials(0.0, 1.0)
    network.quic().connects(0.05, rtt=0.3)
    network.tcp(client=CLIENT6, server=SERVER6).syn(0.1)
    network.tcp().connects(0.15)
    (race,) = network.explain().races
    assert (race.quic, race.tcp) == ("quic-2", "tcp-2")


def test_each_time_that_a_client_sets_out_is_a_race() -> None:
    """Two races minutes apart are two."""
    network = Network()
    for at in (0.0, 100.0):
        network.quic().initials(at, at + 1.0, at + 3.0)
        tcp = network.tcp()
        tcp.connects(at + 0.05)
        tcp.fin(at + 1.0)
    assert [race.tcp for race in network.explain().races] == ["tcp-1", "tcp-2"]


def carried(explained: Explained) -> str | None:
    """Who carried in the only race."""
    (race,) = explained.races
    assert (race.carried is None) == (race.carried_known_from is None)
    return race.carried


def test_a_close_before_ready_leaves_no_doubt() -> None:
    """QUIC was closed in its handshake, TCP exchanged something: TCP carried."""
    network = Network()
    quic = network.quic()
    quic.initial(0.0)
    quic.close(0.1, 0x178, by="server")
    network.tcp().connects(0.01)
    assert carried(network.explain()) == "tcp"


def test_quic_alone_able_leaves_no_doubt() -> None:
    """TCP reset before it was ready, QUIC exchanged something: QUIC carried."""
    network = Network()
    network.quic().connects(0.0)
    tcp = network.tcp()
    tcp.syn(0.01)
    tcp.accepts(0.02)
    tcp.hello(0.03)
    tcp.rst(0.04)
    assert carried(network.explain()) == "quic"


def test_a_request_that_quic_did_not_answer_was_not_carried() -> None:
    """QUIC alone became ready, and the server's side of it fell silent: no exchange is seen."""
    network = Network()
    quic = network.quic()
    quic.initial(0.0)
    quic.answers(0.02)
    quic.server_handshake(0.021)
    quic.client_handshake(0.03)
    quic.request(0.031)
    tcp = network.tcp(sni=None)
    tcp.syn(0.001)
    tcp.refuse(0.002)
    assert carried(network.explain()) is None


def test_tcp_that_is_slow_is_not_dead() -> None:
    """A TCP handshake that is still under way when the capture ends may have carried the first request after all."""
    network = Network()
    network.quic().connects(0.0)
    network.tcp().syn(0.01)
    assert carried(network.explain()) is None


@pytest.mark.parametrize("by", ["client", "server"])
def test_one_direction_tells_nothing(by: str) -> None:
    """A capture of one direction never says who carried where both could."""
    network = Network()
    network.quic().connects(0.0, rtt=0.1)
    network.tcp().connects(0.01)

    def seen(packet: Packet) -> bool:
        return packet.by == by

    assert all(race.carried is None for race in network.explain(seen=seen).races)


@pytest.mark.parametrize("quic_rtt", [0.001, 0.02, 0.3])
@pytest.mark.parametrize("tcp_rtt", [0.001, 0.02, 0.3])
@pytest.mark.parametrize("talks", ["both", "quic", "tcp"])
def test_both_ready_is_never_decided_by_size_or_time(quic_rtt: float, tcp_rtt: float, talks: str) -> None:
    """However large the margin and whatever was exchanged: with both ready it stays open."""
    network = Network()
    quic, tcp = network.quic(), network.tcp()
    quic.connects(0.0, rtt=quic_rtt)
    tcp.opens(0.000_5, rtt=tcp_rtt)
    for at in range(1, 20):
        if talks != "tcp":
            quic.request(at / 1.0, 1100)
            quic.response(at + 0.1, 1100)
        if talks != "quic":
            tcp.exchanges(at + 0.2)
    for race in network.explain().races:
        assert race.carried is None


PLACE: dict[str, Any] = {"origin": "https://example.org:8443", "url": "https://example.org:8443/"}


def raced(network: Network) -> tuple[Quic, Tcp]:
    """A race in which both became ready, so that packets cannot tell who carried what."""
    quic, tcp = network.quic(server="127.0.0.1", port=8443), network.tcp(server="127.0.0.1", port=8443)
    quic.connects(0.0, rtt=0.1)
    tcp.connects(0.03)
    return quic, tcp


@pytest.mark.parametrize(("version", "carried"), [("HTTP/3", "quic"), ("HTTP/2", "tcp"), ("HTTP/1.1", "tcp")])
def test_a_proxy_knows_who_carried_the_first_exchange(version: str, carried: str) -> None:
    """What the wire cannot tell the proxy saw; later exchanges do not matter."""
    network = Network()
    quic, tcp = raced(network)
    network.proxy().exchange(0.2, quic if carried == "quic" else tcp, version)
    network.proxy().exchange(0.5, tcp if carried == "quic" else quic, "HTTP/2" if carried == "quic" else "HTTP/3")
    explained = network.explain()
    (race,) = explained.races
    assert (race.carried, race.carried_known_from) == (carried, "proxy")
    assert bool(explained.found("race-lost")) is (carried == "tcp")


def test_without_an_exchange_nobody_knows() -> None:
    """Both were ready, and no vantage point saw a request."""
    network = Network()
    raced(network)
    (race,) = network.explain().races
    assert (race.carried, race.carried_known_from) == (None, None)


def test_an_exchange_from_before_the_race_decides_nothing() -> None:
    """A connection that was there already carried that one."""
    network = Network()
    _, tcp = raced(network)
    network.delay(10.0)
    network.proxy().exchange(5.0, tcp)
    (race,) = network.explain().races
    assert race.carried_known_from is None


def test_a_third_connection_is_none_of_the_two() -> None:
    """The first exchange after the race began went over a connection that was open before it."""
    network = Network()
    quic, _ = raced(network)
    network.delay(10.0)
    old = network.tcp(server="127.0.0.1", port=8443)
    old.connects(0.0)
    network.proxy().exchange(10.01, old)
    network.proxy().exchange(10.2, quic, "HTTP/3")
    (race,) = network.explain().races
    assert race.carried is None


@pytest.mark.parametrize("known_from", ["client-log", "decrypted"])
@pytest.mark.parametrize(("version", "carried"), [("HTTP/3", "quic"), ("HTTP/2", "tcp")])
def test_a_log_knows_it_as_well(version: str, carried: str, known_from: Literal["client-log", "decrypted"]) -> None:
    """What the client itself, or decrypted traffic, says of the first request; failed ones carried nothing."""
    network = Network()
    quic, tcp = raced(network)
    network.told(0.25, None, None, known_from=known_from, origin="https://example.org:8443")
    network.told(0.3, quic if carried == "quic" else tcp, version, known_from=known_from, **PLACE)
    network.told(0.31, tcp if carried == "quic" else quic, "HTTP/2" if carried == "quic" else "HTTP/3",
                 known_from=known_from, **PLACE)  # fmt: skip
    (race,) = network.explain().races
    assert (race.carried, race.carried_known_from) == (carried, known_from)


def test_a_connection_that_no_secret_opens_may_have_been_first() -> None:
    """Where one of the two was read alone, what it carried need not have been the first."""
    network = Network()
    quic, _ = raced(network)
    network.told(0.3, quic, "HTTP/3", known_from="decrypted", **PLACE)
    (race,) = network.explain().races
    assert race.carried is None


def test_a_log_that_tells_seconds_only() -> None:
    """A request that looks as if it began before the race was answered during it."""
    network = Network()
    _, tcp = raced(network)
    network.delay(0.9)
    network.told(0.5, tcp, began=0.0, within=1.0, **PLACE)
    (race,) = network.explain().races
    assert (race.carried, race.carried_known_from) == ("tcp", "client-log")


def test_a_log_of_another_connection_decides_nothing() -> None:
    """The first request went over one that the log's words do not lead to: it may be neither of the two."""
    network = Network()
    quic, tcp = raced(network)
    old = network.tcp(server="127.0.0.1", port=8443)
    old.connects(-5.0)
    old.exchanges(0.2)
    network.told(0.2, old, **PLACE)
    network.told(0.3, tcp, **PLACE)
    network.told(0.4, quic, "HTTP/3", **PLACE)
    assert all(race.carried is None for race in network.explain().races)


@pytest.mark.parametrize(("until", "carried"), [(0.5, None), (6.0, "tcp")])
def test_a_client_that_goes_on_over_tcp_gave_quic_up(until: float, carried: str | None) -> None:
    """An Initial that is not sent again while its client uses TCP for seconds was the last one."""
    network = Network()
    network.quic().initial(0.0)
    tcp = network.tcp()
    tcp.connects(0.2)
    tcp.exchanges(until)
    assert network.explain().races[0].carried == carried


def test_quic_without_a_1_rtt_packet_carried_nothing() -> None:
    """A close in a Handshake packet cannot be read; that a client finished over TCP, and used no QUIC, is seen."""
    network = Network()
    quic = network.quic()
    quic.initial(0.0)
    quic.answers(0.02)
    quic.server_handshake(0.021)
    quic.client_handshake(0.022)
    tcp = network.tcp()
    tcp.connects(0.03)
    tcp.fin(0.2)
    explained = network.explain()
    assert explained.races[0].carried == "tcp"
    assert explained.sentence == "HTTP/2 or HTTP/1.1 won the race: QUIC was not ready."


@pytest.mark.parametrize("hello", [True, False])
def test_tcp_that_was_closed_unused_carried_nothing(*, hello: bool) -> None:
    """A client that has what it wants lets go of TCP: nothing came over it, so that the first exchange was QUIC's."""
    network = Network()
    network.quic().connects(0.0, rtt=0.01)
    tcp = network.tcp()
    if hello:
        tcp.opens(0.002)
    else:
        tcp.syn(0.002)
        tcp.accepts(0.022)
    tcp.rst(0.2, "client")
    explained = network.explain()
    assert explained.races[0].carried == "quic"
    assert explained.sentence == "HTTP/3 won the race against TCP, ready after 11 ms."
