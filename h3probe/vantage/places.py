"""What a path leads to, where it may not be looked at either.

Up to Python 3.13 `Path.is_dir()` and `Path.is_file()` raise an error where a folder on the way may not be searched.
Whoever asks them only wants to know how a file is to be opened; opening it then says what is wrong.
"""

from __future__ import annotations

from pathlib import Path


def is_folder(path: str | Path) -> bool:
    """Whether this is a folder, as far as can be seen."""
    try:
        return Path(path).is_dir()
    except (OSError, ValueError):
        return False


def is_file(path: str | Path) -> bool:
    """Whether this is an ordinary file, as far as can be seen."""
    try:
        return Path(path).is_file()
    except (OSError, ValueError):
        return False
