"""The real programs as fixtures; without them, or without root, the tests here skip and say what brings them."""

import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from .parts import NOT_ROOT, SET_UP, Lab, RealParts

_HERE = Path(__file__).parent


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark every test in this folder `real`."""
    for item in items:
        if item.path.is_relative_to(_HERE):
            item.add_marker(pytest.mark.real)


@pytest.fixture(scope="session")
def parts() -> RealParts:
    """Give the real programs."""
    found = RealParts.find()
    if found is None:
        pytest.skip(SET_UP)
    if os.geteuid() != 0:
        pytest.skip(NOT_ROOT)
    return found


@pytest.fixture
def new_lab(parts: RealParts, tmp_path: Path) -> Iterator[Callable[[str], Lab]]:
    """Make labs by name, each with nginx running; they are gone at the end of the test."""
    with ExitStack() as stack:

        def make(name: str) -> Lab:
            lab = stack.enter_context(Lab(parts, tmp_path / name, name))
            lab.start_nginx()
            return lab

        yield make


@pytest.fixture
def lab(new_lab: Callable[[str], Lab], request: pytest.FixtureRequest) -> Lab:
    """Give a lab with nginx running, in a network of this test's own."""
    return new_lab("".join(c if c.isalnum() else "-" for c in request.node.name)[:60].strip("-"))
