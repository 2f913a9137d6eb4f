"""Events as NDJSON: what the proxy's add-on writes and `h3probe watch` reads, and what a bundle has beside its packets.

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
from typing import TYPE_CHECKING, Any, Final, Literal, Union

from h3probe import events
from h3probe.errors import DecodeError
from h3probe.events import Dropped, Endpoint, Process, ProxyEvent, RunEvent, Told, Uncounted, Unreadable
from h3probe.wire.urls import is_origin

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

LONGEST_LINE: Final = 1 << 20
LONGEST_TEXT: Final = 1 << 16
MOST_ITEMS: Final = 1024

Line = ProxyEvent | Dropped
"""What the proxy writes."""
Observed = Line | Uncounted | Unreadable | Told | RunEvent
"""What a bundle holds: all that is no packet."""

TYPES: Final[dict[str, type[Line]]] = {
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
OBSERVED_TYPES: Final[dict[str, type[Observed]]] = {
    **TYPES,
    "uncounted": events.Uncounted,
    "unreadable": events.Unreadable,
    "told_exchange": events.ToldExchange,
    "told_alt_svc": events.ToldAltSvc,
    "told_asked": events.ToldAsked,
    "run_began": events.RunBegan,
    "connection_owner": events.ConnectionOwner,
    "time_passed": events.TimePassed,
    "run_ended": events.RunEnded,
    "capture_ended": events.CaptureEnded,
}
_NAMES: Final = {event: name for name, event in OBSERVED_TYPES.items()}
AFTER: Final = "after"
"""In a bundle: the number of the frame that came before the event."""

_IP_PORT: Final = re.compile(r"(?:\[([0-9A-Fa-f:.]{2,45})\]|([0-9.]{7,15})):([0-9]{1,5})")
_LARGEST: Final = (1 << 63) - 1
_SURROGATE: Final = re.compile("[\ud800-\udfff]")


def format_event(event: Line) -> str:
    """One line, without its line end."""
    return _line(_fields_of(event))


def format_observed(event: Observed, after: int) -> str:
    """One line of a bundle, without its line end.

    Args:
        event: What was observed.
        after: The number of the frame before it, 0 before the first.
    """
    return _line({AFTER: after} | _fields_of(event))


def _fields_of(event: Observed) -> dict[str, Any]:
    return {"type": _NAMES[type(event)]} | {
        each.name: each.encode(getattr(event, each.name)) for each in _plan(type(event))
    }


def _line(fields_of: dict[str, Any]) -> str:
    return json.dumps(fields_of, ensure_ascii=False, separators=(",", ":"))


def parse_event(line: str | bytes) -> Line:
    """Read one line.

    Raises:
        DecodeError: It is not what `format_event` writes: no JSON object, another type, a field missing or of another
            kind, longer than `LONGEST_LINE`, a text longer than `LONGEST_TEXT`.
    """
    return _event(_object(line), TYPES)


def parse_observed(line: str | bytes) -> tuple[Observed, int]:
    """Read one line of a bundle: the event, and the number of the frame before it.

    Raises:
        DecodeError: It is not what `format_observed` writes.
    """
    found = _object(line)
    try:
        after = _integer(found.get(AFTER))
    except ValueError as error:
        raise DecodeError(f"{AFTER}: {error}") from error
    return _event(found, OBSERVED_TYPES), after


def _object(line: str | bytes) -> dict[str, Any]:
    if len(line) > LONGEST_LINE:
        raise DecodeError(f"a line of {len(line)} bytes")
    try:
        found = json.loads(line, parse_constant=_no_number)
    except (ValueError, RecursionError) as error:
        raise DecodeError("not a line of JSON") from error
    return found if isinstance(found, dict) else {}


def _event[T: Observed](found: dict[str, Any], known: Mapping[str, type[T]]) -> T:
    name = found.get("type")
    if not isinstance(name, str) or name not in known:
        raise DecodeError("no event of the proxy" if known is TYPES else "no event")
    kind = known[name]
    values: dict[str, Any] = {}
    for each in _plan(kind):
        if each.name in found:
            values[each.name] = _decode(each, found[each.name])
        elif each.required:
            raise DecodeError(f"{name} without {each.name}")
    return kind(**values)


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


_PLANS: Final[dict[type[Any], tuple[_Field, ...]]] = {}


def _plan(kind: type[Any]) -> tuple[_Field, ...]:
    """How each field of an event, or of what is in one, is written and read, from its annotation."""
    plan = _PLANS.get(kind)
    if plan is None:
        hints = typing.get_type_hints(kind)
        plan = tuple(
            _Field(each.name, each.default is MISSING, *_codec(hints[each.name], each.name)) for each in fields(kind)
        )
        _PLANS[kind] = plan
    return plan


def _codec(hint: Any, name: str) -> tuple[Callable[[Any], object], Callable[[object], object]]:  # noqa: ANN401 - annotations have no common type
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin in (types.UnionType, Union):
        (inner,) = (each for each in arguments if each is not type(None))
        encode, decode = _codec(inner, name)
        return (
            lambda value: None if value is None else encode(value),
            lambda value: None if value is None else decode(value),
        )
    if origin is tuple:
        encode, decode = _codec(arguments[0], name)
        return lambda value: [encode(each) for each in value[:MOST_ITEMS]], lambda value: _items(value, decode)
    if origin is Literal:
        return _same, lambda value: _choice(value, arguments)
    if hint is Process:
        plan = _plan(hint)
        return (
            lambda value: {each.name: each.encode(getattr(value, each.name)) for each in plan},
            lambda value: _part(hint, value),
        )
    encode, decode = _SCALARS[hint]
    check = _CHECKS.get((name, hint))
    return encode, decode if check is None else lambda value: _checked(decode(value), *check)


def _checked[T](value: T, fits: Callable[[T], bool], wanted: str) -> T:
    if not fits(value):
        raise ValueError(f"no {wanted}")
    return value


def _part(kind: type[Any], value: object) -> object:
    plan = _plan(kind)
    if not isinstance(value, dict) or any(each.name not in value for each in plan):
        raise ValueError(f"not all of {', '.join(each.name for each in plan)}")
    return kind(**{each.name: each.decode(value[each.name]) for each in plan})


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
_PORT: Final = (lambda port: port <= 0xFFFF, "port")
_CHECKS: Final[dict[tuple[str, type], tuple[Callable[[Any], bool], str]]] = {
    ("origin", str): (is_origin, "scheme://host:port"),
    ("port", int): _PORT,
    ("local_port", int): _PORT,
    ("ports", int): _PORT,
    ("quic_version", int): (lambda version: version <= 0xFFFF_FFFF, "version of QUIC"),
    ("local", bytes): (lambda address: len(address) in {4, 16}, "address"),
}
"""What is known of a field beside its kind; whoever reads events relies on it."""
