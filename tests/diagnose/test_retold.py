from __future__ import annotations

from dataclasses import replace

from h3probe.diagnose.retold import is_address, retell
from h3probe.records import (
    AnyRecord,
    FindingRecord,
    QuicRecord,
    RaceRecord,
    TcpRecord,
    TunnelRecord,
    VerdictRecord,
)


def verdict(origin: str | None, client: str = "10.0.0.5", number: int = 1) -> VerdictRecord:
    """A verdict that says nothing."""
    return VerdictRecord(f"verdict-{number}", 0.0, None, origin, client, None, "HTTP/3 from the first request.", [])


def quic(name: str, server: str = "192.0.2.1:443", sni: str | None = None, client: str = "10.0.0.5:1") -> QuicRecord:
    """A QUIC connection that was established."""
    return QuicRecord(
        name, 0.0, None, client, server, "v1", None, None, None, sni, ["h3"], None, "I", "established", None, 1, 1, 0.1,
        None, None, None,
    )  # fmt: skip


def tcp(name: str, server: str = "192.0.2.1:443", sni: str | None = None, client: str = "10.0.0.5:2") -> TcpRecord:
    """A TCP connection that was established."""
    return TcpRecord(
        name, 0.1, None, client, server, sni, ["h2"], None, "t13", "established", 0.12, 0.2, None, None, 2, None, None
    )


def finding(rule: str, origin: str | None, *connections: str) -> FindingRecord:
    """A finding about connections."""
    return FindingRecord(f"finding-{rule}", 0.0, None, rule, "notice", origin, "", [], "", None, list(connections))


def ids(records: list[AnyRecord]) -> list[tuple[list[str], list[str]]]:
    """The connections of each story."""
    return [([q.id for q in story.quic], [t.id for t in story.tcp]) for story in retell(records)]


def test_names_tell_whose_a_connection_is() -> None:
    """A connection with a name is that origin's, in any case, and not another one's at the same server."""
    both = [verdict("a.example:443"), verdict("b.example:443", number=2)]
    assert ids([quic("q", sni="A.example"), tcp("t", sni="b.example"), *both]) == [(["q"], []), ([], ["t"])]


def test_a_connection_without_a_name_goes_with_its_race() -> None:
    """The JDK sends no name over QUIC; the race names both connections."""
    race = RaceRecord("r", 0.0, None, "a.example:443", "10.0.0.5", "q", "t", 0.1, None, None, None, None, None, None)
    assert ids([quic("q"), tcp("t", sni="a.example"), race, verdict("a.example:443")]) == [(["q"], ["t"])]


def test_a_connection_without_a_name_goes_to_the_only_origin_at_its_server() -> None:
    """Where its server serves one origin it is that one's; where it serves two it is nobody's."""
    one: list[AnyRecord] = [quic("q"), tcp("t", sni="a.example"), verdict("a.example:443")]
    assert ids(one) == [(["q"], ["t"])]
    two = [*one, tcp("u", sni="b.example"), verdict("b.example:443", number=2)]
    assert ids(two) == [([], ["t"]), ([], ["u"])]


def test_a_hello_that_was_read_and_names_nobody_is_for_no_name_with_a_dot() -> None:
    """It is for an address; a name without a dot may be left out."""
    for name, own in (("a.example", []), ("localhost", ["q"])):
        read = replace(quic("q"), ja4="q13")
        assert ids([read, tcp("t", sni=name), verdict(f"{name}:443")]) == [(own, ["t"])]


def test_what_leads_to_a_proxy_is_no_server_of_the_origin() -> None:
    """A tunnel's connection is the target's, and another connection to the proxy is not."""
    tunnel = TunnelRecord(
        "tunnel-1", 0.0, None, "10.0.0.5:2", "10.0.0.1:8888", "a.example:443", "CONNECT", 200, None, None, 0, None,
        None, "t", None,
    )  # fmt: skip
    records: list[AnyRecord] = [tcp("t", "10.0.0.1:8888"), tcp("u", "10.0.0.1:8888"), tunnel, verdict("a.example:443")]
    (story,) = retell(records)
    assert [t.id for t in story.tcp] == ["t"]
    assert story.tunnels == [tunnel]
    assert story.servers == frozenset()


def test_several_clients_are_kept_apart() -> None:
    """Of two clients of one origin each has its own connections, and the findings about them."""
    records: list[AnyRecord] = [
        quic("q", sni="a.example"),
        quic("p", sni="a.example", client="10.0.0.6:1"),
        finding("quic-unanswered", "a.example:443", "p"),
        finding("alt-svc-unusable", "a.example:443"),
        verdict("a.example:443", "10.0.0.5 (JDK 26 HttpClient)"),
        verdict("a.example:443", "10.0.0.6 (JDK 26 HttpClient)", 2),
    ]
    assert ids(records) == [(["q"], []), (["p"], [])]
    first, second = retell(records)
    assert [f.rule for f in first.findings] == ["alt-svc-unusable"]
    assert [f.rule for f in second.findings] == ["quic-unanswered", "alt-svc-unusable"]


def test_a_process_is_called_without_its_number() -> None:
    """Its number is another one in each run."""
    (story,) = retell([verdict("a.example:443", "java[4711] (JDK 26 HttpClient)")])
    assert story.client == "java (JDK 26 HttpClient)"


def test_addresses_are_told_from_names() -> None:
    """IPv6 stands in brackets before its port; what looks like an address and is none is a name."""
    assert is_address("192.0.2.1:443")
    assert is_address("[2001:db8::1]:443")
    assert not is_address("1.example:443")
    assert not is_address("999.0.0.1:443")
    (story,) = retell([replace(verdict(None), origin="192.0.2.1:443")])
    assert not story.named
    assert story.servers == {"192.0.2.1:443"}
