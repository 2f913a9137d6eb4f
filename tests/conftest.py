"""What all tests share: golden files and the option that rewrites them, and the place of the real programs."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest
from hypothesis import settings

if TYPE_CHECKING:
    from collections.abc import Callable, Generator
    from pathlib import Path

# How fast an example runs says more about the machine than about the code.
settings.register_profile("h3probe", deadline=None)
settings.load_profile("h3probe")


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add `--update-golden`."""
    parser.addoption(
        "--update-golden",
        action="store_true",
        help="write golden files anew from what the code gives now; read the diff before committing it",
    )


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put the tests with real programs last: they wait for these programs' timers."""
    items.sort(key=lambda item: item.get_closest_marker("real") is not None)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Under CI, which sets the real programs up, a test that misses them fails instead of skipping."""
    report = yield
    if report.skipped and os.environ.get("CI") and item.get_closest_marker("real") and not hasattr(report, "wasxfail"):
        report.outcome = "failed"
        report.longrepr = f"skipped under CI: {report.longrepr}"
    return report


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
