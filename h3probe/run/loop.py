"""The loop of a run that sniffs."""

from __future__ import annotations

import selectors
from dataclasses import dataclass
from typing import TYPE_CHECKING

from h3probe.events import ProxyDied, Unreadable
from h3probe.run.end import End, Ended, Plan
from h3probe.run.session import TICK_S, Session
from h3probe.vantage.process_helper import ProcessesHelper

if TYPE_CHECKING:
    from _typeshed import HasFileno

    from h3probe.run.stop import Stop
    from h3probe.vantage.clientlog.pipe import LogPipe
    from h3probe.vantage.clientlog.tail import NetLogTail
    from h3probe.vantage.command import Running
    from h3probe.vantage.isolate.isolation import Isolation
    from h3probe.vantage.key_log import KeyLogTail
    from h3probe.vantage.owners import DirectOwners
    from h3probe.vantage.proxy import Proxy
    from h3probe.vantage.sniff import Sniffer

QUIC_V1 = 1


@dataclass(slots=True)
class Loop:
    """Waits for packets, answers and signals until the plan's end.

    Attributes:
        plan: What is to be watched.
        sniffer: Where packets come from; None where only the proxy sees something.
        helper: Who knows the owners of sockets.
        command: What was started; None where nothing was.
        stop: Signals that this process is sent.
        session: Takes what is seen.
        proxy: The proxy beside the run.
        isolation: The network that the command is in.
        log: Reads the command's own log.
        keys: Reads the command's TLS secrets.
        proxy_died: Whether the proxy has ended before its time.
    """

    plan: Plan
    sniffer: Sniffer | None
    helper: ProcessesHelper | DirectOwners
    command: Running | None
    stop: Stop
    session: Session
    proxy: Proxy | None = None
    isolation: Isolation | None = None
    log: LogPipe | NetLogTail | None = None
    keys: KeyLogTail | None = None
    proxy_died: bool = False

    def run(self) -> Ended:
        """Wait for the end."""
        end = End(self.plan, self.command, self.stop)
        if self.log is not None:
            self.log.start()
        with selectors.DefaultSelector() as selector, selectors.DefaultSelector() as others:
            sources: list[HasFileno] = [self.stop.wake]
            if self.proxy is not None:
                sources.append(self.proxy)
            if isinstance(self.helper, ProcessesHelper):
                sources.append(self.helper)
            if self.isolation is not None:
                sources.append(self.isolation)
            for source in sources:
                others.register(source, selectors.EVENT_READ)
            for source in [*sources, *([] if self.sniffer is None else self.sniffer.sockets)]:
                selector.register(source, selectors.EVENT_READ)
            while not end.reached() and not (self.proxy_died and self.command is None):
                self._step(selector, others)
        if self.keys is not None:
            self.session.events(self.keys.rest())
        if self.log is not None:
            self.session.events(self.log.rest())
        return Ended(end.status, self.stop.requested)

    def _step(self, selector: selectors.BaseSelector, others: selectors.BaseSelector) -> None:
        """Wait for anything, or for anything but packets, and take it."""
        selector.select(0.0 if self.sniffer is not None and self.sniffer.more_waits else TICK_S)
        pause_s = 0.0 if self.sniffer is None else self.sniffer.pause_s
        ready = {key.fileobj for key, _ in others.select(pause_s)}
        gone: list[HasFileno] = []
        if self.stop.wake in ready:
            self.stop.drain()
        if isinstance(self.helper, ProcessesHelper) and self.helper in ready and not self.helper.alive:
            gone.append(self.helper)
        packets = [] if self.sniffer is None else self.sniffer.read()
        if self.keys is not None:
            # What the client wrote before it sent these packets is there by now.
            self.session.events(self.keys.events())
        self.session.events(packets)
        if self.proxy is not None:
            events = self.proxy.events()
            self.session.events(events)
            if any(isinstance(event, ProxyDied) for event in events):
                gone.append(self.proxy)
                self.proxy, self.proxy_died = None, True
        for source in gone:
            selector.unregister(source)
            others.unregister(source)
        if self.isolation is not None:
            self._look_after(self.isolation)
        if self.log is not None:
            self.session.events(self.log.events())
        self.session.tick()

    def _look_after(self, isolation: Isolation) -> None:
        said = isolation.poll()
        if said is not None:
            why = f"the way out of the command's network has ended: {said or 'it said nothing'}"
            self.session.output.note(why)
            self.session.events([Unreadable(why)])
