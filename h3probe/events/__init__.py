"""What a vantage point can report: one frozen, slotted dataclass per event.

Times are integers, nanoseconds since the Unix epoch, and come from whoever observed the event; nothing
downstream has a clock of its own. Addresses are packed (4 or 16 bytes), as they stand on the wire.
"""

from __future__ import annotations

from h3probe.events.block import Answer, Block, Counted, FlowCount, SideCount, Unheard
from h3probe.events.proxy import (
    AltSvcSeen,
    CaRejected,
    ClientHelloSeen,
    ConnectionEnded,
    Exchange,
    OnwardConnection,
    PlainRequest,
    ProxyDied,
    ProxyEvent,
    ProxyLog,
    ProxyMode,
    ProxyReady,
    Transport,
    TunnelAnswered,
    TunnelAsked,
    UpstreamTrouble,
)
from h3probe.events.run import CaptureEnded, ConnectionOwner, RunBegan, RunEnded, RunEvent, TimePassed
from h3probe.events.told import Told, ToldAltSvc, ToldAsked, ToldExchange
from h3probe.events.wire import Dropped, Endpoint, Frame, Process, Secrets, SocketOwner, Uncounted, Unreadable

Event = Frame | Counted | SocketOwner | Dropped | Uncounted | Unreadable | Secrets | ProxyEvent | Told | RunEvent

__all__ = [
    "AltSvcSeen",
    "Answer",
    "Block",
    "CaRejected",
    "CaptureEnded",
    "ClientHelloSeen",
    "ConnectionEnded",
    "ConnectionOwner",
    "Counted",
    "Dropped",
    "Endpoint",
    "Event",
    "Exchange",
    "FlowCount",
    "Frame",
    "OnwardConnection",
    "PlainRequest",
    "Process",
    "ProxyDied",
    "ProxyEvent",
    "ProxyLog",
    "ProxyMode",
    "ProxyReady",
    "RunBegan",
    "RunEnded",
    "RunEvent",
    "Secrets",
    "SideCount",
    "SocketOwner",
    "TimePassed",
    "Told",
    "ToldAltSvc",
    "ToldAsked",
    "ToldExchange",
    "Transport",
    "TunnelAnswered",
    "TunnelAsked",
    "Uncounted",
    "Unheard",
    "Unreadable",
    "UpstreamTrouble",
]
