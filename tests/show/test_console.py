import dataclasses
import io
import re
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from h3probe.records import AnyRecord
from h3probe.show.console import Console, export_svg
from h3probe.show.end import render_end

from . import samples

GOLDEN = Path(__file__).parent / "golden"
ESCAPES = re.compile(r"\x1b\[[0-9;]*m")


def draw(records: list[AnyRecord], *, moments: bool = True, encoding: str = "utf-8", **options: object) -> str:
    """What a Console prints of the sample timeline and of these records."""
    raw = io.BytesIO()
    stream = io.TextIOWrapper(raw, encoding=encoding, newline="\n", write_through=True)
    console = Console(stream, environ={}, **options)  # type: ignore[arg-type]
    if moments:
        console.heading("Timeline")
        for moment in samples.moments():
            console.moment(moment)
    render_end(console, records)
    return raw.getvalue().decode(encoding)


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("80", {"width": 80}),
        ("80.colour", {"width": 80, "color": True}),
        ("80.ascii", {"width": 80, "encoding": "ascii"}),
        ("120", {"width": 120}),
        ("40", {"width": 40}),
    ],
)
def test_a_whole_session(name: str, options: dict[str, object], golden: Callable[[Path, str], None]) -> None:
    """The picture of a session is the one that was looked at and found right (`cat` shows it)."""
    golden(GOLDEN / f"session.{name}.txt", draw(samples.all_records(), **options))  # type: ignore[arg-type]


@pytest.mark.parametrize("width", [40, 63, 64, 80, 100, 120, 200])
def test_no_line_is_wider_than_the_terminal(width: int) -> None:
    """Whatever the width, lines are wrapped here and never by the terminal, and end without spaces."""
    for line in draw(samples.all_records(), width=width).splitlines():
        assert cell_len(line) <= width
        assert line == line.rstrip()


def test_colour_changes_no_character() -> None:
    """All meaning is in the text: with the colours taken away, both pictures are the same."""
    plain = draw(samples.all_records(), width=80)
    colored = draw(samples.all_records(), width=80, color=True)
    assert colored != plain
    assert ESCAPES.sub("", colored) == plain


def test_a_pipe_gets_plain_text() -> None:
    """Without a terminal there is no escape sequence, and the width is 80."""
    output = draw(samples.all_records())
    assert "\x1b" not in output
    assert max(map(cell_len, output.splitlines())) == 80


HOSTILE = st.text(st.characters(exclude_categories=()), max_size=60) | st.sampled_from(
    ["[bold red]x[/]", "[/]", "[link=http://x]", ":smile:", "\x1b]8;;http://x\x1b\\", "a\r\nb", "\u202e", "日" * 50]
)


@given(HOSTILE, st.sampled_from(["utf-8", "ascii", "cp1252"]), st.booleans())
def test_text_from_the_network_is_only_text(text: str, encoding: str, color: bool) -> None:  # noqa: FBT001 - drawn
    """No text in any field is obeyed by the terminal or by rich, breaks a line in two or cannot be written."""
    finding = dataclasses.replace(
        samples.blocked_finding(), origin=text, summary=text, rule=text, advice=text,
        evidence=[dataclasses.replace(samples.blocked_finding().evidence[0], what=text)],
    )  # fmt: skip
    verdict = dataclasses.replace(samples.verdicts()[0], origin=text, client=text, sentence=text, rules=[text])
    moment = dataclasses.replace(samples.moments()[0], text=text, client=text, server=text)
    raw = io.BytesIO()
    stream = io.TextIOWrapper(raw, encoding=encoding, newline="\n", write_through=True)
    console = Console(stream, environ={}, width=80, color=color)
    console.moment(moment)
    render_end(console, [finding, verdict])
    for line in ESCAPES.sub("", raw.getvalue().decode(encoding)).split("\n"):
        assert line.isprintable()
        assert cell_len(line) <= 80


def test_brackets_are_no_markup() -> None:
    """Text that looks like rich markup is printed as it is."""
    finding = dataclasses.replace(samples.blocked_finding(), summary="[bold]x[/bold] :smile:")
    assert "[bold]x[/bold] :smile:" in draw([finding], moments=False)


def test_an_info_is_told_in_full_and_without_its_packets() -> None:
    """An info finding shows its whole summary, wrapped, and neither evidence nor advice."""
    (info,) = (finding for finding in samples.findings() if finding.severity == "info")
    info = dataclasses.replace(info, advice="Listen on IPv6.")
    output = " ".join(draw([info], moments=False, width=60).split())
    assert info.summary in output
    assert info.advice not in output
    assert f"#{info.evidence[0].frame}" not in output


def test_much_evidence_is_counted_and_not_all_printed() -> None:
    """Of many packets the first ones and the last are shown, and how many were left out."""
    output = draw([finding for finding in samples.findings() if len(finding.evidence) > 8], moments=False)
    assert "… 12 more" in output
    assert "#7 " in output
    assert "#8 " not in output
    assert "#20 " in output


def test_the_summary_names_what_was_lost() -> None:
    """Dropped and undecodable packets and a cut source stand in the figures, and nothing that is zero."""
    output = " ".join(draw([samples.summary()], moments=False).split())
    assert "17 lost before h3probe saw them; 2 not decodable; the source could not be read to its end" in output
    assert "forgotten" not in output
    assert "not counted" not in output
    busy = dataclasses.replace(samples.summary(), uncounted=1234)
    output = " ".join(draw([busy], moments=False).split())
    assert "1,234 packets of long transfers not counted (there was more than the sums say)" in output


def test_the_summary_claims_no_more_than_was_looked_at() -> None:
    """Where connections were forgotten, no problem in the rest is no more than that; numbers have separators."""
    summary = dataclasses.replace(
        samples.summary(), packets=1_100_000, evicted=39_999, records={"tcp": 100_000}, exit_status=0
    )
    output = " ".join(draw([summary], moments=False).split())
    assert "1,100,000 packets" in output
    assert "100,000 TCP; no problem found in what was looked at;" in output
    assert "39,999 connections forgotten" in output


def test_columns_widen_and_stay() -> None:
    """A peer too long for its column widens it for all that follow, so that they line up again."""
    lines = draw([], width=120).splitlines()
    after = [line for line in lines if line.startswith((" 63.500", "63.500", "64.000"))]
    assert len({line.index("[2001:db8:1:2:3:4:5:6]:443") for line in after}) == 1


def test_a_closed_pipe_reaches_the_caller() -> None:
    """When the reader is gone the console raises BrokenPipeError, and leaves the exit status to its caller."""

    class Closed(io.StringIO):
        def flush(self) -> None:
            raise BrokenPipeError

    with pytest.raises(BrokenPipeError):
        Console(Closed(), environ={}).note("watching")


def test_a_picture_for_the_readme() -> None:
    """The SVG holds the text and loads nothing from elsewhere."""
    svg = export_svg(lambda console: render_end(console, samples.all_records()), title="h3probe explain")
    assert "repeated-timeout" in svg
    assert "1&#160;notice;" in svg  # the end of the longest line
    assert "url(" not in svg.replace("url(#", "")
