from __future__ import annotations

from h3probe.events import Frame
from tests.diagnose.scenario import Network, Packet, explain
from tests.wire.packets import ipv4

RULE = "incomplete-capture"


def test_a_whole_capture_is_not_accused() -> None:
    """A capture with both directions and the start of all connections has nothing missing."""
    network = Network()
    network.quic().connects(0.0)
    network.tcp().connects(1.0)
    network.bystander(2.0)
    assert network.explain().found(RULE) == []


def test_a_file_cut_short_is_told() -> None:
    """A file that ends in the middle of a packet."""
    network = Network()
    network.quic().connects(0.0)
    finding = network.explain(truncated=True).the(RULE)
    assert "ends in the middle of a packet" in finding.summary
    assert finding.severity == "info"
    assert finding.origin is None


def test_lost_packets_are_counted_by_who_lost_them() -> None:
    """Losses of several moments are one number for each reason."""
    network = Network()
    network.quic().connects(0.0)
    network.lost(0.1, 3)
    network.lost(0.2, 4)
    network.lost(0.3, 1, "the sniffer was too slow")
    explained = network.explain()
    assert "7 packets were lost (the kernel's ring was full)" in explained.the(RULE).summary
    assert "(the sniffer was too slow)" in explained.the(RULE).summary
    assert explained.summary.dropped == 8
    assert explained.the(RULE).advice.startswith("Where more came than could be taken, narrow")


def test_unreadable_parts_are_told_harmlessly() -> None:
    """What could not be read is quoted without its control characters."""
    network = Network()
    network.quic().connects(0.0)
    network.unreadable(0.1, "block 3 \x1b[2Jis damaged")
    summary = network.explain().the(RULE).summary
    assert "is damaged" in summary
    assert "\x1b" not in summary


def test_a_late_start_is_told() -> None:
    """Connections of either kind that had begun before it are counted."""
    network = Network()
    quic, tcp = network.quic(), network.tcp()
    tcp.connects(-1.0)
    quic.connects(0.0)
    tcp.exchanges(5.1)

    def late(packet: Packet) -> bool:
        return packet.at > 0.020_05  # The server's Handshake packet is the first that is seen.

    summary = network.explain(seen=late).the(RULE).summary
    assert "the start of one QUIC connection is missing" in summary
    assert "one TCP connection to port 443 had begun before it" in summary


def test_a_missing_direction_is_told() -> None:
    """A client that completes a handshake of which the server's part is missing."""
    network = Network()
    network.quic().connects(0.0)
    network.tcp().connects(1.0)
    finding = network.explain(seen=lambda packet: packet.by == "client").the(RULE)
    assert "the server's packets are missing for one QUIC connection" in finding.summary
    assert "the server's packets are missing for one TCP connection" in finding.summary


def test_a_snaplen_is_told() -> None:
    """Initials of which only the beginning was kept."""
    network = Network()
    network.quic().initials(0.0, 1.0)
    network.tcp().connects(2.0)
    frames = [event for event in network.events() if isinstance(event, Frame)]
    cut = [Frame(f.number, f.time_ns, f.link_type, f.data[:128], f.length) for f in frames]
    summary = explain(cut).the(RULE).summary
    assert "a snaplen cut the Initials of one QUIC connection" in summary
    assert "of one TCP connection the ClientHello is cut or not whole" in summary


def test_a_keepalive_to_another_port_is_not_counted() -> None:
    """A database connection from before the capture is nobody's business here."""
    network = Network()
    tcp = network.tcp(port=5432)
    tcp.connects(0.0)
    tcp.exchanges(5.0)
    network.quic().connects(4.0)
    assert network.explain(seen=lambda packet: packet.at > 1.0).found(RULE) == []


def test_a_capture_without_a_packet_has_no_frame_as_evidence() -> None:
    """Where nothing could be read, no frame number is made up."""
    finding = explain(Network().events(), truncated=True).the(RULE)
    assert all(row.frame is None or row.frame >= 1 for row in finding.evidence)


def test_what_cannot_be_looked_into_is_named() -> None:
    """Frames of a link type that is not read, encrypted 802.11 and IPsec are counted by what they are, most first."""
    usb, wifi = Frame(1, 0, 189, bytes(64), 64), Frame(2, 0, 105, b"\x08\x41" + bytes(60), 62)
    esp = [Frame(number, 0, 101, ipv4(bytes(40), 50), 60) for number in (3, 4)]
    summary = explain([usb, wifi, *esp]).the(RULE).summary
    assert "2 packets inside IPsec (ESP) cannot be looked into; 1 frame" in summary
    assert "1 frames of link type USB_LINUX cannot" in summary
    assert "1 802.11 frames with encryption cannot" in summary


def test_unanswered_quic_is_no_missing_direction() -> None:
    """Silence is not by itself the capture's fault."""
    network = Network()
    network.quic().initials(0.0, 1.0)
    assert network.explain().found(RULE) == []
