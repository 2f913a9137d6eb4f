"""Events redacted with the packets' mapping."""

from __future__ import annotations

import typing
from dataclasses import MISSING, fields
from typing import Any, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from h3probe.events import (
    ConnectionOwner,
    Endpoint,
    Exchange,
    OnwardConnection,
    Process,
    ProxyDied,
    ProxyLog,
    RunBegan,
    TunnelAnswered,
    TunnelAsked,
    Unreadable,
)
from h3probe.redact import Mapping
from h3probe.redact.events import EventRedactor, Observed
from h3probe.vantage.proxy_events import OBSERVED_TYPES, format_observed, parse_observed
from tests.redact.flows import KEY
from tests.redact.samples import HERE, SECRETS, THERE, sample, value
from tests.vantage.test_proxy_events import any_event


@pytest.fixture
def redactor() -> EventRedactor:
    """One with a mapping of its own."""
    return EventRedactor(Mapping(KEY))


@pytest.mark.parametrize("kind", OBSERVED_TYPES.values(), ids=OBSERVED_TYPES)
def test_no_field_is_forgotten(kind: type[Any], redactor: EventRedactor) -> None:
    """Whatever stands in whichever field of an event: none of it is left, and the event can be read again."""
    made = redactor.event(sample(kind))
    if kind is ProxyLog:
        assert made is None
        return
    assert made is not None
    line = format_observed(made, 0)
    for secret in SECRETS:
        assert secret not in line, line
    assert parse_observed(line) == (made, 0)


@pytest.mark.parametrize("kind", OBSERVED_TYPES.values(), ids=OBSERVED_TYPES)
def test_what_is_not_known_stays_so(kind: type[Any], redactor: EventRedactor) -> None:
    """A field that is null, or empty, has nothing to be replaced."""
    hints = typing.get_type_hints(kind)
    needed = {each.name: value(each.name, hints[each.name]) for each in fields(kind) if each.default is MISSING}
    made = redactor.event(kind(**needed))
    if made is not None:
        assert all(getattr(made, each.name) == each.default for each in fields(kind) if each.name not in needed)


def test_every_event_of_a_bundle_has_its_place() -> None:
    """There is no kind of event that a bundle holds and that is not redacted."""
    assert set(get_args(Observed)) | set(get_args(get_args(Observed)[0])) >= {Unreadable, RunBegan}
    flat = {each for part in get_args(Observed) for each in (get_args(part) or (part,))}
    assert flat == set(OBSERVED_TYPES.values())


def test_names_are_the_packets() -> None:
    """Hosts, addresses and connection IDs have the replacements that they have in packets; ports and times stay."""
    mapping = Mapping(KEY)
    redactor = EventRedactor(mapping)
    asked = redactor.event(TunnelAsked(5, "t1", "c1", HERE, THERE, "www.secret.org", 443, "CONNECT"))
    assert asked == TunnelAsked(
        5, "t1", "c1", Endpoint(mapping.address(HERE.host), 50123), Endpoint(mapping.address(THERE.host), 443),
        mapping.host(b"www.secret.org").decode(), 443, "CONNECT",
    )  # fmt: skip


def test_sentences_speak_of_the_new_names() -> None:
    """What an error names is replaced as elsewhere, also without a dot; ordinary words and numbers stay."""
    mapping = Mapping(KEY)
    redactor = EventRedactor(mapping)
    redactor.event(TunnelAsked(5, "t1", "c1", HERE, THERE, "intranet", 443, "CONNECT"))
    error = "cannot connect to intranet:443 (93.184.216.34): no route after 2.5 s, ann@secret.org says; see /home/ann"
    made = redactor.event(TunnelAnswered(6, "t1", 502, 0.5, "proxy", error, ("Basic", "Hidden")))
    assert made is not None
    name, address = mapping.host(b"intranet").decode(), Endpoint(mapping.address(THERE.host), 0).address
    assert made.error is not None
    assert made.error.startswith(f"cannot connect to {name}:443 ({address}): no route after 2.5 s, ")
    assert "says; see " in made.error
    assert len(made.error) == len(error)
    assert made.challenges[0] == "Basic"
    assert redactor.text("502 Bad Gateway: java.net.ConnectException, HTTP/1.1 at 20 Mbit/s") == (
        "502 Bad Gateway: java.net.ConnectException, HTTP/1.1 at 20 Mbit/s"
    )


def test_what_tells_of_software_stays(redactor: EventRedactor) -> None:
    """Methods, versions, statuses and widely used programs."""
    began = RunBegan(1, "all interfaces", "live", "wire", behind_proxy="java", alone="annstool",
                     conditions=("UDP port 443 blocked silently", "0.5 % of the packets lost each way"),
                     origins=("localhost:443", "www.secret.org:443"))  # fmt: skip
    made = redactor.event(began)
    assert made is not None
    assert (made.source, made.behind_proxy, made.conditions) == ("all interfaces", "java", began.conditions)
    assert made.origins is not None
    assert made.origins[0] == "localhost:443"
    exchange = redactor.event(
        Exchange(1, "c1", HERE, THERE, "https://www.secret.org:443", "GET", "/", 200, "HTTP/1.1", "HTTP/2", 2, 3)
    )
    assert exchange is not None
    assert (exchange.method, exchange.version, exchange.server_version) == ("GET", "HTTP/1.1", "HTTP/2")
    onward = redactor.event(OnwardConnection(1, "c1", "tcp", "10.0.0.1:443"))
    assert onward is not None
    assert onward.target.endswith(":443")
    assert onward.target != "10.0.0.1:443"


def test_the_last_word_of_a_proxy_that_died(redactor: EventRedactor) -> None:
    """The line that is told of is redacted; those before it are gone."""
    made = redactor.event(ProxyDied(1, 1, ("at /home/ann/x.py", "OSError: disk of ann@hidden.net is full")))
    assert made is not None
    assert made.last_words[0].startswith("OSError: disk of ")
    assert len(made.last_words) == 1
    assert "hidden" not in made.last_words[0]


def test_hostile_words(redactor: EventRedactor) -> None:
    """Long runs of marks, and what is no text, are redacted like anything else, in time that grows with the length."""
    for text in ("a" + "." * 60_000 + "x", "(" * 60_000, "a.b" * 20_000, "x:" * 30_000):
        made = redactor.text(text)
        assert len(made) == len(text)
    assert "ann" not in redactor.text("\udcff ann@x")
    owner = redactor.event(ConnectionOwner(1, 6, HERE, Process(7, "ann\udcff"), wanted=True))
    assert owner is not None
    assert owner.process is not None
    assert "ann" not in owner.process.name


@given(st.one_of([any_event(kind) for kind in OBSERVED_TYPES.values()]))
def test_any_event(event: Any) -> None:  # noqa: ANN401 - one of many
    """Whatever stands in an event: what is made of it is written, and read again as the same."""
    made = EventRedactor(Mapping(KEY)).event(event)
    assert made is None or parse_observed(format_observed(made, 1)) == (made, 1)
