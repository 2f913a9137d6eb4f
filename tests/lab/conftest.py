"""What the lab's tests share: one authority, and a way to run a coroutine."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from h3probe.lab.authority import Authority, create_authority

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture(scope="session")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    """An authority that all servers and clients of the tests share."""
    folder: Path = tmp_path_factory.mktemp("authority")
    return create_authority(folder)
