from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import sys

import pytest

from h3probe.events import Endpoint, Frame
from h3probe.track.tracker import Tracker
from h3probe.vantage.relay import Relay, RelaySpec
from h3probe.vantage.relay_udp import Impairment
from tests.track.builders import (
    CLIENT_ID,
    SERVER_ID,
    answer,
    client_handshake,
    client_hello,
    initial,
    server_handshake,
    server_hello,
    short,
)
from tests.vantage.relay_frames import Told, told, until
from tests.vantage.test_relay import run

LOOPBACK = bytes([127, 0, 0, 1])


def enlarge(udp: socket.socket) -> None:
    """Make room for a burst."""
    udp.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 21)


class Echo(asyncio.DatagramProtocol):
    """Sends every datagram back."""

    def __init__(self) -> None:
        self.received: list[bytes] = []
        self.peers: set[tuple[str, int]] = set()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep the transport."""
        assert isinstance(transport, asyncio.DatagramTransport)
        enlarge(transport.get_extra_info("socket"))
        self.transport = transport

    def datagram_received(self, data: bytes, addr: tuple[str, int]) -> None:
        """Answer."""
        self.received.append(data)
        self.peers.add(addr)
        self.transport.sendto(data, addr)

    @property
    def port(self) -> int:
        """Its port."""
        port: int = self.transport.get_extra_info("sockname")[1]
        return port


async def echo_server() -> Echo:
    """An echo server on 127.0.0.1."""
    loop = asyncio.get_running_loop()
    _, protocol = await loop.create_datagram_endpoint(Echo, local_addr=("127.0.0.1", 0))
    return protocol


def client_of(relay: Relay, host: str = "127.0.0.1") -> socket.socket:
    """A UDP socket connected to the relay."""
    client = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET, socket.SOCK_DGRAM)
    client.setblocking(False)
    enlarge(client)
    client.connect((host, relay.port))
    return client


async def receive(client: socket.socket, within: float = 10) -> bytes:
    """The next datagram."""
    return await asyncio.wait_for(asyncio.get_running_loop().sock_recv(client, 65535), within)


async def receive_all(client: socket.socket) -> list[bytes]:
    """Every datagram until none comes any more."""
    received = []
    with contextlib.suppress(TimeoutError):
        while True:
            received.append(await receive(client, within=0.3))
    return received


def free_port() -> int:
    """A UDP port of 127.0.0.1 that nobody has."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as question:
        question.bind(("127.0.0.1", 0))
        port: int = question.getsockname()[1]
    return port


def test_datagrams_there_and_back() -> None:
    """200 datagrams of all sizes pass untouched, and the frames tell the same bytes between the same addresses."""
    frames: list[Frame] = []
    payloads = [number.to_bytes(2) + os.urandom(number * 7) for number in range(199)] + [b""]
    ends: list[Endpoint] = []

    async def body() -> None:
        echo = await echo_server()
        async with Relay(RelaySpec(None, 0, "127.0.0.1", echo.port), frames.append) as relay:
            with client_of(relay) as client:
                ends.extend([Endpoint(LOOPBACK, client.getsockname()[1]), Endpoint(LOOPBACK, relay.port)])
                for payload in payloads:
                    client.send(payload)
                    assert await receive(client) == payload
            assert echo.received == payloads
            assert relay.undelivered == 0
        echo.transport.close()

    run(body())
    client, server = ends
    expected = [
        Told(17, *direction, "", 0, 0, payload)
        for payload in payloads
        for direction in ((client, server), (server, client))
    ]
    assert [told(frame) for frame in frames] == expected


def test_burst() -> None:
    """200 datagrams sent at once all arrive, in order."""

    async def body() -> None:
        echo = await echo_server()
        async with Relay(RelaySpec(None, 0, "127.0.0.1", echo.port), lambda _: None) as relay:
            with client_of(relay) as client:
                payloads = [number.to_bytes(2) + bytes(1200) for number in range(200)]
                for payload in payloads:
                    client.send(payload)
                assert [await receive(client) for _ in payloads] == payloads
        echo.transport.close()

    run(body())


@pytest.mark.skipif(sys.platform != "linux", reason="trains are Linux's")
def test_trains() -> None:
    """Datagrams that the kernel joins pass as the same datagrams both ways, the shorter last one too, and are told."""
    frames: list[Frame] = []
    rounds = [[os.urandom(1200) for _ in range(20)] + [os.urandom(77)] for _ in range(10)]
    for train in rounds:
        train[:] = [b"\x00" + datagram for datagram in train]

    async def body() -> None:
        echo = await echo_server()
        async with Relay(RelaySpec(None, 0, "127.0.0.1", echo.port), frames.append) as relay:
            with client_of(relay) as client:
                for train in rounds:
                    size = len(train[0]).to_bytes(2, sys.byteorder)
                    client.sendmsg(train, [(socket.IPPROTO_UDP, 103, size)])
                    assert [await receive(client) for _ in train] == train
            assert echo.received == [datagram for train in rounds for datagram in train]
            assert relay.undelivered == 0
        echo.transport.close()

    run(body())
    segments = [told(frame) for frame in frames]
    for source in {segment.source for segment in segments}:
        assert [segment.payload for segment in segments if segment.source == source] == [
            datagram for train in rounds for datagram in train
        ]


class Quic(asyncio.DatagramProtocol):
    """Answers as a QUIC server's packets look: a handshake, and many packets for each of the client's."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep the transport."""
        assert isinstance(transport, asyncio.DatagramTransport)
        self.transport = transport

    def datagram_received(self, data: bytes, addr: tuple[str, int]) -> None:
        """Answer."""
        if data[0] & 0xF0 == 0xC0:
            self.transport.sendto(answer(server_hello()) + server_handshake(), addr)
        elif data[0] & 0x80 == 0:
            for _ in range(3):
                self.transport.sendto(short(CLIENT_ID, 1200), addr)


@pytest.mark.parametrize("whole", [False, True])
def test_established_flow_is_told_in_samples(whole: bool, monkeypatch: pytest.MonkeyPatch) -> None:  # noqa: FBT001
    """Of a QUIC flow with thousands of packets few are told, or all on demand; either tells the tracker the same."""
    monkeypatch.setattr("h3probe.vantage.relay_samples.TELL_S", 60)
    frames: list[Frame] = []
    rounds = 1000

    async def body() -> None:
        loop = asyncio.get_running_loop()
        transport, _ = await loop.create_datagram_endpoint(Quic, local_addr=("127.0.0.1", 0))
        port = transport.get_extra_info("sockname")[1]
        async with Relay(RelaySpec("127.0.0.1", 0, "127.0.0.1", port), frames.append) as relay:
            if whole:
                relay.tell_all()
            with client_of(relay) as client:
                client.send(initial(client_hello()))
                await receive(client)
                client.send(client_handshake())
                for _ in range(rounds):
                    client.send(short(SERVER_ID))
                    for _ in range(3):
                        assert await receive(client) == short(CLIENT_ID, 1200)
        transport.close()

    run(body())
    tracker = Tracker()
    for frame in frames:
        tracker.feed(frame)
    (connection,) = tracker.take().opened
    assert connection.transport == "quic"
    assert (connection.outcome(tracker.clock.now_ns), connection.talked) == ("established", True)
    assert (connection.server_largest, connection.client_largest) == (1200, 1200)
    assert connection.last == (frames[-1].number, frames[-1].time_ns)
    if whole:
        assert len(frames) == 3 + 4 * rounds
    else:
        assert len(frames) < rounds
    assert [frame.time_ns for frame in frames] == sorted(frame.time_ns for frame in frames)


def test_each_client_has_its_own_socket() -> None:
    """Clients are told apart by the target, and get their own answers."""

    async def body() -> None:
        echo = await echo_server()
        async with Relay(RelaySpec(None, 0, "127.0.0.1", echo.port), lambda _: None) as relay:
            clients = [client_of(relay) for _ in range(20)]
            for number, client in enumerate(clients):
                client.send(bytes([number]))
            for number, client in enumerate(clients):
                assert await receive(client) == bytes([number])
                client.close()
            assert len(echo.peers) == 20
        echo.transport.close()

    run(body())


def test_refused_target() -> None:
    """A closed port is told as the ICMP error that quotes the datagram, and refuses the client itself from then on."""
    frames: list[Frame] = []

    async def body() -> None:
        async with Relay(RelaySpec(None, 0, "127.0.0.1", free_port()), frames.append) as relay:
            with client_of(relay) as client:
                client.send(b"anyone?")
                await until(lambda: len(frames) == 2)
                client.send(b"still?")
                with pytest.raises(ConnectionRefusedError):
                    await receive(client)

    run(body())
    datagram, refusal = frames
    assert told(datagram).payload == b"anyone?"
    assert told(refusal).protocol == 1
    assert told(refusal).payload[:2] == b"\x03\x03"
    assert told(refusal).payload[8:] == datagram.data
    assert (told(refusal).source.host, told(refusal).destination.host) == (LOOPBACK, LOOPBACK)


def test_refused_over_ipv6() -> None:
    """Over IPv6 the refusal is told in ICMPv6."""
    frames: list[Frame] = []

    async def body() -> None:
        async with Relay(RelaySpec(None, 0, "127.0.0.1", free_port()), frames.append) as relay:
            if len(relay.addresses) < 2:
                pytest.skip("this host has no ::1")
            with client_of(relay, "::1") as client:
                client.send(b"anyone?")
                await until(lambda: len(frames) == 2)

    run(body())
    assert told(frames[1]).protocol == 58
    assert told(frames[1]).payload[:2] == b"\x01\x04"
    assert told(frames[1]).payload[8:] == frames[0].data


def test_open_again_after_a_refusal(monkeypatch: pytest.MonkeyPatch) -> None:
    """After a while the port is open again, and a target that has come up is reached."""
    monkeypatch.setattr("h3probe.vantage.relay_udp.REFUSED_S", 0.05)
    frames: list[Frame] = []

    async def body() -> None:
        port = free_port()
        async with Relay(RelaySpec(None, 0, "127.0.0.1", port), frames.append) as relay:
            with client_of(relay) as client:
                client.send(b"early")
                await until(lambda: len(frames) == 2)
                loop = asyncio.get_running_loop()
                transport, _ = await loop.create_datagram_endpoint(Echo, local_addr=("127.0.0.1", port))
                await until(lambda: all(forwarder._listener is not None for forwarder in relay._udp))
                client.send(b"late")
                assert await receive(client) == b"late"
                transport.close()

    run(body())


def test_port_that_was_taken_meanwhile(monkeypatch: pytest.MonkeyPatch) -> None:
    """A port that another program took during a refusal is opened again when it is free."""
    monkeypatch.setattr("h3probe.vantage.relay_udp.REFUSED_S", 0.05)
    frames: list[Frame] = []

    async def body() -> None:
        async with Relay(RelaySpec("127.0.0.1", 0, "127.0.0.1", free_port()), frames.append) as relay:
            (forwarder,) = relay._udp
            with client_of(relay) as client:
                client.send(b"early")
                await until(lambda: len(frames) == 2)
            with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as other:
                other.bind(("127.0.0.1", relay.port))
                await asyncio.sleep(0.15)
                assert forwarder._listener is None
            await until(lambda: forwarder._listener is not None)

    run(body())


def test_second_address_of_the_target() -> None:
    """Where the target's first address refuses, its datagrams go to the next one, and nobody is told of a refusal."""
    frames: list[Frame] = []

    async def body() -> None:
        echo = await echo_server()
        async with Relay(RelaySpec(None, 0, "127.0.0.1", echo.port), frames.append) as relay:
            targets = relay._udp[0]._targets
            targets.addresses = [
                (socket.AF_INET, ("127.0.0.77", echo.port)),
                (socket.AF_INET, ("127.0.0.1", echo.port)),
            ]
            with client_of(relay) as client:
                client.send(b"first")
                assert await receive(client) == b"first"
            assert targets.preferred == 1
        echo.transport.close()

    run(body())
    assert [told(frame).payload for frame in frames] == [b"first", b"first"]


def test_drop() -> None:
    """With `drop_udp` the client's datagrams are told, go nowhere, and are not answered."""
    frames: list[Frame] = []

    async def body() -> None:
        echo = await echo_server()
        spec = RelaySpec(None, 0, "127.0.0.1", echo.port)
        async with Relay(spec, frames.append, impair=Impairment(drop_udp=True)) as relay:
            with client_of(relay) as client:
                for _ in range(5):
                    client.send(b"anyone?")
                await until(lambda: len(frames) == 5)
                with pytest.raises(TimeoutError):
                    await receive(client, within=0.1)
            assert echo.received == []
        echo.transport.close()

    run(body())
    assert {told(frame).payload for frame in frames} == {b"anyone?"}


def test_refuse() -> None:
    """With `refuse_udp` a target that is there is never asked: the datagram and its refusal are told."""
    frames: list[Frame] = []

    async def body() -> None:
        echo = await echo_server()
        spec = RelaySpec(None, 0, "127.0.0.1", echo.port)
        async with Relay(spec, frames.append, impair=Impairment(refuse_udp=True)) as relay:
            with client_of(relay) as client:
                client.send(b"anyone?")
                await until(lambda: len(frames) == 2)
                client.send(b"still?")
                with pytest.raises(ConnectionRefusedError):
                    await receive(client)
            assert echo.received == []
        echo.transport.close()

    run(body())
    assert [told(frame).protocol for frame in frames] == [17, 1]


def test_each_waiting_datagram_is_refused() -> None:
    """Datagrams that were waiting when the port was closed are told and refused, too."""
    frames: list[Frame] = []

    async def body() -> None:
        spec = RelaySpec(None, 0, "127.0.0.1", 9)
        async with Relay(spec, frames.append, impair=Impairment(refuse_udp=True)) as relay:
            with client_of(relay) as client:
                for number in range(5):
                    client.send(bytes([number]))
                await until(lambda: len(frames) == 10)

    run(body())
    assert [told(frame).protocol for frame in frames] == [17, 1] * 5
    assert [told(frame).payload for frame in frames[::2]] == [bytes([number]) for number in range(5)]


def test_delay() -> None:
    """With `delay_quic_s` answers come that much later, in order, and are told when they leave."""
    frames: list[Frame] = []

    async def body() -> None:
        echo = await echo_server()
        spec = RelaySpec(None, 0, "127.0.0.1", echo.port)
        async with Relay(spec, frames.append, impair=Impairment(delay_quic_s=0.2)) as relay:
            with client_of(relay) as client:
                for number in range(5):
                    client.send(bytes([number]))
                assert [await receive(client) for _ in range(5)] == [bytes([number]) for number in range(5)]
        echo.transport.close()

    run(body())
    assert frames[5].time_ns - frames[4].time_ns > 100_000_000
    assert [told(frame).payload[0] for frame in frames] == [0, 1, 2, 3, 4] * 2


def test_loss() -> None:
    """With `loss` a share of the datagrams is lost in each direction, the same ones for the same seed."""

    async def carried(seed: int) -> tuple[list[bytes], list[bytes]]:
        frames: list[Frame] = []
        echo = await echo_server()
        spec = RelaySpec("127.0.0.1", 0, "127.0.0.1", echo.port)
        async with Relay(spec, frames.append, impair=Impairment(loss=0.3, seed=seed)) as relay:
            with client_of(relay) as client:
                for number in range(200):
                    client.send(bytes([number]))
                answers = await receive_all(client)
            to_server = [told(frame).payload for frame in frames if told(frame).destination.port == relay.port]
            to_client = [told(frame).payload for frame in frames if told(frame).source.port == relay.port]
        echo.transport.close()
        assert to_server == [bytes([number]) for number in range(200)]
        assert to_client == answers
        return echo.received, answers

    async def body() -> None:
        there, back = await carried(seed=7)
        assert 100 < len(there) < 180
        assert len(there) * 0.5 < len(back) < len(there) * 0.9
        assert await carried(seed=7) == (there, back)

    run(body())


def test_least_recently_used_client_is_forgotten() -> None:
    """No more upstream sockets are open than the limit; the client that was silent longest goes first."""

    async def body() -> None:
        echo = await echo_server()
        async with Relay(RelaySpec("127.0.0.1", 0, "127.0.0.1", echo.port), lambda _: None) as relay:
            (forwarder,) = relay._udp
            forwarder._limit = 3
            clients = [client_of(relay) for _ in range(5)]
            for client in [*clients[:3], clients[0], *clients[3:]]:
                client.send(b"x")
                await receive(client)
            kept = {client.getsockname() for client in (clients[0], *clients[3:])}
            assert set(forwarder._clients) == kept
            clients[1].send(b"again")
            assert await receive(clients[1]) == b"again"
            for client in clients:
                client.close()
        echo.transport.close()

    run(body())


def test_idle_client_is_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    """A client that was idle too long gives its socket back."""
    monkeypatch.setattr("h3probe.vantage.relay_udp._IDLE_S", 0.05)
    monkeypatch.setattr("h3probe.vantage.relay_udp._SWEEP_S", 0.02)

    async def body() -> None:
        echo = await echo_server()
        async with Relay(RelaySpec("127.0.0.1", 0, "127.0.0.1", echo.port), lambda _: None) as relay:
            (forwarder,) = relay._udp
            with client_of(relay) as client:
                client.send(b"x")
                await receive(client)
                assert len(forwarder._clients) == 1
                await until(lambda: not forwarder._clients)
        echo.transport.close()

    run(body())


def test_datagram_longer_than_the_path_carries() -> None:
    """What the network refuses to carry is counted, and the next datagram passes."""

    async def body() -> None:
        echo = await echo_server()
        async with Relay(RelaySpec(None, 0, "127.0.0.1", echo.port), lambda _: None) as relay:
            if len(relay.addresses) < 2:
                pytest.skip("this host has no ::1")
            with client_of(relay, "::1") as client:
                client.send(bytes(65520))  # more than a datagram of IPv4, which the target has, can hold
                client.send(b"x")
                assert await receive(client) == b"x"
            assert relay.undelivered == 1
        echo.transport.close()

    run(body())
