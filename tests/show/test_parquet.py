from __future__ import annotations

import io
import json
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

import pytest

from h3probe import records
from h3probe.errors import MissingExtraError
from h3probe.show import parquet as tables_of
from h3probe.show.parquet import RECORDS, Tables, arrow_schema
from h3probe.show.schema import json_schema

pa = pytest.importorskip("pyarrow", reason="no pyarrow: pip install 'h3probe[cluster]'")
pc = pytest.importorskip("pyarrow.compute")
pq = pytest.importorskip("pyarrow.parquet")

if TYPE_CHECKING:
    from collections.abc import Iterable

DOCUMENT = Path(__file__).parents[2] / "docs/cluster.md"
GOLDEN = sorted((Path(__file__).parents[2] / "captures").glob("*.golden.ndjson"))


def written(lines: Iterable[tuple[str, str]]) -> dict[str, Any]:
    """Write lines, each from a capture, and read the tables back."""
    streams: dict[str, io.BytesIO] = {}
    tables = Tables(lambda name: streams.setdefault(name, io.BytesIO()))
    for capture, line in lines:
        tables.add(capture, line)
    tables.close()
    return {name: pq.read_table(pa.BufferReader(stream.getvalue())) for name, stream in streams.items()}


def golden() -> list[tuple[str, str]]:
    """All records of all recordings, each with its capture."""
    return [(path.name, line) for path in GOLDEN for line in path.read_text(encoding="utf-8").splitlines()]


def test_every_record_comes_back_as_it_was() -> None:
    """All records of all recordings, with lists, structs and maps, in their order, each with its capture."""
    lines = golden()
    expected: dict[str, list[dict[str, Any]]] = {name: [] for name in RECORDS}
    for capture, line in lines:
        fields = json.loads(line)
        expected[fields.pop("type")].append({"capture": capture, **fields})
    found = {name: table.to_pylist(maps_as_pydicts="strict") for name, table in written(lines).items()}
    assert found == expected
    assert sum(map(len, expected.values())) > 100


def test_columns_are_the_contract() -> None:
    """Each field in the order of the JSON Schema, with its description; but `type`, which is the table's name."""
    definitions = json_schema()["$defs"]
    for name, record in RECORDS.items():
        schema = arrow_schema(record)
        properties = definitions[name]["properties"]
        described = {field: text["description"] for field, text in properties.items() if field != "type"}
        assert schema.names == ["capture", *described]
        found = {field.name: field.metadata[b"description"].decode() for field in schema}
        assert {field: found[field].removesuffix(f"; `{field}` in JSON") for field in described} == described
    assert set(get_args(records.AnyRecord)) - set(RECORDS.values()) == {records.DifferenceRecord}


def test_columns_have_types() -> None:
    """Numbers are numbers; a list is a list, a nested record a struct, and counts by name a map."""
    quic, verdict = arrow_schema(records.QuicRecord), arrow_schema(records.VerdictRecord)
    assert quic.field("at").type == pa.float64()
    assert quic.field("initials_sent").type == pa.int64()
    assert quic.field("alpn").type == pa.list_(pa.string())
    assert quic.field("close").type.field("code").type == pa.int64()
    assert verdict.field("versions").type == pa.map_(pa.string(), pa.int64())
    assert arrow_schema(records.FindingRecord).field("evidence").type.value_type.field("what").type == pa.string()


def _exchange(**fields: Any) -> str:  # noqa: ANN401 - what JSON holds
    columns = dict.fromkeys(arrow_schema(records.ExchangeRecord).names[1:])
    return json.dumps({"type": "exchange", **columns, "id": "exchange-1", **fields})


def test_what_parquet_cannot_hold_costs_no_more_than_itself() -> None:
    """Half a character becomes a question mark, a number beyond 64 bits is not known; the rest stays."""
    rows = written([("a\udcff", _exchange(url="x\ud800y", status=2**70)), ("b", _exchange(status=200))])[
        "exchange"
    ].to_pylist()
    assert [(row["capture"], row["url"], row["status"]) for row in rows] == [("a?", "x?y", None), ("b", None, 200)]


def test_a_large_table_is_written_in_groups(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is lost or doubled where one ends."""
    monkeypatch.setattr(tables_of, "GROUP", 10)
    rows = written(("a", _exchange(id=f"exchange-{number}")) for number in range(25))["exchange"].to_pylist()
    assert [row["id"] for row in rows] == [f"exchange-{number}" for number in range(25)]


def test_tables_answer_what_the_documentation_asks() -> None:
    """Its queries name columns that there are; joined by capture and id, each finding meets its connections."""
    for query in re.findall(r"```sql\n(.*?)```", DOCUMENT.read_text(encoding="utf-8"), flags=re.DOTALL):
        columns = {
            name for table in re.findall(r"tables/(\w+)\.parquet", query) for name in arrow_schema(RECORDS[table]).names
        }
        assert set(re.findall(r"\b[a-z]\.(\w+)", query)) - set(re.findall(r" AS (\w+)", query)) <= columns

    tables = written(golden())
    finding, quic = tables["finding"], tables["quic"]
    lost = finding.filter(pc.equal(finding["rule"], "quic-unanswered")).group_by("origin")
    counted = lost.aggregate([("capture", "count_distinct"), ("cost", "sum")]).to_pylist()
    assert any(row["capture_count_distinct"] > 1 for row in counted)

    rows = pc.list_parent_indices(finding["connections"])
    each = finding.select(["capture", "rule"]).take(rows).append_column("id", pc.list_flatten(finding["connections"]))
    joined = each.join(quic.select(["capture", "id", "outcome"]), keys=["capture", "id"], join_type="inner")
    unanswered = joined.filter(pc.equal(joined["rule"], "quic-unanswered"))
    assert unanswered["outcome"].unique().to_pylist() == ["unanswered"]


def test_without_pyarrow_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """One line with what to type."""
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(MissingExtraError, match=r"^--parquet needs pyarrow, .*: pip install 'h3probe\[cluster\]'$"):
        written([])
