"""Events of which every field holds a secret, wherever that is possible."""

from __future__ import annotations

import types
import typing
from dataclasses import fields
from typing import Any, Literal, get_args

from h3probe.events import Endpoint, Process

HOST = bytes([192, 168, 7, 23])
SECRETS = ("secret", "192.168.7.23", "0a0b0c0d", "ann", "hidden", "intranet", "/home")
HERE = Endpoint(HOST, 50123)
THERE = Endpoint(bytes([93, 184, 216, 34]), 443)


def value(name: str, hint: Any) -> object:  # noqa: ANN401 - annotations have no common type
    """Something of a field's kind that holds a secret wherever that is possible."""
    origin, arguments = typing.get_origin(hint), get_args(hint)
    if origin in (types.UnionType, typing.Union):
        return value(name, next(each for each in arguments if each is not type(None)))
    if origin is tuple:
        return (value(name, arguments[0]),)
    if origin is Literal:
        return arguments[0]
    if name == "origin":
        return "https://ann:x@www.secret.org:8443"
    if name in ("lines", "passed_on"):
        return 'h3="alt.secret.org:443"; ma=60'
    samples: dict[Any, object] = {
        int: 7, float: 0.5, bool: True, bytes: HOST if name == "local" else bytes.fromhex("0a0b0c0d0e"),
        Endpoint: HERE, Process: Process(7, "annstool"), str: "https://ann:x@www.secret.org:8443/home/ann?hidden=1",
    }  # fmt: skip
    return samples[hint]


def sample(kind: type[Any]) -> Any:  # noqa: ANN401 - one of many
    """An event of which every field holds a secret."""
    hints = typing.get_type_hints(kind)
    return kind(**{each.name: value(each.name, hints[each.name]) for each in fields(kind)})
