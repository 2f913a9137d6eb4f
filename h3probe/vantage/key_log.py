"""A key log that a command writes while it is watched."""

from __future__ import annotations

import os
from pathlib import PurePath
from typing import TYPE_CHECKING, Final, Self

from h3probe.events import Secrets
from h3probe.vantage.followed import CHUNK, FollowedFile

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path
    from types import TracebackType

    from h3probe.vantage.proxy_settings import Kind

VARIABLE: Final = "SSLKEYLOGFILE"
NODE_VARIABLE: Final = "NODE_OPTIONS"
_NODE: Final = ("node", "npm", "npx", "yarn", "pnpm")
# A line of a key log is much shorter; what is longer is none.
LONGEST_LINE: Final = 4_096


def key_log_environment(
    kind: Kind, command: Sequence[str], path: Path, *, environment: Mapping[str, str] | None = None
) -> tuple[dict[str, str], list[str]]:
    """Make the environment in which a command writes its TLS secrets to a file.

    Args:
        kind: What the command is.
        command: Its command line.
        path: The file, absolute.
        environment: What to start from; this process's own unless given.

    Returns:
        The whole environment, and a line for each thing that was set.
    """
    result = dict(os.environ if environment is None else environment)
    result[VARIABLE] = str(path)
    lines = [f"{VARIABLE}={path}"]
    # Node looks at no variable of its own for this; in what is not Node the option is nobody's.
    if kind == "unknown" or PurePath(command[0]).name in _NODE:
        quoted = str(path).replace("\\", "\\\\").replace('"', '\\"')
        option = f'"--tls-keylog={quoted}"' if any(c in quoted for c in ' "\\') else f"--tls-keylog={quoted}"
        before = result.get(NODE_VARIABLE, "").strip()
        result[NODE_VARIABLE] = f"{before} {option}" if before else option
        lines.append(f"{NODE_VARIABLE}={option}" + (" (after what it was)" if before else ""))
    return result, lines


class KeyLogTail:
    """Reads a key log while a command writes it; a context manager.

    Args:
        path: Its name; it is there already.

    Attributes:
        empty: Whether nothing came.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.empty = True
        self._file = FollowedFile(path)
        self._rest = b""
        self._begun = 0
        self._announced = False

    def events(self) -> list[Secrets]:
        """Return the secrets that were written since the last call; the first time, that there will be some."""
        if not self._announced:
            self._announced = True
            return [Secrets(b"", growing=True)]
        return self._take(self._file.read())

    def rest(self) -> list[Secrets]:
        """Return what is there, once the command has ended."""
        secrets: list[Secrets] = []
        left = self._file.left
        while left > 0 and (data := self._file.read(min(left, CHUNK))):
            left -= len(data)
            secrets += self._take(data)
        return secrets + self._take(b"\n" if self._rest else b"")

    def __enter__(self) -> Self:
        self._file.open()  # While this process has the rights to.
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._file.__exit__(kind, error, traceback)

    def _take(self, data: bytes) -> list[Secrets]:
        if self._file.begun > self._begun:
            self._begun, self._rest = self._file.begun, b""  # The rest of that line is gone.
        lines, end, rest = (self._rest + data).rpartition(b"\n")
        self._rest = rest[:LONGEST_LINE]
        if not end:
            return []
        self.empty = False
        return [Secrets(lines + end, growing=True)]
