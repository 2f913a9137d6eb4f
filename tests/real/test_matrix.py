"""h3probe's answer against what real clients print, in every cell of the matrix."""

import json
from collections import Counter
from pathlib import Path

import pytest

from .netns import give_routes
from .parts import Lab, RealParts
from .watching import H3PROBE

LEAST_CELLS = 60
CLIENTS = {"builtin", "java", "java25", "curl"}

pytestmark = pytest.mark.xdist_group("matrix")


def test_every_cell_is_right(parts: RealParts, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """What h3probe says of a client is what the client says, wherever h3probe looks from; its line is printed."""
    with Lab(parts, tmp_path / "lab", "matrix") as lab:
        lab.folder.chmod(0o777)
        give_routes(lab.netns)
        command = ["env", "PYTHONDONTWRITEBYTECODE=1", *H3PROBE, "lab", "matrix", "--json"]
        ran = lab.run_here(parts.as_user(command), timeout=1500)
    cells = [json.loads(line) for line in ran.stdout]
    with capsys.disabled():
        print(f"\nmatrix: {ran.stderr[-1]}")  # noqa: T201 - it is to be read
    assert [(c["client"], c["scenario"], c["vantage"], c["wrong"]) for c in cells if not c["right"]] == []
    assert ran.exit == 0
    assert len(cells) >= LEAST_CELLS
    counted = Counter(cell["client"] for cell in cells)
    assert counted.keys() >= CLIENTS | ({"chromium"} if "chromium" in parts.versions() else set())
    assert min(counted.values()) >= 15
