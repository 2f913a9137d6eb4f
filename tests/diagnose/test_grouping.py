from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from h3probe.diagnose.origin import origin_of_url
from h3probe.filters import Filters
from tests.diagnose.scenario import (
    CHROMIUM,
    CLIENT,
    CLIENT6,
    CURL,
    JDK,
    SERVER,
    SERVER6,
    STATION,
    STRANGER,
    Explained,
    Network,
    explain,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.diagnose.scenario import Software, Tcp


LOCAL: Any = {"client": "127.0.0.1", "server": "127.0.0.1", "sni": "localhost"}
OF_THE_COMMAND = Filters(wanted=lambda c: c.process is None or c.process.pid == 7)


def origins(explained: Explained) -> list[str | None]:
    """The stories' origins, in order."""
    return [story.origin for story in explained.stories]


def test_a_story_joins_both_transports_by_name() -> None:
    """QUIC and TCP to one name and port are one story."""
    network = Network()
    network.quic().initials(0.0, 1.0)
    network.tcp().connects(0.1)
    (story,) = network.explain().stories
    assert (story.origin, story.client, story.server) == ("example.org:443", CLIENT, "198.51.100.1:443")
    assert (len(story.quic), len(story.tcp)) == (1, 1)
    assert story.begins_ns == story.quic[0].first.time_ns


def test_names_are_compared_as_dns_does() -> None:
    """Case and a final dot make no other name."""
    network = Network()
    network.quic(sni="Example.ORG.").connects(0.0)
    network.tcp().connects(1.0)
    assert origins(network.explain()) == ["example.org:443"]


def test_another_port_is_another_origin() -> None:
    """A port is part of an origin (RFC 6454)."""
    network = Network()
    network.tcp().connects(0.0)
    network.tcp(port=8443).connects(1.0)
    assert origins(network.explain()) == ["example.org:443", "example.org:8443"]


def test_a_nameless_attempt_joins_the_only_name_at_its_address() -> None:
    """The JDK sends no SNI for localhost over QUIC, and does over TCP."""
    network = Network()
    network.quic(client="127.0.0.1", server="127.0.0.1", port=4433, sni=None).initials(0.0, 1.0)
    network.tcp(client="127.0.0.1", server="127.0.0.1", port=4433, sni="localhost").connects(0.05)
    (story,) = network.explain().stories
    assert story.origin == "localhost:4433"


def test_a_nameless_attempt_beside_two_names_stands_alone() -> None:
    """Two strangers merged are worse than one story in two parts."""
    network = Network()
    network.tcp(sni="one.example").connects(0.0)
    network.tcp(sni="two.example").connects(0.1)
    network.quic(sni=None).initials(0.2, 1.2)
    explained = network.explain()
    assert origins(explained) == ["one.example:443", "two.example:443", None]
    assert explained.races == []
    assert explained.stories[2].label == "198.51.100.1:443"


def test_dns_names_a_nameless_attempt() -> None:
    """The one name that was looked up for an address is its origin, where nobody read what the attempt asks for."""
    network = Network()
    network.dns(0.0, "example.org", SERVER)
    network.tcp().syn(0.1)
    network.tcp().syn(0.2)
    assert origins(network.explain()) == ["example.org:443"]


@pytest.mark.parametrize(("name", "joins"), [("intranet", True), ("h3.test", False)])
def test_a_hello_without_a_name_is_for_no_name_with_a_dot(name: str, *, joins: bool) -> None:
    """It is for an address (RFC 6066, 3): `https://192.0.2.1` is not the site there; Java leaves out `localhost`."""
    network = Network()
    network.dns(0.0, name, SERVER)
    network.tcp(sni=name).connects(0.1)
    network.quic(sni=None).connects(0.2)
    assert origins(network.explain()) == ([f"{name}:443"] if joins else [f"{name}:443", None])


def test_an_attempt_whose_hello_nobody_read_joins_the_only_name() -> None:
    """What was cut off, or could not be decrypted, may have named it."""
    network = Network()
    network.tcp(sni="h3.test").connects(0.1)
    network.tcp().syn(0.2)
    assert origins(network.explain()) == ["h3.test:443"]


def test_two_names_of_an_address_name_nothing() -> None:
    """A shared address does not tell which of its names was meant."""
    network = Network()
    network.dns(0.0, "one.example", SERVER)
    network.dns(0.1, "two.example", SERVER)
    network.quic(sni=None).connects(0.2)
    assert origins(network.explain()) == [None]


def test_dns_and_sni_that_disagree_name_nothing() -> None:
    """An address looked up for one name and used for another is shared: a nameless attempt there is nobody's."""
    network = Network()
    network.dns(0.0, "one.example", SERVER)
    network.tcp(sni="two.example").connects(0.1)
    network.quic(sni=None).initials(0.2, 1.2)
    explained = network.explain()
    assert None in origins(explained)
    assert explained.races == []


def test_names_behind_one_ech_name_are_not_merged() -> None:
    """Two sites of one provider share the outer name and differ in address: they are two origins."""
    network = Network()
    quic = network.quic(sni="cloudflare-ech.com", ech=True, server="198.51.100.1")
    quic.initials(0.0, 1.0)
    quic.close(2.0, 0)
    network.tcp(sni="cloudflare-ech.com", ech=True, server="198.51.100.77").connects(2.1)
    assert network.explain().rules == ["quic-unanswered"]


def test_loopback_is_one_place() -> None:
    """::1 and 127.0.0.1 are the same server."""
    network = Network()
    network.quic(client="::1", server="::1", port=4433, sni=None).initials(0.0, 1.0)
    network.tcp(client="127.0.0.1", server="127.0.0.1", port=4433, sni="localhost").connects(0.05)
    assert len(network.explain().stories) == 1


def test_a_dual_stack_host_is_one_client() -> None:
    """Addresses of both families that one station sends from are one host."""
    network = Network(stations={CLIENT: STATION, CLIENT6: STATION})
    network.quic(client=CLIENT6, server=SERVER6).initials(0.0, 1.0)
    network.tcp().connects(0.3)
    (story,) = network.explain().stories
    assert (len(story.quic), len(story.tcp)) == (1, 1)


def test_hosts_behind_a_router_are_not_one_client() -> None:
    """A station that sends from strangers' addresses is a router."""
    network = Network(stations={"203.0.113.99": STATION})
    network.quic(client="192.0.2.10").initials(0.0, 1.0)
    network.tcp(client="192.0.2.11").connects(0.3)
    assert len(network.explain().stories) == 2


def test_strangers_behind_one_router_are_not_one_client() -> None:
    """On a server, everyone comes from the router's station: two clients, one of each family, are two clients."""
    network = Network(stations={SERVER: STATION, SERVER6: STATION})
    network.quic(client=CLIENT6, server=SERVER6).initials(0.0, 1.0, 3.0)
    network.tcp().connects(2.8)
    assert len(network.explain().stories) == 2


def test_a_socks_proxy_is_not_the_origin() -> None:
    """The name in a ClientHello behind a SOCKS greeting is not at the proxy's port."""
    network = Network()
    tcp = network.tcp(server="192.0.2.3", port=1080)
    tcp.syn(0.0)
    tcp.accepts(0.01)
    tcp.segment(0.02, "client", 0x18, b"\x05\x01\x00")
    tcp.segment(0.03, "server", 0x18, b"\x05\x00")
    tcp.segment(0.04, "client", 0x18, b"\x05\x01\x00\x03\x0bexample.org\x01\xbb")
    tcp.segment(0.05, "server", 0x18, b"\x05\x00\x00\x01" + bytes(6))
    tcp.gets_ready(0.06)
    assert origins(network.explain()) != ["example.org:1080"]


def test_processes_tell_clients_apart() -> None:
    """Two processes on one host are two clients, and named."""
    network = Network()
    one, two = network.quic(), network.tcp()
    one.connects(0.0)
    two.connects(0.1)
    network.owns(0.05, one, 7, "firefox")
    network.owns(0.15, two, 8, "dnf")
    assert [story.client for story in network.explain().stories] == ["firefox[7]", "dnf[8]"]


def test_one_process_is_one_client_whatever_its_fingerprints() -> None:
    """A program may use two libraries, one for each transport."""
    network = Network()
    quic, tcp = network.quic(software=CURL), network.tcp(software=JDK)
    quic.initials(0.0, 1.0)
    tcp.connects(0.1)
    network.owns(0.05, quic, 7, "app")
    network.owns(0.15, tcp, 7, "app")
    (story,) = network.explain().stories
    assert story.client == "app[7]"


def test_what_nobody_owns_beside_two_processes_is_no_client_with_both_transports() -> None:
    """One process's QUIC and another's TCP do not become one client's attempts, and each says what it cannot know."""
    network = Network()
    one, two, quic, tcp = network.tcp(), network.tcp(), network.quic(), network.tcp()
    one.connects(0.0)
    two.connects(0.1)
    quic.connects(0.2)
    tcp.connects(0.3)
    network.owns(0.05, one, 7, "curl")
    network.owns(0.15, two, 8, "curl")
    explained = network.explain()
    assert [(s.client, len(s.quic), len(s.tcp)) for s in explained.stories] == [
        ("curl[7]", 0, 1),
        ("curl[8]", 0, 1),
        (CLIENT, 1, 0),
        (CLIENT, 0, 1),
    ]
    assert all(story.mixed for story in explained.stories)


def owned_beside_unowned(at: float, software: Software = STRANGER, *, refused: bool = False) -> Network:
    """A process's QUIC, and TCP that begins at a time and whose owner nobody could tell."""
    network = Network()
    quic, tcp = network.quic(software=JDK), network.tcp(software=software)
    quic.initials(0.0, 1.0, 3.0)
    quic.close(30.0, 0xC, application=True)
    network.owns(0.05, quic, 7, "java")
    if refused:
        tcp.syn(at)
        tcp.refuse(at + 0.01)
    else:
        tcp.connects(at)
    return network


@pytest.mark.parametrize(("at", "joins"), [(0.2, True), (30.1, True), (5.0, False)])
def test_what_nobody_owns_joins_the_only_process_where_that_did_something(at: float, *, joins: bool) -> None:
    """A socket whose owner cannot be found was open briefly: at the start of something, or at its end."""
    stories = owned_beside_unowned(at, refused=True).explain().stories
    assert [(s.client, len(s.quic), len(s.tcp)) for s in stories] == (
        [("java[7]", 1, 1)] if joins else [("java[7]", 1, 0), (CLIENT, 0, 1)]
    )
    assert all(story.mixed is not joins for story in stories)


@pytest.mark.parametrize(("software", "stories"), [(JDK, 1), (CURL, 2), (STRANGER, 2)])
def test_what_nobody_owns_joins_the_only_process_if_it_looks_like_it(software: Software, stories: int) -> None:
    """curl's ClientHello is not Java's, whenever it comes."""
    assert len(owned_beside_unowned(0.2, software).explain().stories) == stories


def test_what_nobody_owns_joins_nobody_beside_strangers() -> None:
    """Where somebody who is not asked about visits the same place, what nobody owns may be theirs."""
    network = owned_beside_unowned(0.2, refused=True)
    curl = network.tcp(software=CURL)
    curl.connects(4.0)
    network.owns(4.01, curl, 8, "curl")
    stories = network.explain(filters=OF_THE_COMMAND).stories
    assert [(s.client, len(s.quic), len(s.tcp)) for s in stories] == [("java[7]", 1, 0), (CLIENT, 0, 1)]


def test_a_strangers_refused_tries_hide_no_wait() -> None:
    """Java waits 30 s for QUIC and goes on over TCP, while another program tries ::1 every 3 s and then 127.0.0.1."""
    network = Network()
    quic, tcp = network.quic(**LOCAL, software=JDK), network.tcp(**LOCAL, software=JDK)
    quic.initials(0.0, 1.0, 3.0, 7.0, 15.0)
    quic.close(30.01, 0xC, application=True, reason=b"No response from peer for 30 seconds")
    tcp.connects(30.0)
    network.owns(0.05, quic, 7, "java")
    network.owns(30.05, tcp, 7, "java")
    for at in (0.5, 3.5, 6.5):
        refused, curl = network.tcp(client="::1", server="::1"), network.tcp(**LOCAL, software=CURL)
        refused.syn(at)
        refused.refuse(at + 0.001)
        curl.connects(at + 0.01)
        network.owns(at + 0.02, curl, 8, "curl")
    explained = network.explain(filters=OF_THE_COMMAND)
    assert explained.the("fallback-delay").cost == pytest.approx(30.0)
    java = next(verdict for verdict in explained.verdicts if verdict.client.startswith("java[7]"))
    assert "after 30.0 s of waiting for QUIC" in java.sentence


def test_a_client_is_called_by_the_address_that_got_somewhere() -> None:
    """Of ::1, refused, and 127.0.0.1 the one that worked heads the verdict."""
    network = Network()
    network.tcp(client="::1", server="::1", sni="localhost").syn(0.0)
    network.quic(client="127.0.0.1", server="127.0.0.1", sni="localhost").connects(0.01)
    assert [story.client for story in network.explain().stories] == ["127.0.0.1"]


def test_of_two_clients_one_had_quic() -> None:
    """That no QUIC packet names an origin is not said where another client's does."""
    network = Network()
    network.quic(software=JDK).connects(0.0)
    network.tcp(software=CURL).connects(1.0)
    sentences = [verdict.sentence for verdict in network.explain().verdicts]
    assert sentences[1].endswith("this client sent no QUIC packet to this origin.")


def test_where_nobody_sent_quic_nothing_is_to_be_told_apart() -> None:
    """A connection whose owner is not known leaves no doubt about QUIC when there is none."""
    network = Network()
    connections = [network.tcp() for _ in range(3)]
    for at, connection in enumerate(connections):
        connection.connects(at / 10)
    network.owns(0.05, connections[0], 7, "curl")
    network.owns(0.15, connections[1], 8, "curl")
    explained = network.explain()
    assert len(explained.stories) == 3
    assert not any(story.mixed for story in explained.stories)


def test_fingerprints_tell_clients_apart() -> None:
    """Without processes, software that is known to differ is two clients; the unknown stand apart."""
    network = Network()
    network.quic(software=CURL).connects(0.0)
    network.quic(software=CHROMIUM).connects(0.1)
    network.tcp().connects(0.2)
    stories = network.explain().stories
    assert [(len(s.quic), len(s.tcp)) for s in stories] == [(1, 0), (1, 0), (0, 1)]


def test_the_unknown_joins_the_only_client_there_is() -> None:
    """A connection whose ClientHello cannot be read is of the one client that was seen."""
    network = Network()
    network.quic(software=CURL).initials(0.0, 1.0)
    tcp = network.tcp()
    tcp.syn(0.1)
    tcp.refuse(0.11)
    assert len(network.explain().stories) == 1


def test_a_stranger_beside_a_known_client_stands_alone() -> None:
    """A ClientHello that is not the known client's may be anybody's: nothing is said about what it did not do."""
    network = Network()
    network.quic(software=JDK).initials(0.0, 1.0)
    network.tcp(software=STRANGER).connects(0.1)
    explained = network.explain()
    assert [(len(s.quic), len(s.tcp)) for s in explained.stories] == [(1, 0), (0, 1)]
    assert explained.races == []
    assert "no-fallback" not in explained.rules
    assert all("no QUIC packet" not in verdict.sentence for verdict in explained.verdicts)


@pytest.mark.parametrize(("quic", "tcp"), [(CURL, STRANGER), (STRANGER, CURL)])
def test_a_library_of_many_programs_comes_with_any_tls(quic: Software, tcp: Software) -> None:
    """curl is built with many TLS and QUIC libraries: one that is not known beside one that is may be the same curl."""
    network = Network()
    network.quic(software=quic).initials(0.0, 1.0)
    network.tcp(software=tcp).connects(0.1)
    (story,) = network.explain().stories
    assert (len(story.quic), len(story.tcp)) == (1, 1)


def test_tunnels_to_one_target_are_one_story() -> None:
    """By target, whatever the case, and not by the proxy's address."""
    network = Network()
    for at, target in ((0.0, "example.org:443"), (1.0, "EXAMPLE.org:443"), (2.0, "other.example:443")):
        tcp = network.tcp(server="192.0.2.3", port=8888)
        tcp.asks_proxy(at, target)
        tcp.proxy_answers(at + 0.1, 200)
    stories = network.explain().stories
    assert [(story.origin, len(story.tunnels)) for story in stories] == [
        ("example.org:443", 2),
        ("other.example:443", 1),
    ]


@pytest.mark.parametrize("own", [False, True])
def test_a_proxys_own_leg_is_marked(*, own: bool) -> None:
    """A ClientHello that was seen in a tunnel and leaves again is the proxy's doing; what else it does is its own."""
    network = Network()
    inside = network.tcp(server="192.0.2.3", port=8888)
    inside.asks_proxy(0.0, "example.org:443")
    inside.proxy_answers(0.1, 200)
    inside.gets_ready(0.11)
    network.tcp(client="192.0.2.3", hello_of=inside).connects(0.12)
    if own:
        network.tcp(client="192.0.2.3").connects(5.0)
    explained = network.explain()
    assert [story.relayed for story in explained.stories if story.tcp] == [not own]
    assert len(explained.verdicts) == 1 + own


def unanswered(network: Network, client: str, name: str) -> None:
    """QUIC in vain, then TCP."""
    quic = network.quic(client=client, sni=name, server="198.51.100.1")
    quic.initials(0.0, 1.0)
    quic.close(2.75, 0xC)
    network.tcp(client=client, sni=name, server="198.51.100.1").connects(2.78)


def refused(network: Network, client: str, name: str) -> None:
    """QUIC that is refused."""
    quic = network.quic(client=client, sni=name, server="198.51.100.2")
    quic.initial(0.2)
    quic.unreachable(0.21)


def raced(network: Network, client: str, name: str) -> None:
    """A race, and both ready."""
    network.quic(client=client, sni=name, server="198.51.100.3").connects(0.1, rtt=0.05)
    network.tcp(client=client, sni=name, server="198.51.100.3").connects(0.12)


def proxied(network: Network, client: str, name: str) -> None:
    """A CONNECT tunnel."""
    tcp = network.tcp(client=client, server="192.0.2.3", port=8888, sni=name)
    tcp.asks_proxy(0.3, f"{name}:443")
    tcp.proxy_answers(0.4, 200)
    tcp.gets_ready(0.45)


def stalled(network: Network, client: str, name: str) -> None:
    """A handshake that is answered and goes nowhere."""
    quic = network.quic(client=client, sni=name, server="198.51.100.4")
    quic.initial(0.0)
    quic.answers(0.1)
    quic.acknowledges(1.5)


ACTS: list[Callable[[Network, str, str], None]] = [unanswered, refused, raced, proxied, stalled]


def told(explained: Explained, client: str) -> list[tuple[str | None, str, str, str]]:
    """What was found about a client's origins, without frame numbers and connection ids."""
    mine = {verdict.origin: verdict for verdict in explained.verdicts if verdict.client.startswith(f"{client} ")}
    mine |= {verdict.origin: verdict for verdict in explained.verdicts if verdict.client == client}
    findings = [(f.origin, f.rule, f.severity, f.summary) for f in explained.findings if f.origin in mine]
    verdicts = [(v.origin, "verdict", "", v.sentence) for v in mine.values()]
    return sorted(findings + verdicts, key=str)


@settings(max_examples=25, deadline=None)
@given(acts=st.lists(st.tuples(st.sampled_from(ACTS), st.floats(0, 3)), min_size=2, max_size=5))
def test_strangers_change_nothing(acts: list[tuple[Callable[[Network, str, str], None], float]]) -> None:
    """What is told of a client is the same alone and among others, however their packets are mingled."""
    crowd = Network()
    expected: dict[str, list[tuple[str | None, str, str, str]]] = {}
    for number, (act, delay) in enumerate(acts):
        client, name = f"192.0.2.{100 + number}", f"site{number}.example"
        alone = Network()
        act(alone, client, name)
        alone.delay(delay)
        crowd.sent += alone.sent
        alone.bystander(10.0)
        alone.tcp(client="203.0.113.7", server="203.0.113.8", sni="other.example").connects(10.0)
        expected[client] = told(alone.explain(), client)
    crowd.bystander(10.0)
    crowd.tcp(client="203.0.113.7", server="203.0.113.8", sni="other.example").connects(10.0)
    together = crowd.explain()
    for client, alone_told in expected.items():
        assert alone_told
        assert told(together, client) == alone_told


@settings(max_examples=20, deadline=None)
@given(order=st.permutations(range(len(ACTS))))
def test_the_order_of_simultaneous_strangers_changes_nothing(order: list[int]) -> None:
    """Frames of different hosts that come at one time may stand in any order in the file."""
    network = Network()
    for number in order:
        ACTS[number](network, f"192.0.2.{100 + number}", f"site{number}.example")
    network.bystander(10.0)
    explained = explain(network.events())
    first = Network()
    for number, act in enumerate(ACTS):
        act(first, f"192.0.2.{100 + number}", f"site{number}.example")
    first.bystander(10.0)
    expected = first.explain()
    for number in order:
        client = f"192.0.2.{100 + number}"
        assert told(explained, client) == told(expected, client)


def test_tunnels_of_two_programs_name_neither() -> None:
    """What two clients' tunnels to one target have in common is told; whose software it was is not."""
    network = Network()
    for at, software in ((0.0, JDK), (1.0, CURL)):
        tcp = network.tcp(server="192.0.2.3", port=8888, software=software)
        tcp.asks_proxy(at, "example.org:443")
        tcp.proxy_answers(at + 0.1, 200)
        tcp.gets_ready(at + 0.2)
    (verdict,) = network.explain().verdicts
    assert verdict.client == "192.0.2.10"


def masque_then_connect(network: Network) -> tuple[Tcp, Tcp]:
    """What curl does behind a proxy: connect-udp is declined, and CONNECT granted on a connection of its own."""
    proxy = network.proxy()
    first, second = network.tcp(server="127.0.0.1", port=8899), network.tcp(server="127.0.0.1", port=8899)
    proxy.answered(0.01, proxy.asked(0.0, first, method="connect-udp"), 501)
    proxy.carries(second, 0.1)
    return first, second


@pytest.mark.parametrize("named", [0, 1])
def test_a_tunnel_whose_client_has_no_name_joins_the_only_one_that_has(named: int) -> None:
    """One connection lived too briefly for its owner to be found: it is one client all the same."""
    network = Network()
    tunnels = masque_then_connect(network)
    network.owns(0.5, tunnels[named], 7, "curl")
    explained = network.explain()
    assert [(story.client, len(story.tunnels)) for story in explained.stories] == [("curl[7]", 2)]
    assert "through a CONNECT tunnel" in explained.sentence


def test_a_tunnel_whose_client_has_no_name_joins_none_of_two() -> None:
    """Whose it is of two processes cannot be told."""
    network = Network()
    tunnels = masque_then_connect(network)
    third = network.tcp(server="127.0.0.1", port=8899)
    network.proxy().asked(0.2, third)
    network.owns(0.5, tunnels[0], 7, "curl")
    network.owns(0.5, tunnels[1], 8, "java")
    assert sorted(story.client for story in network.explain().stories) == [CLIENT, "curl[7]", "java[8]"]


def test_the_proxys_own_tunnel_joins_nobody() -> None:
    """h3probe's CONNECT to the proxy behind it is refused like the client's, and is not told twice."""
    network = Network()
    proxy = network.proxy()
    inside = network.tcp(client="127.0.0.1", server="127.0.0.1", port=8899)
    leg = network.tcp(client="127.0.0.1", server="127.0.0.1", port=3128)
    inside.asks_proxy(0.0, "example.org:443")
    tunnel = proxy.asked(0.01, inside)
    leg.asks_proxy(0.02, "example.org:443")
    proxy.onward(0.025, inside, leg)
    leg.proxy_answers(0.1, 407)
    inside.proxy_answers(0.11, 407)
    proxy.answered(0.11, tunnel, 407, by="upstream")
    network.owns(0.5, inside, 7, "java")
    explained = network.explain()
    assert explained.rules == ["proxy-refused"]
    assert [verdict.client for verdict in explained.verdicts] == ["java[7]"]


@pytest.mark.parametrize("target", ["127.0.0.1:7999", "localhost:7999"])
def test_the_connection_that_the_proxy_could_not_make_is_nobodys_else(target: str) -> None:
    """A refused SYN of h3probe's own, whose port nobody told, is no client's verdict."""
    network = Network()
    proxy, tcp = network.proxy(), network.tcp(client="127.0.0.1", server="127.0.0.1", port=8899)
    tunnel = proxy.asked(0.0, tcp, "localhost", 7999)
    leg = network.tcp(client="127.0.0.1", server="127.0.0.1", port=7999)
    leg.syn(0.01)
    leg.refuse(0.011)
    proxy.unreached(0.02, tcp, target)
    proxy.answered(0.02, tunnel, 502, error="connection refused")
    assert [verdict.origin for verdict in network.explain().verdicts] == ["localhost:7999"]


@pytest.mark.parametrize(
    ("target", "at"), [("127.0.0.1:7998", 0.01), ("127.0.0.1:7999", 1.0), ("198.51.100.1:7999", 0.01)]
)
def test_a_clients_own_refused_connection_is_told(target: str, at: float) -> None:
    """At another time, to another port or to another address than the proxy's it is the client's."""
    network = Network()
    proxy, tcp = network.proxy(), network.tcp(client="127.0.0.1", server="127.0.0.1", port=8899)
    tunnel = proxy.asked(0.0, tcp, "localhost", 7999)
    direct = network.tcp(client="127.0.0.1", server="127.0.0.1", port=7999)
    direct.syn(at)
    direct.refuse(at + 0.001)
    proxy.unreached(0.02, tcp, target)
    proxy.answered(0.02, tunnel, 502, error="connection refused")
    assert "127.0.0.1:7999" in [verdict.origin for verdict in network.explain().verdicts]


def test_requests_in_the_clear_are_told_by_origin() -> None:
    """One connection to the proxy may serve several; each has its own requests and no other's trouble."""
    network = Network()
    proxy, tcp = network.proxy(), network.tcp(server="127.0.0.1", port=8899)
    proxy.ready("upstream")
    proxy.plain(0.0, tcp)
    proxy.exchange(0.0, tcp, "HTTP/1.1", origin="http://one.example:80")
    proxy.unreached(1.01, tcp, "two.example:8080")
    proxy.exchange(1.0, tcp, "HTTP/1.1", status=None, origin="http://two.example:8080")
    explained = network.explain()
    sentences = {verdict.origin: verdict.sentence for verdict in explained.verdicts}
    assert [finding.origin for finding in explained.findings] == ["two.example:8080"]
    assert set(sentences) == {"one.example:80", "two.example:8080"}
    assert sentences["one.example:80"].startswith("HTTP/1.1 for the one request, seen at the proxy.")
    assert "could not connect to two.example:8080" in sentences["two.example:8080"]


def test_requests_in_the_clear_inside_of_a_tunnel_are_the_tunnels() -> None:
    """A CONNECT to port 80 is one story."""
    network = Network()
    proxy, tcp = network.proxy(), network.tcp(server="127.0.0.1", port=8899)
    proxy.answered(0.05, proxy.asked(0.0, tcp, "example.org", 80))
    proxy.exchange(0.1, tcp, "HTTP/1.1", origin="http://example.org:80")
    explained = network.explain()
    assert explained.verdict.origin == "example.org:80"
    assert explained.verdict.versions == {"HTTP/1.1": 1}
    assert "through a CONNECT tunnel" in explained.sentence


@pytest.mark.parametrize("host", ["a" * 250, "\u202e" * 200])
def test_an_origin_keeps_its_port(host: str) -> None:
    """However long a name gets by being cleaned, the origin ends in its port."""
    assert origin_of_url(f"https://{host}:8443").rpartition(":")[2] == "8443"
