from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import jsonschema
import pytest

from h3probe import __version__
from h3probe.filters import Filters
from h3probe.run.explaining import Asked, explained
from h3probe.run.exporting import as_qlog
from h3probe.show import qlog as module
from h3probe.show.qlog import QlogBuilder
from tests.captures.recordings import FOLDER, NAMES

if TYPE_CHECKING:
    from collections.abc import Callable

HERE = Path(__file__).parent
SCHEMA = json.loads((HERE / "schemas" / "qlog-0.3.json").read_text(encoding="utf-8"))
GOLDEN = ["curl-retry", "curl-http3-only-refused", "jdk26-udp-dropped-client-any"]
PACKETS = {"transport:packet_sent", "transport:packet_received"}


def exported(path: Path, filters: Filters | None = None) -> dict[str, Any]:
    """A capture as qlog, as a program reads it; it obeys the format."""
    texts, _ = as_qlog(Asked((str(path),), filters or Filters()))
    made: dict[str, Any] = json.loads("".join(texts))
    jsonschema.Draft202012Validator(SCHEMA).validate(made)
    return made


def recorded(name: str) -> list[dict[str, Any]]:
    """The traces of a recording."""
    traces: list[dict[str, Any]] = exported(FOLDER / f"{name}.pcap")["traces"]
    return traces


def events(trace: dict[str, Any], name: str) -> list[dict[str, Any]]:
    """The data of the events of one name."""
    return [event["data"] for event in trace["events"] if event["name"] == name]


def test_the_schema_is_valid_itself() -> None:
    """The schema obeys the 2020-12 meta-schema, and takes nothing for a qlog that is none."""
    jsonschema.Draft202012Validator.check_schema(SCHEMA)
    validator = jsonschema.Draft202012Validator(SCHEMA)
    made = exported(FOLDER / "curl-http3.pcap")
    assert not validator.is_valid({**made, "qlog_version": "0.4"})
    event = made["traces"][0]["events"][-1]
    for broken in ({"name": "quic:packet_sent"}, {"name": "transport:packet_sent", "data": {}}, {"time": "0"}):
        made["traces"][0]["events"][-1] = {**event, **broken}
        assert not validator.is_valid(made)


@pytest.mark.parametrize("name", NAMES)
def test_a_trace_for_each_connection(name: str) -> None:
    """Each connection of a recording is one trace, seen from the network with the client's flow, in order of time."""
    traces = recorded(name)
    found = [r for r in explained(Asked((str(FOLDER / f"{name}.pcap"),))).all_records if r.type in {"quic", "tcp"}]
    assert sorted(trace["description"].partition(",")[0] for trace in traces) == sorted(r.id for r in found)
    for trace in traces:
        assert (trace["vantage_point"]["type"], trace["vantage_point"]["flow"]) == ("network", "client")
        times = [event["time"] for event in trace["events"]]
        assert times == sorted(times)
        assert trace["events"][0]["name"] == "connectivity:connection_started"


@pytest.mark.parametrize("name", NAMES)
def test_only_what_is_seen_is_told(name: str) -> None:
    """Frames and packet numbers are those of Initials; of the rest there is the header and the length."""
    for trace in recorded(name):
        assert {e["name"].partition(":")[0] for e in trace["events"]} <= {"connectivity", "transport", "generic"}
        for event in trace["events"]:
            if event["name"] in PACKETS and event["data"]["header"]["packet_type"] != "initial":
                assert "frames" not in event["data"]
                assert "packet_number" not in event["data"]["header"]


@pytest.mark.parametrize("name", GOLDEN)
def test_qlog(name: str, golden: Callable[[Path, str], None]) -> None:
    """The qlog of a recording is the one held beside the tests."""
    texts, note = as_qlog(Asked((str(FOLDER / f"{name}.pcap"),)))
    text = "".join(texts).replace(f"h3probe {__version__}", "h3probe VERSION").replace(f"{FOLDER}/", "captures/")
    assert note is None
    golden(HERE / "golden" / f"{name}.qlog.json", text)


def test_a_retry_and_what_follows_it() -> None:
    """A Retry has its token's length and not the token; the Initials after it are opened with the new keys."""
    (trace,) = recorded("curl-retry")
    retries = [p for p in events(trace, "transport:packet_received") if p["header"]["packet_type"] == "retry"]
    assert [retry["retry_token"] for retry in retries] == [{"type": "retry", "length": 78}] * 2
    initials = [p for p in events(trace, "transport:packet_sent") if p["header"]["packet_type"] == "initial"]
    assert all("frames" in packet for packet in initials)
    assert [p["header"]["packet_number"] for p in initials] == sorted(p["header"]["packet_number"] for p in initials)
    assert initials[-1]["header"]["token"] == {"length": 78}


def test_coalesced_packets_are_marked() -> None:
    """Packets of one datagram are all marked, the first one too, and no other."""
    (trace,) = recorded("curl-http3")
    packets = [event for event in trace["events"] if event["name"] in PACKETS]
    marked = [event["frame"] for event in packets if event["data"].get("is_coalesced")]
    assert marked
    assert all(marked.count(frame) > 1 for frame in marked)


def test_versions_protocols_and_the_close() -> None:
    """What the client offered, the version it chose, and the CONNECTION_CLOSE that could be read."""
    traces = recorded("jdk26-udp-dropped-uri-only")
    assert events(traces[0], "transport:version_information") == [{"chosen_version": "00000001"}]
    assert events(traces[0], "transport:alpn_information") == [{"client_alpns": ["h3"]}]
    closed = [close for trace in traces for close in events(trace, "connectivity:connection_closed")]
    assert closed == [{"owner": "local", "connection_code": 12, "reason": "No response from peer for 30 seconds"}] * 2


def test_times_are_relative_to_the_first_packet() -> None:
    """All traces of a file have one reference, in milliseconds since the epoch."""
    traces = recorded("jdk26-client-any")
    assert len({trace["common_fields"]["reference_time"] for trace in traces}) == 1
    assert traces[0]["common_fields"]["reference_time"] == pytest.approx(1796031367830.0, abs=1)
    assert min(trace["events"][0]["time"] for trace in traces) == 0


def test_filters_leave_traces_out() -> None:
    """Only what is asked for is exported, and nothing at all is an empty list and a remark."""
    path = FOLDER / "curl-alt-svc-cache.pcap"
    assert exported(path, Filters(origins=frozenset({"localhost"})))["traces"]
    texts, note = as_qlog(Asked((str(path),), Filters(ports=frozenset({1}))))
    assert json.loads("".join(texts))["traces"] == []
    assert note is not None


def test_what_a_snaplen_cut_has_no_length(tmp_path: Path) -> None:
    """A packet whose end is missing has the length that its headers tell, or none, and no frames."""
    whole = recorded("curl-http3")[0]["events"]
    path = tmp_path / "cut.pcap"
    path.write_bytes(_snapped((FOLDER / "curl-http3.pcap").read_bytes(), 150))
    (trace,) = exported(path)["traces"]
    packets = [event["data"] for event in trace["events"] if event["name"] in PACKETS]
    assert all(packet["raw"]["length"] < 150 for packet in packets if "frames" in packet)
    short = {
        (e["frame"], e["data"]["raw"]["length"]) for e in whole if e["data"].get("header") == {"packet_type": "1RTT"}
    }
    for event in trace["events"]:
        if event["data"].get("header") == {"packet_type": "1RTT"} and "raw" in event["data"]:
            assert (event["frame"], event["data"]["raw"]["length"]) in short


def _snapped(capture: bytes, snaplen: int) -> bytes:
    """A pcap whose frames end after so many bytes."""
    order: Any = "little" if capture[:4] in {b"\xd4\xc3\xb2\xa1", b"\x4d\x3c\xb2\xa1"} else "big"
    made, at = capture[:24], 24
    while at < len(capture):
        held = int.from_bytes(capture[at + 8 : at + 12], order)
        kept = min(held, snaplen)
        made += capture[at : at + 8] + kept.to_bytes(4, order) + capture[at + 12 : at + 16]
        made += capture[at + 16 : at + 16 + kept]
        at += 16 + held
    return made


@pytest.mark.parametrize("limit", ["EVENTS_LIMIT", "ALL_LIMIT"])
def test_a_long_transfer_is_cut_and_said_to_be(limit: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Beyond either limit packets are counted instead of kept; for that of all connections frames count as well."""
    whole = sum(len(trace["events"]) for trace in recorded("curl-http3"))
    monkeypatch.setattr(module, limit, 5)
    (trace,) = recorded("curl-http3")
    left_out = int(trace["description"].partition("; ")[2].split()[0])
    assert len(trace["events"]) + left_out == whole
    assert trace["description"].endswith("events more are left out")


def test_connections_beyond_the_limit_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of too many connections the first are kept, and how many are not is said."""
    monkeypatch.setattr(module, "TRACES_LIMIT", 1)
    made = exported(FOLDER / "jdk26-client-any.pcap")
    assert len(made["traces"]) == 1
    assert made["description"].endswith("1 connections more are left out.")


def test_an_empty_log_is_valid() -> None:
    """Without any connection the file is whole."""
    made = json.loads("".join(QlogBuilder().texts("nothing", None)))
    jsonschema.Draft202012Validator(SCHEMA).validate(made)
