import json
from typing import Any, get_args

import jsonschema
import pytest

from h3probe import records
from h3probe.show.ndjson import to_json
from h3probe.show.schema import json_schema

from . import samples


@pytest.fixture(scope="module")
def schema() -> dict[str, Any]:
    """The schema, made once."""
    return json_schema()


def lines() -> list[dict[str, Any]]:
    """The sample records as a program reads them."""
    return [json.loads(to_json(record)) for record in samples.all_records()]


def test_the_schema_is_valid_itself(schema: dict[str, Any]) -> None:
    """The schema obeys the 2020-12 meta-schema."""
    jsonschema.Draft202012Validator.check_schema(schema)


def test_every_record_type_is_a_choice(schema: dict[str, Any]) -> None:
    """Each record of the contract stands in oneOf, with its type as a constant."""
    types = [schema["$defs"][choice["$ref"].rpartition("/")[2]]["properties"]["type"] for choice in schema["oneOf"]]
    assert types == [{"const": record.type} for record in get_args(records.AnyRecord)]


@pytest.mark.parametrize("line", lines(), ids=lambda line: line["id"])
def test_output_validates(schema: dict[str, Any], line: dict[str, Any]) -> None:
    """What ndjson writes is what the schema describes."""
    jsonschema.Draft202012Validator(schema).validate(line)


def test_the_samples_cover_every_type() -> None:
    """The validation above leaves no record type out."""
    assert {line["type"] for line in lines()} == {record.type for record in get_args(records.AnyRecord)}


def broken() -> list[tuple[str, dict[str, Any]]]:
    """Lines that break the contract in one way each."""
    by_id = {line["id"]: line for line in lines()}
    return [
        ("a field too many", {**by_id["icmp-1"], "sender": "::1"}),
        ("a field missing", {name: value for name, value in by_id["quic-1"].items() if name != "sni"}),
        ("a value outside its list", {**by_id["tcp-1"], "outcome": "broken"}),
        ("null where none may be", {**by_id["tcp-1"], "client": None}),
        ("text for a number", {**by_id["tcp-1"], "at": "0.1"}),
        ("an unknown type", {**by_id["tcp-1"], "type": "udp"}),
        ("a nested field missing", {**by_id["quic-1"], "process": {"pid": 1}}),
        ("a count that is no integer", {**by_id["summary-1"], "records": {"quic": 1.5}}),
    ]


@pytest.mark.parametrize(("flaw", "line"), broken(), ids=[flaw for flaw, _ in broken()])
def test_a_broken_line_is_refused(schema: dict[str, Any], flaw: str, line: dict[str, Any]) -> None:
    """The schema is strict: each flaw is noticed."""
    assert not jsonschema.Draft202012Validator(schema).is_valid(line), flaw


def test_every_field_is_described(schema: dict[str, Any]) -> None:
    """Each record and each field but the discriminator says what it means; JSON names are not explained twice."""
    for name, definition in schema["$defs"].items():
        assert definition["description"], name
        for field, described in definition["properties"].items():
            assert field == "type" or described["description"], (name, field)
    assert schema["$defs"]["icmp"]["properties"]["from"]["description"] == "address of the host that sent it"
