"""The vantage point that needs neither privileges nor trust: a blind forwarder for TCP and UDP on one port.

    async with Relay(parse_relay("5433=localhost:4433"), on_frame=engine.feed) as relay:
        ...

The client is pointed at the relay's address; bytes pass untouched. What the relay saw is told as frames, as a sniffer
between the client and the relay would have seen them if the relay were the server itself: IP, UDP and TCP headers are
made up for the real payload, the client's real address and the relay's own.

What a relay cannot see: DNS; ICMP from the path (only the target host's own refusal reaches it, and is told as the ICMP
error that it was); attempts at other addresses or ports, so an Alt-Svc header that names another port leads past it;
TTL, ECN and fragmentation; and what TCP does for itself, such as retransmissions and window stalls.

What it does not tell: of TLS over TCP, once 256 KiB have passed in a direction, more than one segment in 20 ms, without
its bytes; of QUIC, once both sides have sent many packets with short headers, more than one of those for each direction
in 20 ms. Nobody reads the rest; a capture written from a relay looks as if it had been lost, unless `tell_all` asks for
every byte. What was held back is told with its own time: frames of several flows may be out of order by 20 ms.

It needs an event loop with `add_reader`; on Windows that is `asyncio.SelectorEventLoop`.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import itertools
import socket
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

from h3probe.errors import UserError
from h3probe.events import Endpoint, Frame
from h3probe.vantage.relay_tcp import TcpForwarder
from h3probe.vantage.relay_udp import REFUSED_S, Impairment, UdpForwarder
from h3probe.vantage.synthesis import LINKTYPE_RAW
from h3probe.vantage.targets import Targets, endpoint, split_host_and_port

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from types import TracebackType

_EXAMPLE = "5433=localhost:4433"
_LOOPBACKS = ("127.0.0.1", "::1")
_PORT_TRIES = 32
_NO_SUCH_FAMILY = {errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT, errno.EPROTONOSUPPORT}


@dataclass(frozen=True, slots=True)
class RelaySpec:
    """What `--relay [HOST:]PORT=HOST:PORT` says.

    Attributes:
        host: Where to listen; None for both loopback addresses.
        port: The same for TCP and UDP; 0 for one that is free.
        target_host: A name or an address, without brackets.
        target_port: 1-65535.
    """

    host: str | None
    port: int
    target_host: str
    target_port: int


def parse_relay(text: str) -> RelaySpec:
    """Read `[HOST:]PORT=HOST:PORT`, with IPv6 addresses in brackets.

    Raises:
        UserError: It is anything else.
    """
    listen, _, target = text.partition("=")
    try:
        host, port = split_host_and_port(listen, lowest=0)
        target_host, target_port = split_host_and_port(target, lowest=1)
    except ValueError as error:
        raise UserError(f"--relay {text!r}: {error}; write [HOST:]PORT=HOST:PORT, as {_EXAMPLE}") from None
    if target_host is None:
        raise UserError(f"--relay {text!r}: the target has no host; write [HOST:]PORT=HOST:PORT, as {_EXAMPLE}")
    return RelaySpec(host, port, target_host, target_port)


class Relay:
    """Listens, forwards, and tells what it sees.

    Args:
        spec: Where to listen, and what for.
        on_frame: Called in the event loop with each frame, in order for each flow.
        impair: What to do to UDP on purpose.
        numbers: Where frame numbers come from, shared when there are several vantage points; else from 1.

    Attributes:
        addresses: What it listens on, once started; each for TCP and for UDP.
    """

    def __init__(
        self,
        spec: RelaySpec,
        on_frame: Callable[[Frame], None],
        *,
        impair: Impairment | None = None,
        numbers: Iterator[int] | None = None,
    ) -> None:
        self.spec = spec
        self.addresses: list[Endpoint] = []
        self._on_frame = on_frame
        self._impairment = impair or Impairment()
        self._numbers = itertools.count(1) if numbers is None else numbers
        self._tcp: list[TcpForwarder] = []
        self._udp: list[UdpForwarder] = []

    @property
    def port(self) -> int:
        """The port it listens on, once started."""
        return self.addresses[0].port

    @property
    def is_exposed(self) -> bool:
        """Whether other hosts can reach it, which deserves a warning."""
        return not all(address.is_loopback for address in self.addresses)

    @property
    def undelivered(self) -> int:
        """Datagrams that were seen and could not be passed on: a full queue, or longer than the path carries."""
        return sum(forwarder.undelivered for forwarder in self._udp)

    @property
    def blind(self) -> str | None:
        """What was not seen because of refusals, in words; None where everything was."""
        refusals = sum(forwarder.refusals for forwarder in self._udp)
        if not refusals:
            return None
        times = "once" if refusals == 1 else f"{refusals:,} times"
        return (
            f"where the server refused UDP, the relay closed its own port for {REFUSED_S:.0f} s, so that the client is "
            f"refused too ({times}); what the client sent by UDP meanwhile it did not see, and there may be more of it "
            "than is told"
        )

    def tell_all(self) -> None:
        """Leave nothing out of what is told of connections to come; that is slower."""
        for tcp in self._tcp:
            tcp.tell_all()
        for udp in self._udp:
            udp.tell_all()

    async def start(self) -> None:
        """Resolve the target, once, and listen.

        Raises:
            UserError: The target has no address, or the port cannot be listened on.
        """
        targets = await _resolve(self.spec)
        listeners = _listen(await _hosts(self.spec), self.spec)
        self.addresses = [endpoint(tcp.getsockname()) for tcp, _ in listeners]
        if any(endpoint(address) in self.addresses for _, address in targets.addresses):
            for pair in listeners:
                for listener in pair:
                    listener.close()
            raise UserError(f"a relay to {self.spec.target_host}:{self.spec.target_port} on the same port meets itself")
        for tcp, udp in listeners:
            self._tcp.append(TcpForwarder(tcp, targets, self._emit))
            self._udp.append(UdpForwarder(udp, targets, self._emit, self._impairment))

    def _emit(self, packet: bytes, time_ns: int | None = None, missing: int = 0) -> None:
        moment = time.time_ns() if time_ns is None else time_ns
        length = len(packet) + missing
        self._on_frame(Frame(next(self._numbers), moment, LINKTYPE_RAW, packet, length, f"relay:{self.port}"))

    async def close(self) -> None:
        """Stop listening, and end every connection."""
        for udp in self._udp:
            udp.close()
        await asyncio.gather(*(tcp.close() for tcp in self._tcp))

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.close()


async def _resolve(spec: RelaySpec) -> Targets:
    loop = asyncio.get_running_loop()
    try:
        found = await loop.getaddrinfo(spec.target_host, spec.target_port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "not a host name"
        raise UserError(f"--relay: {spec.target_host!r} has no address here ({reason})") from error
    families = socket.AF_INET, socket.AF_INET6
    return Targets(list(dict.fromkeys((family, address) for family, _, _, _, address in found if family in families)))


async def _hosts(spec: RelaySpec) -> list[str]:
    if spec.host is None:
        return list(_LOOPBACKS)
    loop = asyncio.get_running_loop()
    try:
        found = await loop.getaddrinfo(spec.host, 0, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:
        raise UserError(f"--relay: {spec.host!r} is no address of this host to listen on") from error
    return list(dict.fromkeys(str(address[0]) for _, _, _, _, address in found))


def _listen(hosts: list[str], spec: RelaySpec) -> list[tuple[socket.socket, socket.socket]]:
    """A TCP and a UDP socket for each host that there is, all on one port.

    Raises:
        UserError: There is none, the port is in use, or it takes root.
    """
    for tries_left in reversed(range(_PORT_TRIES)):
        try:
            return _listen_once(hosts, spec.port)
        except OSError as error:
            if error.errno == errno.EADDRINUSE and spec.port == 0 and tries_left:
                continue  # free for TCP over one family, and taken for another one
            raise UserError(_why_not(error, spec)) from error
    raise AssertionError("the last try returns or raises")


def _why_not(error: OSError, spec: RelaySpec) -> str:
    if error.errno == errno.EADDRINUSE:
        return f"port {spec.port} is in use here: give another one before the `=`, or 0 for any that is free"
    if error.errno == errno.EACCES:
        return f"port {spec.port} takes root: give one above 1023 before the `=`, or 0 for any that is free"
    return f"--relay: cannot listen on {spec.host or 'loopback'} port {spec.port} ({error.strerror})"


def _listen_once(hosts: list[str], port: int) -> list[tuple[socket.socket, socket.socket]]:
    opened: list[tuple[socket.socket, socket.socket]] = []
    missing = OSError(errno.EADDRNOTAVAIL, "no such address here")
    with contextlib.ExitStack() as undo:
        for host in hosts:
            try:
                tcp = undo.enter_context(_bound(socket.SOCK_STREAM, host, port))
            except OSError as error:
                if error.errno not in _NO_SUCH_FAMILY:
                    raise
                missing = error  # a host without IPv6, say
                continue
            tcp.listen(128)
            port = tcp.getsockname()[1]
            opened.append((tcp, undo.enter_context(_bound(socket.SOCK_DGRAM, host, port))))
        undo.pop_all()
    if not opened:
        raise missing
    return opened


def _bound(kind: socket.SocketKind, host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family, kind)
    try:
        listener.setblocking(False)
        if kind == socket.SOCK_STREAM:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            listener.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        listener.bind((host, port))
    except BaseException:
        listener.close()
        raise
    return listener
