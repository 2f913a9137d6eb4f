"""The repository around the program: what its documents say is so."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
import tomllib
from html import unescape
from pathlib import Path

import click
import pytest

from h3probe import __version__
from h3probe.cli import cli
from scripts.make_docs import CAPTURES, DOCS, DOCUMENTS, ROOT, captures

MARKDOWN = [
    *sorted(ROOT.glob("*.md")),
    *sorted(DOCS.glob("*.md")),
    *sorted(CAPTURES.glob("*.md")),
    ROOT / "fuzz/README.md",
]
LARGEST_CAPTURE = 60_000
"""Bytes: many recordings are kept, and each clone gets them all."""
MADE_BY = "run `uv run python -m scripts.make_docs`, and read the diff"


def tracked() -> list[str]:
    """Give the files that git knows, or skip where this is no checkout."""
    if not (ROOT / ".git").exists():
        pytest.skip("not a git checkout")
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True)
    return listed.stdout.split("\0")[:-1]


def commands(text: str) -> list[str]:
    """Give the lines of the `sh` blocks of a Markdown text."""
    blocks = re.findall(r"```sh\n(.*?)```", text, flags=re.DOTALL)
    return [line for block in blocks for line in block.splitlines()]


def invocations() -> list[list[str]]:
    """Give the arguments of every h3probe that the README's commands run."""
    words = [shlex.split(line) for line in commands((ROOT / "README.md").read_text(encoding="utf-8"))]
    found: list[list[str]] = []
    for line in words:
        for place, word in enumerate(line):
            if word.rpartition("/")[2] == "h3probe":
                rest = line[place + 1 :]
                found.append(rest[: rest.index("|")] if "|" in rest else rest)
    return found


@pytest.mark.parametrize("arguments", invocations(), ids=" ".join)
def test_command_of_the_readme_exists(arguments: list[str]) -> None:
    """Each h3probe command in the README parses: its subcommand and its options are there."""
    command: click.Command = cli
    context = click.Context(cli, info_name="h3probe", **cli.context_settings)
    while isinstance(command, click.Group):
        found = command.get_command(context, arguments[0])
        assert found is not None, f"no command {arguments[0]}"
        command, arguments = found, arguments[1:]
        context = click.Context(command, parent=context, info_name=command.name)
    command.make_parser(context).parse_args(list(arguments))


def test_the_readme_has_the_two_commands_of_a_fresh_machine() -> None:
    """The README tries h3probe and runs its tests with one line each, and CI runs the same test command."""
    lines = commands((ROOT / "README.md").read_text(encoding="utf-8"))
    assert lines[:2] == ["python3 -m pip install uv && uv run h3probe demo", "uv run pytest"]
    assert re.search(r"^ *step \S+ uv run pytest$", (ROOT / ".ci/run").read_text(encoding="utf-8"), flags=re.MULTILINE)


@pytest.mark.parametrize("name", ["output.md", "rules.md"])
def test_document_is_current(name: str) -> None:
    """The documents that are made from the schema and the rules say what these say now."""
    assert (DOCS / name).read_text(encoding="utf-8") == DOCUMENTS[name](), MADE_BY


def test_picture_is_current() -> None:
    """The README's picture shows what h3probe says now; how rich draws it may differ between its versions."""

    def lines(svg: str) -> list[str]:
        return [unescape(text).replace("\xa0", " ") for text in re.findall(r"<text[^>]*>([^<]*)</text>", svg)]

    current = lines(DOCUMENTS["picture.svg"]())
    assert len(current) > 100
    assert lines((DOCS / "picture.svg").read_text(encoding="utf-8")) == current, MADE_BY


def test_picture_names_no_host() -> None:
    """The picture loads nothing: fonts and the like would come from somebody else's server."""
    svg = (DOCS / "picture.svg").read_text(encoding="utf-8")
    assert "url(http" not in svg
    assert "href" not in svg


@pytest.mark.parametrize("document", MARKDOWN, ids=lambda path: str(path.relative_to(ROOT)))
def test_relative_links_lead_somewhere(document: Path) -> None:
    """Each relative link in the documentation names a file of the repository, and each anchor a heading."""
    text = document.read_text(encoding="utf-8")
    for target in re.findall(r"\]\(([^)\s]+)\)", text):
        if target.startswith(("http://", "https://")):
            continue
        path, _, anchor = target.partition("#")
        linked = (document.parent / path).resolve() if path else document
        assert linked.exists(), f"{target} in {document.name}"
        if anchor:
            headings = re.findall(r"^#+ (.+)$", linked.read_text(encoding="utf-8"), flags=re.MULTILINE)
            assert anchor in {re.sub(r"[^\w-]", "", h.lower().replace(" ", "-")) for h in headings}, target


def test_version_stands_in_the_changelog() -> None:
    """The newest entry of the changelog is about this version."""
    newest = re.search(r"^## \[(.+?)\]", (ROOT / "CHANGELOG.md").read_text(encoding="utf-8"), flags=re.MULTILINE)
    assert newest is not None
    assert newest[1] == __version__


def test_there_is_no_lock_file() -> None:
    """No lock file is kept: it would name a registry's host, and pin what ranges in pyproject.toml leave open."""
    names = {Path(name).name for name in tracked()}
    assert not names & {"uv.lock", "poetry.lock", "pdm.lock", "Pipfile.lock", "requirements.txt", "pylock.toml"}


def test_dependencies_have_lower_bounds() -> None:
    """Without a lock file, the ranges are what keeps an installation working."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert [line for line in project["dependencies"] if ">=" not in line] == []


def test_each_ruff_exception_has_its_reason() -> None:
    """Each rule that is switched off, for all or for some files, has a comment beside it."""
    text = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    section = text[text.index("[tool.ruff.lint]") : text.index("[tool.ruff.lint.pydocstyle]")]
    rows = [line for line in section.splitlines() if re.search(r'"[A-Z]+\d*"', line) and "select" not in line]
    assert len(rows) > 10
    assert [row for row in rows if "#" not in row] == []


@pytest.mark.parametrize("name", captures())
def test_capture_is_small_and_has_its_truth(name: str) -> None:
    """Each recording is small, is in the table of captures/README.md, and has what its client said beside it."""
    assert (CAPTURES / f"{name}.pcap").stat().st_size < LARGEST_CAPTURE
    truth = json.loads((CAPTURES / f"{name}.truth.json").read_text(encoding="utf-8"))
    assert truth["scenario"] == name
    assert all("exit" in command for command in truth["commands"])
    assert f"\n| `{name}` |" in (CAPTURES / "README.md").read_text(encoding="utf-8")


def test_each_truth_has_its_capture() -> None:
    """No truth file is left over from a recording that is gone."""
    assert sorted(path.name.removesuffix(".truth.json") for path in CAPTURES.glob("*.truth.json")) == captures()
