"""The UDP half of the relay: datagrams forwarded without a task for any of them.

Once a target has answered a client they go in batches (see `datagrams`), and not all are told (see `relay_samples`);
one by one, and told each, where they are impaired on purpose.
"""

from __future__ import annotations

import asyncio
import errno
import functools
import random
import socket
import time
from collections import OrderedDict, deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from h3probe.vantage import datagrams, synthesis
from h3probe.vantage.relay_samples import Samples
from h3probe.vantage.targets import endpoint, local_endpoint

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from h3probe.events import Endpoint
    from h3probe.vantage.datagrams import Datagram
    from h3probe.vantage.targets import SocketAddress, Targets

_BATCH = 64
_MAX_CLIENTS = 256
_MAX_DELAYED = 16_384
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

    @property
    def is_none(self) -> bool:
        """Whether datagrams pass as they come."""
        return not (self.drop_udp or self.refuse_udp or self.delay_quic_s > 0 or self.loss > 0)


@dataclass(slots=True)
class _Client:
    """One client's address, and the socket that stands for it towards the target.

    Attributes:
        address: For the socket module.
        remote: The same as it stands on the wire.
        local: The relay's own address towards the client.
        samples: What of its flow is told; None where all is.
        untried: Indexes of target addresses still to be tried.
        upstream: Connected to the target; None before the first datagram that is passed on.
        target: The index of the address it is connected to.
        answered: Whether the target ever answered.
        unanswered: The first datagrams, kept for another address of the target until it answers.
        latest: The client's last datagram, for a refusal to quote.
        used: When it was last used, on the loop's clock.
    """

    address: SocketAddress
    remote: Endpoint
    local: Endpoint
    samples: Samples | None
    untried: list[int]
    upstream: socket.socket | None = None
    target: int = 0
    answered: bool = False
    unanswered: list[bytes] = field(default_factory=list)
    latest: Datagram = b""
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
        self._tells_all = False
        self._receiver = datagrams.receiver()
        self._listen(listener)

    def tell_all(self) -> None:
        """Tell every datagram of clients to come."""
        self._tells_all = True

    def _listen(self, listener: socket.socket) -> None:
        datagrams.prepare(listener)
        self._listener = listener
        self._loop.add_reader(listener, self._from_clients, listener)

    def _from_clients(self, listener: socket.socket) -> None:
        for _ in range(_BATCH):
            if listener is not self._listener:  # closed by a refusal
                return
            try:
                received, address = datagrams.receive(listener)
            except BlockingIOError:
                return
            except OSError:  # Windows reports here that an answer was refused
                continue
            moment = time.time_ns()
            client = self._client(listener, address)
            if client.answered and self._impairment.is_none:
                self._all_from_client(client, received, moment)
                continue
            for index, data in enumerate(received):
                if listener is not self._listener:
                    self._refuse_all(client.remote, client.local, received[index:])
                    break
                self._from_client(client, bytes(data), moment)

    def _client(self, listener: socket.socket, address: SocketAddress) -> _Client:
        client = self._clients.get(address)
        if client is None:
            remote, local = endpoint(address), local_endpoint(listener, address)
            client = self._clients[address] = _Client(address, remote, local, None, self._targets.order())
            if self._impairment.is_none and not self._tells_all:
                client.samples = Samples(self._loop, functools.partial(self._tell, client))
            if len(self._clients) > self._limit:
                self._forget(next(iter(self._clients.values())))
        else:
            self._clients.move_to_end(address)
        client.used = self._loop.time()
        return client

    def _tell(self, client: _Client, data: bytes, moment: int, by_client: bool) -> None:  # noqa: FBT001 - a callback
        ends = (client.remote, client.local) if by_client else (client.local, client.remote)
        self._emit(synthesis.udp(*ends, data), moment)

    def _saw(self, client: _Client, passed: Sequence[Datagram], moment: int, *, by_client: bool) -> None:
        if client.samples is not None:
            client.samples.saw(passed, moment, by_client=by_client)
            return
        for data in passed:
            self._tell(client, bytes(data), moment, by_client)

    def _all_from_client(self, client: _Client, received: Sequence[Datagram], moment: int) -> None:
        client.latest = received[-1]
        self._saw(client, received, moment, by_client=True)
        self._pass_on(client, received)

    def _from_client(self, client: _Client, data: bytes, moment: int) -> None:
        client.latest = data
        self._saw(client, [data], moment, by_client=True)
        if self._impairment.refuse_udp:
            self._refuse(client)
        elif not self._impairment.drop_udp and not self._is_lost(self._luck_there):
            if not client.answered and len(client.unanswered) < _KEPT_UNANSWERED:
                client.unanswered.append(data)
            self._pass_on(client, [data])

    def _pass_on(self, client: _Client, received: Sequence[Datagram]) -> None:
        upstream = client.upstream or self._connect(client)
        if upstream is None:
            self.undelivered += len(received)
            return
        try:
            self.undelivered += len(received) - len(datagrams.send(upstream, received))
        except ConnectionRefusedError:
            self._refused(client)

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
            datagrams.prepare(upstream)
            datagrams.dont_fragment(upstream)
            return upstream
        return None

    def _from_target(self, client: _Client, upstream: socket.socket) -> None:
        room = _BATCH
        while room > 0 and client.upstream is upstream:
            try:
                received = self._receiver.receive(upstream)
            except BlockingIOError:
                return
            except ConnectionRefusedError:
                self._refused(client)
                return
            except OSError:  # another ICMP error about the target; what is unreachable now may come back
                return
            room -= len(received)
            self._used(client)
            if self._impairment.is_none:
                self._answer(client, received)
            else:
                for data in received:
                    self._from_target_one(client, bytes(data))

    def _used(self, client: _Client) -> None:
        """The target has answered a client."""
        client.used = self._loop.time()
        if client.address in self._clients:
            self._clients.move_to_end(client.address)
        if not client.answered:
            client.answered, self._targets.preferred = True, client.target
            client.unanswered.clear()

    def _from_target_one(self, client: _Client, data: bytes) -> None:
        if self._is_lost(self._luck_back):
            return
        if self._impairment.delay_quic_s <= 0:
            self._answer(client, [data])
        elif len(self._delayed) < _MAX_DELAYED:
            self._delayed.append((client.used + self._impairment.delay_quic_s, client, data))
            self._wait_for_delayed()
        else:
            self.undelivered += 1

    def _answer(self, client: _Client, answers: Sequence[Datagram]) -> None:
        if self._listener is None:
            return
        moment = time.time_ns()
        sent = datagrams.send(self._listener, answers, client.address)
        self.undelivered += len(answers) - len(sent)
        self._saw(client, sent, moment, by_client=False)

    def _wait_for_delayed(self) -> None:
        if self._delayed and self._delay_timer is None:
            self._delay_timer = self._loop.call_at(self._delayed[0][0], self._release_delayed)

    def _release_delayed(self) -> None:
        self._delay_timer = None
        while self._delayed and self._delayed[0][0] <= self._loop.time():
            _, client, data = self._delayed.popleft()
            self._answer(client, [data])
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
                    self._pass_on(client, [data])
            if upstream is not None:
                return
        self._refuse(client)

    def _refuse(self, client: _Client) -> None:
        self._forget(client)  # what was held back of its flow is told before its refusal
        refused = synthesis.udp(client.remote, client.local, bytes(client.latest))
        self._emit(synthesis.port_unreachable(client.local, client.remote, refused), time.time_ns())
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
                received, address = datagrams.receive(listener)
            except OSError:
                return
            self._refuse_all(endpoint(address), local_endpoint(listener, address), received)

    def _refuse_all(self, remote: Endpoint, local: Endpoint, received: Sequence[Datagram]) -> None:
        for data in received:
            packet = synthesis.udp(remote, local, bytes(data))
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
        if client.samples is not None:
            client.samples.close()

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
