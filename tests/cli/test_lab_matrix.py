from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from h3probe.cli import main
from h3probe.lab import isolated, matrix
from h3probe.lab.outcome import Outcome

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

OUTCOMES = (Outcome(1, "HTTP/2", 200, None, 0.5),)
RIGHT = matrix.Cell("builtin", "alt-svc", "isolate", OUTCOMES, (), (), ())
OPEN = matrix.Cell("builtin", "alt-svc", "capture", OUTCOMES, (), (), ("version", "transport"))
WRONG = matrix.Cell("builtin", "retry", "capture", OUTCOMES, (), ("exchanges: h3probe says HTTP/3",), ())


@pytest.fixture
def fill_with(monkeypatch: pytest.MonkeyPatch) -> Callable[[Sequence[matrix.Cell]], None]:
    """Have the matrix come out like this, on any machine."""
    monkeypatch.setattr(isolated, "obstacle", lambda: "")

    def give(cells: Sequence[matrix.Cell]) -> None:
        async def fill(
            plays: Sequence[matrix.Play], authority: object, told: Callable[[matrix.Play], None]
        ) -> list[matrix.Cell]:
            assert authority
            told(plays[0])
            return list(cells)

        monkeypatch.setattr(matrix, "fill", fill)

    return give


def test_one_line(fill_with: Callable[[Sequence[matrix.Cell]], None], capsys: pytest.CaptureFixture[str]) -> None:
    """Right of total, and how many of those leave something open; nothing else unless it is wrong."""
    fill_with([RIGHT, OPEN])
    assert main(["lab", "matrix", "alt-svc", "--client", "builtin"]) == 0
    said = capsys.readouterr()
    assert said.out == "2 of 2 right (1 of them: not told)\n"
    assert "builtin-alt-svc-isolate" in said.err


def test_a_wrong_cell_is_told_and_is_status_1(
    fill_with: Callable[[Sequence[matrix.Cell]], None], capsys: pytest.CaptureFixture[str]
) -> None:
    """It says which one, what the client says, and what h3probe says."""
    fill_with([RIGHT, WRONG])
    assert main(["lab", "matrix", "alt-svc", "--client", "builtin"]) == 1
    said = capsys.readouterr().out
    assert "builtin, retry, capture  HTTP/2 (500 ms)" in said
    assert "exchanges: h3probe says HTTP/3" in said
    assert said.endswith("1 of 2 right (0 of them: not told)\n")
    assert "isolate" not in said


def test_details_are_every_cell(
    fill_with: Callable[[Sequence[matrix.Cell]], None], capsys: pytest.CaptureFixture[str]
) -> None:
    """Also those that are right, with what they leave open."""
    fill_with([RIGHT, OPEN])
    assert main(["lab", "matrix", "--client", "builtin", "--details"]) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert "builtin, alt-svc, isolate HTTP/2 (500 ms)" in said
    assert "not told: version, transport" in said


def test_json_is_one_object_for_each(
    fill_with: Callable[[Sequence[matrix.Cell]], None], capsys: pytest.CaptureFixture[str]
) -> None:
    """Standard output has nothing else, and the line goes to standard error."""
    fill_with([RIGHT, WRONG])
    assert main(["lab", "matrix", "--client", "builtin", "--json"]) == 1
    said = capsys.readouterr()
    right, wrong = map(json.loads, said.out.splitlines())
    assert (right["client"], right["scenario"], right["vantage"], right["right"]) == (
        "builtin", "alt-svc", "isolate", True,
    )  # fmt: skip
    assert right["outcomes"][0]["version"] == "HTTP/2"
    assert (wrong["right"], wrong["wrong"]) == (False, ["exchanges: h3probe says HTTP/3"])
    assert "1 of 2 right" in said.err


def test_mistakes_are_one_line(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """A scenario or a client that is not there, and a machine that has no networks."""
    monkeypatch.setattr(isolated, "obstacle", lambda: "")
    assert main(["lab", "matrix", "alt-svv"]) == 2
    assert "no scenario 'alt-svv'; did you mean alt-svc" in capsys.readouterr().err
    assert main(["lab", "matrix", "--client", "no-such-client"]) == 2
    assert "no-such-client" in capsys.readouterr().err
    monkeypatch.setattr(isolated, "obstacle", lambda: "no pasta here")
    assert main(["lab", "matrix"]) == 2
    assert "networks of its own: no pasta here" in capsys.readouterr().err
