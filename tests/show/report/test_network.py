"""The way that an origin's traffic took."""

from __future__ import annotations

from h3probe.records import IcmpRecord, TunnelRecord

from .samples import TIME, origin_of, quic, tcp, verdict


def test_the_way_names_who_refused() -> None:
    """Beside a refusal stands who sent the ICMP error."""
    icmp = IcmpRecord("icmp-1", 0.0, TIME, 3, 13, "prohibited", "10.0.0.254", "quic-1", 2)
    network = origin_of(quic(outcome="refused", close=None), icmp, tcp(), verdict()).network
    assert network is not None
    (ways,) = network.ways
    assert [(way.transport, way.works, way.text) for way in ways] == [
        ("QUIC", False, "refused, says 10.0.0.254"),
        ("TCP", True, "ready"),
    ]


def test_who_refused_quic_did_not_refuse_tcp() -> None:
    """An ICMP error is told of with the connection that it is about."""
    icmp = IcmpRecord("icmp-1", 0.0, TIME, 3, 3, "port unreachable", "10.0.0.254", "quic-1", 2)
    refused = tcp(outcome="refused", ready_at=None)
    network = origin_of(quic(outcome="refused", close=None), icmp, refused, verdict()).network
    assert network is not None
    assert [way.text for way in network.ways[0]] == ["refused, says 10.0.0.254", "refused"]


def test_the_way_through_a_proxy_has_three_stops() -> None:
    """What the client asked, what the proxy did, and what went past it stand apart."""
    asked = TunnelRecord("tunnel-1", 0.0, TIME, "10.0.0.1:50000", "10.0.0.5:3128", "example.org:443", "CONNECT", 407,
                         None, None, 0, None, None, "tcp-1", None)  # fmt: skip
    onward = tcp(2, client="10.0.0.5:1234")
    network = origin_of(quic(), tcp(server="10.0.0.5:3128"), onward, asked, verdict(), relayed=("tcp-2",)).network
    assert network is not None
    assert [hop.role for hop in network.hops] == ["client", "proxy", "server"]
    assert [(way.transport, way.works, way.text) for ways in network.ways for way in ways] == [
        ("CONNECT", False, "answered 407"),
        ("TCP", True, "ready"),
    ]
    assert [(way.transport, way.works) for way in network.past] == [("QUIC", False)]
