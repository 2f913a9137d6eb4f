"""Writes what the documentation shows of the program: the output contract, the rules, and the README's picture.

    uv run python -m scripts.make_docs

`tests/test_project.py` fails when a document is no longer what this would write.
"""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from h3probe.diagnose.rules import CATALOGUE
from h3probe.engine import Engine
from h3probe.records import FindingRecord
from h3probe.show.console import export_svg
from h3probe.show.end import render_end
from h3probe.show.ndjson import to_json
from h3probe.show.schema import json_schema
from h3probe.vantage.files import merge, open_capture

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from h3probe.diagnose.rule import Rule
    from h3probe.records import AnyRecord, Moment
    from h3probe.show.console import Console

ROOT = Path(__file__).parents[1]
CAPTURES = ROOT / "captures"
DOCS = ROOT / "docs"

PICTURED = "jdk26-stale-alt-svc"
PICTURE_WIDTH = 96
EXAMPLES = {"icmp": "curl-http3-only-refused", "tunnel": "curl-http3-tinyproxy"}
"""The capture that a record's example is taken from; `EXAMPLE` for all others."""
EXAMPLE = "jdk26-client-any"
COMMON = {"type", "id", "at", "time"}
"""What all records have; said once, above the tables."""
MADE = "<!-- made by scripts/make_docs.py; edit that, or what it reads -->\n"


@cache
def explained(name: str) -> tuple[tuple[AnyRecord, ...], tuple[Moment, ...]]:
    """What the engine says of a capture: its records, and the timeline."""
    with open_capture(str(CAPTURES / f"{name}.pcap")) as reader:
        engine = Engine(f"captures/{name}.pcap", reader.format)
        records: list[AnyRecord] = []
        for event in merge([reader]):
            records += engine.feed(event)
        records += engine.finish(truncated=reader.truncated, dropped=reader.dropped)
        return tuple(records), tuple(engine.take_moments())


def captures() -> list[str]:
    """The names of all recordings, in order."""
    return sorted(path.stem for path in CAPTURES.glob("*.pcap"))


# -- the picture


def picture() -> str:
    """The SVG of `h3probe explain` on the pictured capture."""
    records, moments = explained(PICTURED)

    def draw(console: Console) -> None:
        for moment in moments:
            console.moment(moment)
        render_end(console, records)

    return export_svg(draw, title=f"h3probe explain captures/{PICTURED}.pcap", width=PICTURE_WIDTH) + "\n"


# -- the output contract


def output() -> str:
    """The Markdown of docs/output.md."""
    schema = json_schema()
    definitions: dict[str, Any] = schema["$defs"]
    records = [choice["$ref"].rpartition("/")[2] for choice in schema["oneOf"]]
    parts = [MADE, _OUTPUT_HEAD]
    parts += [f"| [`{name}`](#{name}) | {_cell(definitions[name]['description'])} |\n" for name in records]
    parts.append("\n## Records\n\n")
    parts += [_definition(name, definitions[name], _example(name)) for name in records]
    parts.append("## Objects inside records\n\n")
    parts += [_definition(name, definitions[name], None) for name in sorted(definitions) if name not in records]
    return "".join(parts).rstrip("\n") + "\n"


_OUTPUT_HEAD = """# The output contract

`h3probe explain --json` and `h3probe watch --json` print NDJSON: one JSON object a line, as soon as it is settled.
`h3probe schema` prints the JSON Schema that these tables are made from; the tests hold real output against it.

- The first line is the `capture` record, the last one the `summary`, also when Ctrl-C or SIGTERM ends `watch`, and when
  a capture stops in the middle of a packet. Output without it was cut short.
- Every record has these four fields: `type`; `id`, which other records refer to (unique within one output, without a
  meaning beyond it); `at`, seconds since the first packet; `time`, the same moment as RFC 3339 in UTC with nanoseconds.
  Records come in the order in which they are settled, which is not the order of `at`.
- Every field is always there. **A value that is not known is null, never guessed.**
- Addresses are `ip:port`, `[ip]:port` for IPv6. Byte strings are lower-case hex. Frame numbers count from 1, as in
  Wireshark.
- A line can be printed as it is: control characters that came from the network are spelled out.
- `schema` in the `capture` record is the contract's version. A field or a record type may be added within a version;
  removing one or changing its meaning makes a new one.
- [`h3probe diff --json`](diff.md) prints the `capture` records of both captures and the `difference` records, and
  nothing else; no other command prints these.
- `alt_svc` and `exchange` need a vantage point that sees inside of TLS, as an intercepting proxy or the client's own
  log. Without one these two records are not printed, and `versions` in a verdict is null.

The exit status of `explain` and `watch` is 0 when no finding is a problem, 1 when one is, or when
[an expectation](expect.md) is not met; 2 for wrong usage or input that cannot be read. `watch -- COMMAND` passes the
command's own status on, unless `--exit-code findings` asks for h3probe's, or the command ended well and an expectation
is not met.

| record | what it is |
|---|---|
"""


def _example(name: str) -> str | None:
    records, _ = explained(EXAMPLES.get(name, EXAMPLE))
    lines = [to_json(record) for record in records if record.type == name]
    return json.dumps(json.loads(lines[0]), indent=2, ensure_ascii=False) if lines else None


def _definition(name: str, definition: Mapping[str, Any], example: str | None) -> str:
    rows = [
        f"| `{field}` | {_type(schema)} | {_cell(schema.get('description', ''))} |\n"
        for field, schema in definition["properties"].items()
        if not (definition["properties"].keys() >= COMMON and field in COMMON)
    ]
    text = f"### {name}\n\n{definition['description']}\n\n| field | type | meaning |\n|---|---|---|\n{''.join(rows)}\n"
    if example is not None:
        source = EXAMPLES.get(name, EXAMPLE)
        text += f"From [`{source}`](../captures/{source}.pcap), on one line there:\n\n```json\n{example}\n```\n\n"
    return text


def _type(schema: Mapping[str, Any]) -> str:
    """A JSON Schema's type in a table's cell."""
    if "$ref" in schema:
        name = schema["$ref"].rpartition("/")[2]
        return f"[{name}](#{name.lower()})"
    if "anyOf" in schema:
        return " or ".join(_type(choice) for choice in schema["anyOf"])
    if "enum" in schema:
        return ", ".join("null" if value is None else f"`{value}`" for value in schema["enum"])
    names = [schema["type"]] if isinstance(schema["type"], str) else list(schema["type"])
    if names[0] == "array":
        names[0] = f"list of {_type(schema['items'])}"
    elif names[0] == "object":
        names[0] = f"object of {_type(schema['additionalProperties'])}"
    return " or ".join(names)


# -- the rules


def rules() -> str:
    """The Markdown of docs/rules.md."""
    seen: dict[str, list[str]] = {slug: [] for slug in CATALOGUE}
    for name in captures():
        for slug in dict.fromkeys(record.rule for record in explained(name)[0] if isinstance(record, FindingRecord)):
            seen[slug].append(name)
    index = "".join(
        f"| [`{slug}`](#{slug}) | {rule.severity} | {_cell(rule.title)} |\n" for slug, rule in CATALOGUE.items()
    )
    return MADE + _RULES_HEAD + index + "\n" + "\n".join(_rule(rule, seen[slug]) for slug, rule in CATALOGUE.items())


_RULES_HEAD = """# The rules

Each finding is made by one rule, and `h3probe rule SLUG` prints what stands here. A rule fires only on evidence, and
names the packets. The severity of a finding comes from what happened and may differ from the usual one: `problem` if a
request visibly failed or lost more than a second, `notice` if HTTP/3 was tried or offered and not used, else `info`.

| rule | usual severity | in short |
|---|---|---|
"""


def _rule(rule: Rule, seen: list[str]) -> str:
    def paragraphs() -> Iterator[str]:
        yield f"## {rule.slug}"
        yield f"{rule.title}."
        yield f"**Looks for.** {rule.looks_for}"
        yield f"**What to do.** {rule.advice}"
        yield f"**Sources.** {'; '.join(rule.sources)}."
        if seen:
            yield "**Recorded in** " + ", ".join(f"[`{name}`](../captures/{name}.pcap)" for name in seen) + "."

    return "\n\n".join(paragraphs()) + "\n"


def _cell(text: str) -> str:
    return text.replace("|", r"\|").replace("\n", " ")


DOCUMENTS = {"picture.svg": picture, "output.md": output, "rules.md": rules}
"""The files below docs/, and what makes each."""


def main() -> None:
    """Write them all."""
    DOCS.mkdir(exist_ok=True)
    for name, make in DOCUMENTS.items():
        (DOCS / name).write_text(make(), encoding="utf-8", newline="\n")
        print(f"docs/{name}")


if __name__ == "__main__":
    main()
