"""A storage for tests, `gate://PATH`: files here, each opened when the test lets it be."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path
from typing import Any

import fsspec
from distributed import WorkerPlugin
from fsspec.implementations.local import LocalFileSystem

CLOSED, OPENING, DEADLY = ".closed", ".opening", "deadly"
LONGEST_WAIT = 120.0
"""Seconds after which a gate that nobody opens is an error."""


class GateFileSystem(LocalFileSystem):  # type: ignore[misc] # it has no annotations
    """Waits while there is `PATH.closed`, and tells in `PATH.opening` which process does; `deadly` files kill."""

    protocol = ("gate",)

    def _open(self, path: str, mode: str = "rb", block_size: int | None = None, **options: Any) -> Any:  # noqa: ANN401
        if DEADLY in path:
            os.kill(os.getpid(), signal.SIGKILL)
        closed = Path(path + CLOSED)
        if closed.exists():
            beside = Path(f"{path}.{os.getpid()}")
            beside.write_text(str(os.getpid()))
            beside.replace(path + OPENING)
            wait_for(lambda: not closed.exists())
        return super()._open(path, mode, block_size, **options)


class Gate(WorkerPlugin):
    """Lets workers know the storage, those that come later too."""

    name = "gate"

    def setup(self, worker: object) -> None:  # noqa: ARG002 - Dask's signature
        """Register it."""
        register()


def register() -> None:
    """Let this process know the storage."""
    fsspec.register_implementation("gate", GateFileSystem, clobber=True)


def wait_for(condition: Any) -> None:  # noqa: ANN401 - anything that can be called
    """Wait until something is so, and no longer than bearable."""
    until = time.monotonic() + LONGEST_WAIT
    while not condition():
        if time.monotonic() > until:
            raise TimeoutError("it never came to be so")
        time.sleep(0.02)
