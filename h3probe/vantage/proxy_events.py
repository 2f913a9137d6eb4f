"""The proxy's events as NDJSON: what the add-on writes, `h3probe watch` reads, and a file of them holds.

One object a line: `type` (from the table below) and the fields of the event's dataclass in `h3probe.events`, under
their own names. Endpoints are `"ip:port"`, `"[v6]:port"`; bytes are lower-case hex; times ending in `_ns` are
integers; what is not known is null. A field with a default may be left out, one that is not known here is ignored.
`docs/proxy.md` lists them.

A line is hostile until it is read: what it says came from the network, and a file may come from anyone.
"""

from __future__ import annotations

import ipaddress
import json
import re
import types
import typing
from dataclasses import MISSING, dataclass, fields
from functools import cache
from typing import TYPE_CHECKING, Any, Final, Literal, Union

from h3probe import events
from h3probe.errors import DecodeError
from h3probe.events import Dropped, Endpoint, ProxyEvent

if TYPE_CHECKING:
    from collections.abc import Callable

LONGEST_LINE: Final = 1 << 20
LONGEST_TEXT: Final = 1 << 16
MOST_ITEMS: Final = 1024

TYPES: Final[dict[str, type[ProxyEvent | Dropped]]] = {
    "proxy_ready": events.ProxyReady,
    "tunnel_asked": events.TunnelAsked,
    "tunnel_answered": events.TunnelAnswered,
    "onward_connection": events.OnwardConnection,
    "client_hello": events.ClientHelloSeen,
    "connection_ended": events.ConnectionEnded,
    "plain_request": events.PlainRequest,
    "exchange": events.Exchange,
    "alt_svc": events.AltSvcSeen,
    "ca_rejected": events.CaRejected,
    "upstream_trouble": events.UpstreamTrouble,
    "proxy_log": events.ProxyLog,
    "proxy_died": events.ProxyDied,
    "dropped": events.Dropped,
}
_NAMES: Final = {event: name for name, event in TYPES.items()}

_IP_PORT: Final = re.compile(r"(?:\[([0-9A-Fa-f:.]{2,45})\]|([0-9.]{7,15})):([0-9]{1,5})")
_LARGEST: Final = (1 << 63) - 1
_SURROGATE: Final = re.compile("[\ud800-\udfff]")


def format_event(event: ProxyEvent | Dropped) -> str:
    """One line, without its line end."""
    name = _NAMES[type(event)]
    line: dict[str, Any] = {"type": name}
    for each in _plan(name):
        line[each.name] = each.encode(getattr(event, each.name))
    return json.dumps(line, ensure_ascii=False, separators=(",", ":"))


def parse_event(line: str | bytes) -> ProxyEvent | Dropped:
    """Read one line.

    Raises:
        DecodeError: It is not what `format_event` writes: no JSON object, another type, a field missing or of another
            kind, longer than `LONGEST_LINE`, a text longer than `LONGEST_TEXT`.
    """
    if len(line) > LONGEST_LINE:
        raise DecodeError(f"a line of {len(line)} bytes")
    try:
        found = json.loads(line, parse_constant=_no_number)
    except (ValueError, RecursionError) as error:
        raise DecodeError("not a line of JSON") from error
    name = found.get("type") if isinstance(found, dict) else None
    if not isinstance(name, str) or name not in TYPES:
        raise DecodeError("no event of the proxy")
    values: dict[str, Any] = {}
    for each in _plan(name):
        if each.name in found:
            values[each.name] = _decode(each, found[each.name])
        elif each.required:
            raise DecodeError(f"{name} without {each.name}")
    return TYPES[name](**values)


def looks_like_events(start: bytes) -> bool:
    """Whether a file that begins with these bytes is one of the proxy's events."""
    line = start.split(b"\n", 1)[0]
    return line.startswith(b'{"type":"') and line[9:].split(b'"', 1)[0].decode("latin-1") in TYPES


def _no_number(text: str) -> float:
    raise ValueError(f"{text} is no number in JSON")


def _decode(each: _Field, value: object) -> object:
    try:
        return each.decode(value)
    except ValueError as error:
        raise DecodeError(f"{each.name}: {error}") from error


@dataclass(frozen=True, slots=True)
class _Field:
    name: str
    required: bool
    encode: Callable[[Any], object]
    decode: Callable[[object], object]


@cache
def _plan(name: str) -> tuple[_Field, ...]:
    """How each field of an event of this type is written and read, from its annotation."""
    kind = TYPES[name]
    hints = typing.get_type_hints(kind)
    return tuple(_Field(each.name, each.default is MISSING, *_codec(hints[each.name])) for each in fields(kind))


def _codec(hint: Any) -> tuple[Callable[[Any], object], Callable[[object], object]]:  # noqa: ANN401 - annotations have no common type
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin in (types.UnionType, Union):
        (inner,) = (each for each in arguments if each is not type(None))
        encode, decode = _codec(inner)
        return (
            lambda value: None if value is None else encode(value),
            lambda value: None if value is None else decode(value),
        )
    if origin is tuple:
        encode, decode = _codec(arguments[0])
        return lambda value: [encode(each) for each in value[:MOST_ITEMS]], lambda value: _items(value, decode)
    if origin is Literal:
        return _same, lambda value: _choice(value, arguments)
    return _SCALARS[hint]


def _same(value: object) -> object:
    return value


def _choice(value: object, choices: tuple[object, ...]) -> object:
    if not isinstance(value, str) or value not in choices:
        raise ValueError(f"none of {', '.join(map(str, choices))}")
    return value


def _items(value: object, decode: Callable[[object], object]) -> tuple[object, ...]:
    if not isinstance(value, list) or len(value) > MOST_ITEMS:
        raise ValueError(f"no list of at most {MOST_ITEMS}")
    return tuple(decode(each) for each in value)


def _integer(value: object) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= _LARGEST:
        raise ValueError("no integer from 0 to 2^63 - 1")
    return value


def _number(value: object) -> float:
    if not isinstance(value, int | float) or isinstance(value, bool) or not 0 <= value <= _LARGEST:
        raise ValueError("no number from 0 on")
    return float(value)


def _truth(value: object) -> bool:
    if not isinstance(value, bool):
        raise ValueError("neither true nor false")  # noqa: TRY004 - one kind of error for all that a line can do wrong
    return value


def _text(value: object) -> str:
    if not isinstance(value, str) or len(value) > LONGEST_TEXT:
        raise ValueError(f"no text of at most {LONGEST_TEXT} characters")
    return plain_text(value)


def plain_text(value: str) -> str:
    r"""Text that UTF-8 can carry: a lone surrogate (a byte that was no text, to mitmproxy) becomes `\xNN`."""
    return _SURROGATE.sub(lambda found: f"\\x{ord(found[0]) & 0xFF:02x}", value)


def _hex(value: object) -> bytes:
    if not isinstance(value, str) or len(value) > LONGEST_TEXT:
        raise ValueError("no bytes in hex")
    return bytes.fromhex(value)


def _endpoint(value: object) -> Endpoint:
    found = _IP_PORT.fullmatch(value) if isinstance(value, str) else None
    if found is None or int(found[3]) > 65535:
        raise ValueError("no ip:port")
    return Endpoint(ipaddress.ip_address(found[1] or found[2]).packed, int(found[3]))


_SCALARS: Final[dict[Any, tuple[Callable[[Any], object], Callable[[object], object]]]] = {
    int: (_same, _integer),
    float: (_same, _number),
    bool: (_same, _truth),
    str: (lambda value: plain_text(value[:LONGEST_TEXT]), _text),
    bytes: (bytes.hex, _hex),
    Endpoint: (str, _endpoint),
}
