"""What all tests share: golden files and the option that rewrites them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add `--update-golden`."""
    parser.addoption(
        "--update-golden",
        action="store_true",
        help="write golden files anew from what the code gives now; read the diff before committing it",
    )


@pytest.fixture
def golden(request: pytest.FixtureRequest) -> Callable[[Path, str], None]:
    """Compare a text with a golden file, or write the file under `--update-golden`."""

    def compare(path: Path, actual: str) -> None:
        if request.config.getoption("--update-golden"):
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(actual.encode())
            return
        assert path.exists(), f"{path.name} is missing: run pytest with --update-golden, then read the file"
        assert actual == path.read_bytes().decode(), f"{path.name} differs; --update-golden writes it anew"

    return compare
