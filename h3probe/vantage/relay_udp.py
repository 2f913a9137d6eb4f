"""The UDP half of the relay: datagrams forwarded one by one, without a task for any of them."""

from __future__ import annotations

import asyncio
import errno
import random
import socket
import sys
import time
from collections import OrderedDict, deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from h3probe.vantage import synthesis
from h3probe.vantage.targets import endpoint, local_endpoint

if TYPE_CHECKING:
    from collections.abc import Callable

    from h3probe.events import Endpoint
    from h3probe.vantage.targets import SocketAddress, Targets

_BATCH = 64
_MAX_DATAGRAM = 65535
_MAX_CLIENTS = 256
_MAX_DELAYED = 16_384
_BUFFER = 4 * 1024 * 1024
_KEPT_UNANSWERED = 4
_IDLE_S = 60.0
_SWEEP_S = 10.0

REFUSED_S = 2.0
"""How long the relay's own port stays closed after a refusal, so that the kernel refuses in the target's place."""


@dataclass(frozen=True, slots=True)
class Impairment:
    """What the relay does to UDP on purpose: the "what if". TCP is never touched.

    Attributes:
        drop_udp: Take every datagram of the client's and answer nothing, as a firewall that drops.
        refuse_udp: Answer as a closed port does.
        delay_quic_s: Hold back each datagram from the target for so many seconds.
        loss: The share of datagrams to lose, 0 to 1, in each direction.
        seed: Makes the losses the same each time.
    """

    drop_udp: bool = False
    refuse_udp: bool = False
    delay_quic_s: float = 0.0
    loss: float = 0.0
    seed: int | None = None


@dataclass(slots=True)
class _Client:
    """One client's address, and the socket that stands for it towards the target.

    Attributes:
        address: For the socket module.
        remote: The same as it stands on the wire.
        local: The relay's own address towards the client.
        untried: Indexes of target addresses still to be tried.
        upstream: Connected to the target; None before the first datagram that is passed on.
        target: The index of the address it is connected to.
        answered: Whether the target ever answered.
        unanswered: The first datagrams, kept for another address of the target until it answers.
        last_packet: The client's last datagram as a packet, for a refusal to quote.
        used: When it was last used, on the loop's clock.
    """

    address: SocketAddress
    remote: Endpoint
    local: Endpoint
    untried: list[int]
    upstream: socket.socket | None = None
    target: int = 0
    answered: bool = False
    unanswered: list[bytes] = field(default_factory=list)
    last_packet: bytes = b""
    used: float = 0.0


class UdpForwarder:
    """Serves one listening socket; each client has an upstream socket of its own, the oldest of too many is closed.

    A refusal by the target (ECONNREFUSED: its host's ICMP error) is told as that ICMP error. The client's socket cannot
    be sent one without privileges, so the relay closes its own port for `REFUSED_S` seconds, and the kernel refuses
    what comes next; nothing of that is seen by the relay, or told.

    Attributes:
        undelivered: Datagrams seen that could not be passed on.
    """

    def __init__(
        self,
        listener: socket.socket,
        targets: Targets,
        emit: Callable[[bytes, int], None],
        impairment: Impairment,
        *,
        limit: int = _MAX_CLIENTS,
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._targets, self._emit, self._impairment = targets, emit, impairment
        self._limit = limit
        # One for each direction, so that how the two interleave does not change which datagrams are lost.
        seed = random.getrandbits(32) if impairment.seed is None else impairment.seed
        self._luck_there = random.Random(seed)  # noqa: S311 - which datagrams are lost is no secret
        self._luck_back = random.Random(seed + 1)  # noqa: S311 - the same
        self._clients: OrderedDict[SocketAddress, _Client] = OrderedDict()  # the least recently used first
        self._delayed: deque[tuple[float, _Client, bytes]] = deque()
        self._delay_timer: asyncio.TimerHandle | None = None
        self._reopen_timer: asyncio.TimerHandle | None = None
        self.refusals = 0
        self._sweep_timer = self._loop.call_later(_SWEEP_S, self._sweep)
        self._bound_to: SocketAddress = listener.getsockname()
        self._family = listener.family
        self._listener: socket.socket | None = None
        self.undelivered = 0
        self._listen(listener)

    def _listen(self, listener: socket.socket) -> None:
        _enlarge_buffers(listener)
        self._listener = listener
        self._loop.add_reader(listener, self._from_clients, listener)

    def _from_clients(self, listener: socket.socket) -> None:
        for _ in range(_BATCH):
            if listener is not self._listener:  # closed by a refusal
                return
            try:
                data, address = listener.recvfrom(_MAX_DATAGRAM)
            except BlockingIOError:
                return
            except OSError:  # Windows reports here that an answer was refused
                continue
            self._from_client(listener, data, address)

    def _from_client(self, listener: socket.socket, data: bytes, address: SocketAddress) -> None:
        moment = time.time_ns()
        client = self._clients.get(address)
        if client is None:
            local = local_endpoint(listener, address)
            client = self._clients[address] = _Client(address, endpoint(address), local, self._targets.order())
            if len(self._clients) > self._limit:
                self._forget(next(iter(self._clients.values())))
        else:
            self._clients.move_to_end(address)
        client.used = self._loop.time()
        client.last_packet = synthesis.udp(client.remote, client.local, data)
        self._emit(client.last_packet, moment)
        if self._impairment.refuse_udp:
            self._refuse(client)
        elif not self._impairment.drop_udp and not self._is_lost(self._luck_there):
            if not client.answered and len(client.unanswered) < _KEPT_UNANSWERED:
                client.unanswered.append(data)
            self._pass_on(client, data)

    def _pass_on(self, client: _Client, data: bytes) -> None:
        upstream = client.upstream or self._connect(client)
        if upstream is None:
            self.undelivered += 1
            return
        try:
            upstream.send(data)
        except ConnectionRefusedError:
            self._refused(client)
        except OSError:  # a full queue, a datagram longer than the path carries, no route any more
            self.undelivered += 1

    def _connect(self, client: _Client) -> socket.socket | None:
        """Open a socket to the next address of the target that there is a route to; None after the last."""
        while client.untried:
            client.target = client.untried.pop(0)
            family, address = self._targets.addresses[client.target]
            upstream = self._open(family, but=client)
            if upstream is None:
                continue
            try:
                upstream.connect(address)
            except OSError:
                upstream.close()
                continue
            client.upstream = upstream
            self._loop.add_reader(upstream, self._from_target, client, upstream)
            return upstream
        return None

    def _open(self, family: int, *, but: _Client) -> socket.socket | None:
        for _ in range(2):
            try:
                upstream = socket.socket(family, socket.SOCK_DGRAM)
            except OSError as error:
                oldest = next((c for c in self._clients.values() if c is not but and c.upstream is not None), None)
                if error.errno not in {errno.EMFILE, errno.ENFILE} or oldest is None:
                    return None
                self._forget(oldest)
                continue
            upstream.setblocking(False)
            _enlarge_buffers(upstream)
            _dont_fragment(upstream)
            return upstream
        return None

    def _from_target(self, client: _Client, upstream: socket.socket) -> None:
        for _ in range(_BATCH):
            if client.upstream is not upstream:
                return
            try:
                data = upstream.recv(_MAX_DATAGRAM)
            except BlockingIOError:
                return
            except ConnectionRefusedError:
                self._refused(client)
                return
            except OSError:  # another ICMP error about the target; what is unreachable now may come back
                return
            self._from_target_one(client, data)

    def _from_target_one(self, client: _Client, data: bytes) -> None:
        client.used = self._loop.time()
        if client.address in self._clients:
            self._clients.move_to_end(client.address)
        if not client.answered:
            client.answered, self._targets.preferred = True, client.target
            client.unanswered.clear()
        if self._is_lost(self._luck_back):
            return
        if self._impairment.delay_quic_s <= 0:
            self._answer(client, data)
        elif len(self._delayed) < _MAX_DELAYED:
            self._delayed.append((client.used + self._impairment.delay_quic_s, client, data))
            self._wait_for_delayed()
        else:
            self.undelivered += 1

    def _answer(self, client: _Client, data: bytes) -> None:
        if self._listener is None:
            return
        moment = time.time_ns()
        try:
            self._listener.sendto(data, client.address)
        except OSError:
            self.undelivered += 1
        else:
            self._emit(synthesis.udp(client.local, client.remote, data), moment)

    def _wait_for_delayed(self) -> None:
        if self._delayed and self._delay_timer is None:
            self._delay_timer = self._loop.call_at(self._delayed[0][0], self._release_delayed)

    def _release_delayed(self) -> None:
        self._delay_timer = None
        while self._delayed and self._delayed[0][0] <= self._loop.time():
            _, client, data = self._delayed.popleft()
            self._answer(client, data)
        self._wait_for_delayed()

    def _is_lost(self, luck: random.Random) -> bool:
        return self._impairment.loss > 0 and luck.random() < self._impairment.loss

    def _refused(self, client: _Client) -> None:
        """The target's host has no such port: try its other addresses, and pass the refusal on when all have it."""
        self._disconnect(client)
        if not client.answered:
            upstream = self._connect(client)
            for data in list(client.unanswered):
                if client.upstream is upstream is not None:  # it may refuse at once, too
                    self._pass_on(client, data)
            if upstream is not None:
                return
        self._refuse(client)

    def _refuse(self, client: _Client) -> None:
        self._emit(synthesis.port_unreachable(client.local, client.remote, client.last_packet), time.time_ns())
        self._forget(client)
        listener, self._listener = self._listener, None
        if listener is None:
            return
        self._loop.remove_reader(listener)
        self.refusals += 1
        self._refuse_waiting(listener)
        listener.close()
        self._reopen_timer = self._loop.call_later(REFUSED_S, self._reopen)

    def _refuse_waiting(self, listener: socket.socket) -> None:
        """What came in before the port was closed would otherwise vanish untold."""
        for _ in range(_BATCH):
            try:
                data, address = listener.recvfrom(_MAX_DATAGRAM)
            except OSError:
                return
            remote, local = endpoint(address), local_endpoint(listener, address)
            packet = synthesis.udp(remote, local, data)
            self._emit(packet, time.time_ns())
            self._emit(synthesis.port_unreachable(local, remote, packet), time.time_ns())

    def _reopen(self) -> None:
        self._reopen_timer = None
        listener = socket.socket(self._family, socket.SOCK_DGRAM)
        try:
            listener.setblocking(False)
            if self._family == socket.AF_INET6:
                listener.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
            listener.bind(self._bound_to)
        except OSError:  # taken by another program meanwhile
            listener.close()
            self._reopen_timer = self._loop.call_later(REFUSED_S, self._reopen)
            return
        self._listen(listener)

    def _sweep(self) -> None:
        limit = self._loop.time() - _IDLE_S
        for client in list(self._clients.values()):
            if client.used > limit:
                break
            self._forget(client)
        self._sweep_timer = self._loop.call_later(_SWEEP_S, self._sweep)

    def _forget(self, client: _Client) -> None:
        self._disconnect(client)
        self._clients.pop(client.address, None)

    def _disconnect(self, client: _Client) -> None:
        if client.upstream is not None:
            self._loop.remove_reader(client.upstream)
            client.upstream.close()
            client.upstream = None

    def close(self) -> None:
        """Close every socket."""
        for timer in (self._sweep_timer, self._delay_timer, self._reopen_timer):
            if timer is not None:
                timer.cancel()
        for client in list(self._clients.values()):
            self._forget(client)
        if self._listener is not None:
            self._loop.remove_reader(self._listener)
            self._listener.close()
            self._listener = None


def _enlarge_buffers(udp: socket.socket) -> None:
    for option in (socket.SO_RCVBUF, socket.SO_SNDBUF):
        udp.setsockopt(socket.SOL_SOCKET, option, _BUFFER)


def _dont_fragment(udp: socket.socket) -> None:
    if sys.platform == "linux":
        from h3probe.vantage import linux  # noqa: PLC0415 - Linux only

        linux.dont_fragment(udp)
