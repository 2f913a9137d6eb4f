import io
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from h3probe.records import AnyRecord, CaptureRecord
from h3probe.show.ndjson import NdjsonWriter, to_json

from . import samples


def capture(source: str, at: float = 0.0) -> CaptureRecord:
    """A record with a text and a number from outside."""
    return CaptureRecord("capture-1", at, samples.TIME, 1, "0.1.0", source, None)


@pytest.mark.parametrize("record", samples.all_records(), ids=lambda record: record.id)
def test_keys_begin_with_type_id_and_times(record: AnyRecord) -> None:
    """Every line names its type first, then id, at and time, then the record's own fields."""
    assert list(json.loads(to_json(record)))[:4] == ["type", "id", "at", "time"]


def test_sender_is_written_as_from() -> None:
    """The one field whose JSON name is a Python keyword has that name in JSON."""
    line = json.loads(to_json(next(record for record in samples.all_records() if record.type == "icmp")))
    assert line["from"] == "127.0.0.1"
    assert "sender" not in line


def test_nested_records_become_objects() -> None:
    """Dataclasses inside records, and inside their lists, are objects with named fields."""
    lines = {record.id: json.loads(to_json(record)) for record in samples.all_records()}
    assert lines["quic-1"]["close"]["code"] == 0x178
    assert lines["alt-1"]["services"] == [
        {"protocol": "h3", "host": "", "port": 443, "max_age": 86400, "persist": False}
    ]


def test_floats_end_at_the_nanosecond() -> None:
    """Binary fractions do not leak: 0.1 + 0.2 is 0.3, and a tiny negative is not -0.0."""
    assert '"at":0.3,' in to_json(capture("", 0.1 + 0.2))
    assert '"at":0.0,' in to_json(capture("", -1e-12))


@given(st.text(st.characters(exclude_categories=())))
def test_any_text_survives_and_none_is_obeyed(text: str) -> None:
    """A line is one printable line whatever the text, and parsing gives the text back."""
    line = to_json(capture(text))
    assert line.isprintable()
    # Two lone surrogates that make a pair are one character in JSON, whoever wrote them.
    assert json.loads(line)["source"] == text.encode("utf-16", "surrogatepass").decode("utf-16", "surrogatepass")


def test_letters_stay_readable() -> None:
    """Text of any language is not escaped on a UTF-8 stream."""
    assert "büro.pcapng" in to_json(capture("büro.pcapng"))


def test_each_line_is_flushed_at_once() -> None:
    """A reader of the pipe sees a record as soon as it is written."""
    raw = io.BytesIO()
    writer = NdjsonWriter(io.TextIOWrapper(io.BufferedWriter(raw), encoding="utf-8"))
    writer.write(capture("a"))
    assert raw.getvalue().endswith(b"}\n")


def test_a_stream_that_is_not_utf_8_gets_ascii() -> None:
    """On a cp1252 pipe the output is ASCII, which is valid UTF-8, and still says the same."""
    raw = io.BytesIO()
    stream = io.TextIOWrapper(raw, encoding="cp1252")
    NdjsonWriter(stream).write(capture("büro 日本"))
    assert raw.getvalue().isascii()
    assert json.loads(raw.getvalue())["source"] == "büro 日本"


def test_a_closed_pipe_reaches_the_caller() -> None:
    """When the reader is gone, write raises BrokenPipeError, for the caller to stop."""

    class Closed(io.StringIO):
        def flush(self) -> None:
            raise BrokenPipeError

    with pytest.raises(BrokenPipeError):
        NdjsonWriter(Closed()).write(capture("a"))
