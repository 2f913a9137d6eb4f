from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from h3probe.events import Endpoint, Frame
from h3probe.run.peek import Ends, peek
from h3probe.vantage.synthesis import ACK, FIN, RST, SYN
from tests.run.traffic import CLIENT, SERVER, Traffic
from tests.wire import packets

V6_CLIENT = Endpoint(bytes(15) + b"\x01", 50000)
V6_SERVER = Endpoint(bytes(15) + b"\x01", 4433)


@pytest.mark.parametrize(("client", "server"), [(CLIENT, SERVER), (V6_CLIENT, V6_SERVER)])
def test_what_begins_a_connection(client: Endpoint, server: Endpoint) -> None:
    """An Initial and a SYN begin a connection, over both families."""
    traffic = Traffic(client, server)
    assert peek(traffic.initial()) == Ends(17, client, server, begins=True)
    syn, syn_ack, ack = traffic.connected()
    assert peek(syn) == Ends(6, client, server, begins=True)
    assert peek(syn_ack) == Ends(6, server, client, begins=False)
    assert peek(ack) == Ends(6, client, server, begins=False)


@pytest.mark.parametrize("flags", [FIN | ACK, RST])
def test_what_ends(flags: int) -> None:
    """FIN and RST are the end of what their sender says."""
    assert peek(Traffic().tcp(flags=flags)) == Ends(6, CLIENT, SERVER, begins=False, ends=True)


def test_what_goes_on() -> None:
    """A short-header packet has ends and begins nothing."""
    assert peek(Traffic().udp(b"\x40" + bytes(40))) == Ends(17, CLIENT, SERVER, begins=False)


def test_ethernet_and_ip_options() -> None:
    """The transport header is found behind Ethernet's header and IPv4's options."""
    syn = packets.ipv4(packets.tcp(b"", flags=SYN), 6, options=bytes(8))
    ends = peek(packets.frame(packets.ethernet(syn)))
    assert ends == Ends(6, Endpoint(packets.SOURCE4, 50000), Endpoint(packets.DESTINATION4, 443), begins=True)


@pytest.mark.parametrize("cut", [0, 20, 39, 53])
def test_cut_short(cut: int) -> None:
    """A frame that ends too early has no ends."""
    frame = packets.frame(packets.ethernet(packets.ipv4(packets.tcp(b"", flags=ACK), 6))[:cut])
    assert peek(frame) is None


@given(st.binary(max_size=120), st.sampled_from([1, 101, 113]))
def test_any_bytes(data: bytes, link_type: int) -> None:
    """Any frame is looked at without an error."""
    ends = peek(Frame(1, 0, link_type, data, len(data)))
    assert ends is None or ends.protocol in {6, 17}
