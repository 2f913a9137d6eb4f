from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st

from h3probe import __version__
from h3probe.records import ExchangeRecord, TunnelRecord
from h3probe.run.explaining import Asked, explained
from h3probe.show.har import har
from tests.diagnose.test_retold import finding, quic, tcp, verdict
from tests.engine.test_engine import busy

from . import samples

if TYPE_CHECKING:
    from collections.abc import Callable

    from h3probe.records import AnyRecord

HERE = Path(__file__).parent
DECRYPTED = HERE.parent / "data" / "decrypted"
SCHEMA = json.loads((HERE / "schemas" / "har-1.2.json").read_text(encoding="utf-8"))
EXCHANGE = ExchangeRecord(
    "exchange-1", 0.05, "2026-11-30T09:36:07.830000074Z", "a.example:443", "GET", "https://a.example/x?a=…&…", 200,
    "HTTP/3", "client-log", "q", 0.2, None,
)  # fmt: skip


def validated(records: list[AnyRecord]) -> dict[str, Any]:
    """The HAR's log, which obeys the format, as a program reads it."""
    made = json.loads(json.dumps(har(records), allow_nan=False))
    jsonschema.Draft202012Validator(SCHEMA).validate(made)
    log: dict[str, Any] = made["log"]
    for entry in log["entries"]:
        parts = [value for part, value in entry["timings"].items() if part != "ssl" and value != -1]
        assert entry["time"] == pytest.approx(sum(parts)), "the format wants the sum of what is known"
    return log


def entry(records: list[AnyRecord]) -> dict[str, Any]:
    """The one entry."""
    (only,) = validated(records)["entries"]
    found: dict[str, Any] = only
    return found


def test_the_schema_is_valid_itself() -> None:
    """The schema obeys the 2020-12 meta-schema, and takes nothing for a HAR that is none."""
    jsonschema.Draft202012Validator.check_schema(SCHEMA)
    validator = jsonschema.Draft202012Validator(SCHEMA)
    good = har([EXCHANGE])
    timings = good["log"]["entries"][0]["timings"]
    for broken in ({**timings, "wait": -2}, {**timings, "wait": None}, {"send": 1}, {**timings, "tls": 1}):
        good["log"]["entries"][0]["timings"] = broken
        assert not validator.is_valid(good)


def test_every_record_is_taken() -> None:
    """Records of all types make a valid HAR; only exchanges become entries."""
    log = validated(samples.all_records())
    assert len(log["entries"]) == 1
    assert log["creator"] == {"name": "h3probe", "version": __version__}
    assert log["pages"] == []


@pytest.mark.parametrize(
    ("version", "written"), [("HTTP/1.1", "http/1.1"), ("HTTP/2", "h2"), ("HTTP/3", "h3"), (None, "unknown")]
)
def test_the_version_is_what_was_used(version: Any, written: str) -> None:  # noqa: ANN401 - a literal of the contract
    """Each version has the name that ALPN gives it, and one that is not known has none."""
    made = entry([replace(EXCHANGE, version=version)])
    assert made["request"]["httpVersion"] == made["response"]["httpVersion"] == written


def test_the_parts_of_the_time_come_from_the_wire() -> None:
    """A request that began before QUIC did: waiting for it, its handshake, and the rest; what is not seen is -1."""
    began = replace(quic("q", sni="a.example"), at=0.06, ready_at=0.11)
    made = entry([EXCHANGE, began])
    assert made["timings"] == {
        "blocked": 10.0, "dns": -1, "connect": 50.0, "ssl": 50.0, "send": -1, "wait": 140.0, "receive": -1,
    }  # fmt: skip
    assert made["time"] == 200.0
    assert made["serverIPAddress"] == "192.0.2.1"
    assert made["connection"] == "q"
    assert made["startedDateTime"] == "2026-11-30T09:36:07.830Z"


def test_tls_is_a_part_of_connecting_over_tcp() -> None:
    """Over TCP the handshake of TLS begins where TCP's ended."""
    over_tcp = replace(tcp("t", sni="a.example"), at=0.06, connect_at=0.08, ready_at=0.11, ja4="t13")
    made = entry([replace(EXCHANGE, connection="t", version="HTTP/2"), over_tcp])
    assert (made["timings"]["connect"], made["timings"]["ssl"]) == (50.0, 30.0)


@pytest.mark.parametrize("known_from", ["client-log", "decrypted", "proxy"])
def test_a_connection_that_was_ready_costs_nothing(known_from: Any) -> None:  # noqa: ANN401 - a literal of the contract
    """On a connection that was ready before, or that is not known, all of the time is waiting."""
    ready = replace(quic("q", sni="a.example"), ready_at=0.01)
    for records in ([ready], []):
        made = entry([replace(EXCHANGE, known_from=known_from), *records])
        assert made["timings"] == dict.fromkeys(("blocked", "dns", "connect", "ssl", "send", "receive"), -1) | {
            "wait": 200.0
        }


def test_whole_seconds_are_not_set_against_packets() -> None:
    """A log that tells whole seconds tells how long a request took, and not what it was doing meanwhile."""
    coarse = replace(EXCHANGE, time="2026-11-30T09:36:07.000000000Z", took=30.0)
    made = entry([coarse, replace(quic("q"), at=29.9, ready_at=30.0)])
    assert (made["timings"]["connect"], made["timings"]["wait"]) == (-1, 30000.0)


def test_what_took_nobody_knows_how_long() -> None:
    """All parts are -1, and the comment says what the 0 of the sum means."""
    made = entry([replace(EXCHANGE, took=None), quic("q")])
    assert set(made["timings"].values()) == {-1}
    assert made["time"] == 0
    assert made["comment"].endswith("How long it took is not known.")


def test_a_proxys_address_is_not_the_servers() -> None:
    """An address is given only where the connection leads to the server."""
    tunnel = TunnelRecord(
        "tunnel-1", 0.0, None, "10.0.0.5:2", "10.0.0.1:8888", "a.example:443", "CONNECT", 200, None, None, 0, None,
        None, "t", None,
    )  # fmt: skip
    through = replace(EXCHANGE, connection="t", version="HTTP/2")
    assert "serverIPAddress" not in entry([through, tcp("t", "10.0.0.1:8888"), tunnel])
    assert "serverIPAddress" not in entry([replace(through, known_from="proxy"), tcp("t", "127.0.0.1:8899")])
    assert entry([through, tcp("t", "[2001:db8::1]:443")])["serverIPAddress"] == "2001:db8::1"


def test_a_request_without_a_response() -> None:
    """Its status is 0, as browsers write it, and the client's words are beside it."""
    made = entry([replace(EXCHANGE, status=None, version=None, error="quic handshake timeout", method=None, url=None)])
    assert made["response"]["status"] == 0
    assert made["response"]["_error"] == "quic handshake timeout"
    assert made["request"] == {
        "method": "", "url": "", "httpVersion": "unknown", "cookies": [], "headers": [], "queryString": [],
        "headersSize": -1, "bodySize": -1,
    }  # fmt: skip


def test_what_a_proxy_saw() -> None:
    """An exchange that the proxy reports is an entry, with its connection and without the address of a server."""
    records = busy().explain().records
    made = entry(records)
    assert made["comment"].startswith("Seen at the proxy; wait holds the response's transfer as well.")
    assert made["connection"] in {r.id for r in records if r.type == "tcp"}
    assert "serverIPAddress" not in made


def test_an_inferred_exchange_is_marked() -> None:
    """Where an exchange is known from is in its comment."""
    assert entry([replace(EXCHANGE, known_from="inferred")])["comment"].startswith("Inferred from sizes and times")


def test_verdict_and_findings_stand_beside_the_exchange() -> None:
    """The fields of h3probe's own begin with an underscore: what was found about the origin, and about the rest."""
    records: list[AnyRecord] = [
        EXCHANGE, quic("q"), finding("quic-unanswered", "a.example:443"), finding("quic-stalled", None, "q"),
        finding("no-fallback", "b.example:443"), verdict("a.example:443"), verdict("b.example:443"),
    ]  # fmt: skip
    own = entry(records)["_h3probe"]
    assert own["findings"] == ["quic-unanswered", "quic-stalled"]
    assert own["verdicts"] == ["HTTP/3 from the first request."]
    assert len(validated(records)["_h3probe"]["findings"]) == 3


def test_query_strings_have_names_without_values() -> None:
    """The names in a query are listed; their values were left out when they were read."""
    assert entry([EXCHANGE])["request"]["queryString"] == [{"name": "a", "value": "…"}, {"name": "…", "value": ""}]


@given(st.text(max_size=60), st.text(max_size=20), st.floats(0, 1e3), st.floats(-10, 1e3), st.floats(0, 1e3))
def test_anything_makes_a_valid_har(url: str, error: str, took: float, first: float, ready: float) -> None:
    """Whatever a log says and whenever packets come, no time is negative and the format is kept."""
    connection = replace(quic("q"), at=first, ready_at=ready)
    entry([replace(EXCHANGE, url=url, error=error, took=took), connection])


@pytest.mark.parametrize("name", ["curl-h1", "curl-h2", "curl-h3", "curl-chacha", "curl-tls12"])
def test_decrypted_exchanges(name: str, golden: Callable[[Path, str], None]) -> None:
    """The HAR of a recording with its keys is the one held beside the tests, and has no secret in it."""
    asked = Asked((str(DECRYPTED / f"{name}.pcap"),), key_log=str(DECRYPTED / f"{name}.keys"))
    log = validated(explained(asked).all_records)
    assert {e["request"]["httpVersion"] for e in log["entries"]} <= {"http/1.1", "h2", "h3"}
    log["creator"]["version"] = "VERSION"
    text = json.dumps(log, indent=1, ensure_ascii=False) + "\n"
    assert "secret" not in text
    golden(HERE / "golden" / f"{name}.har.json", text)
