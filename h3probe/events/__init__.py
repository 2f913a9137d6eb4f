"""What a vantage point can report: one frozen, slotted dataclass per event.

Times are integers, nanoseconds since the Unix epoch, and come from whoever observed the event; nothing
downstream has a clock of its own. Addresses are packed (4 or 16 bytes), as they stand on the wire.
"""

from __future__ import annotations

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
from h3probe.events.told import Told, ToldAltSvc, ToldAsked, ToldExchange
from h3probe.events.wire import Dropped, Endpoint, Frame, Process, Secrets, SocketOwner, Unreadable

Event = Frame | SocketOwner | Dropped | Unreadable | Secrets | ProxyEvent | Told

__all__ = [
    "AltSvcSeen",
    "CaRejected",
    "ClientHelloSeen",
    "ConnectionEnded",
    "Dropped",
    "Endpoint",
    "Event",
    "Exchange",
    "Frame",
    "OnwardConnection",
    "PlainRequest",
    "Process",
    "ProxyDied",
    "ProxyEvent",
    "ProxyLog",
    "ProxyMode",
    "ProxyReady",
    "Secrets",
    "SocketOwner",
    "Told",
    "ToldAltSvc",
    "ToldAsked",
    "ToldExchange",
    "Transport",
    "TunnelAnswered",
    "TunnelAsked",
    "Unreadable",
    "UpstreamTrouble",
]
