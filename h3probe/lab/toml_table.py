"""A TOML table that is read key by key, so that a mistake in a file is one line that names the key."""

from __future__ import annotations

from typing import Any, NoReturn

from h3probe.errors import UserError


class Table:
    """A TOML table whose keys are asked for once each, so that an unknown one is noticed.

    Every method raises UserError where a value is not what it should be.

    Args:
        data: What `tomllib` gave.
        file: What the file is called in a complaint.
        name: The table's own name in it; empty for the file itself.
    """

    def __init__(self, data: dict[str, Any], file: str, name: str = "") -> None:
        self._data = dict(data)
        self._file = file
        self._name = name

    def __contains__(self, key: str) -> bool:
        return key in self._data

    def refuse(self, key: str, wanted: str) -> NoReturn:
        """Raise the error for a key that is not what it should be."""
        where = f"{self._name}.{key}" if self._name else key
        raise UserError(f"{self._file}: {where} must be {wanted}")

    def table(self, key: str) -> Table:
        """The table with this name, empty where there is none."""
        value = self._data.pop(key, {})
        if not isinstance(value, dict):
            self.refuse(key, "a table")
        return Table(value, self._file, f"{self._name}.{key}" if self._name else key)

    def tables(self, key: str) -> list[Table]:
        """The tables of a list, at least one."""
        value = self._data.pop(key, None)
        if not isinstance(value, list) or not value or not all(isinstance(item, dict) for item in value):
            self.refuse(key, "a list of tables")
        return [Table(item, self._file, f"{key} {place}") for place, item in enumerate(value, 1)]

    def text(self, key: str, otherwise: str | None = None) -> str:
        """A text that is not empty, in one line."""
        value = self._data.pop(key, otherwise)
        if value == otherwise and otherwise is not None:
            return otherwise
        if not isinstance(value, str) or not value.strip():
            self.refuse(key, "a text")
        return " ".join(value.split())

    def texts(self, key: str) -> tuple[str, ...] | None:
        """A list of texts, None where the key is not there."""
        value = self._data.pop(key, None)
        if value is None:
            return None
        if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
            self.refuse(key, "a list of texts")
        return tuple(value)

    def choice(self, key: str, among: tuple[str, ...]) -> str | None:
        """One of several words, None when the key is not there."""
        value = self._data.pop(key, None)
        if value is None:
            return None
        if value not in among:
            self.refuse(key, f"one of {', '.join(among)}")
        return str(value)

    def number(self, key: str, otherwise: int, *, most: int, least: int = 1) -> int:
        """A whole number."""
        value = self._data.pop(key, otherwise)
        if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= most:
            self.refuse(key, f"a whole number from {least} to {most}")
        return value

    def ranges(self, key: str) -> tuple[tuple[float, float], ...] | None:
        """A list of pairs, the lesser number first; None where the key is not there."""
        value = self._data.pop(key, None)
        if value is None:
            return None
        if not isinstance(value, list) or not all(_is_range(item) for item in value):
            self.refuse(key, "a list of pairs of numbers, the lesser one first")
        return tuple((float(low), float(high)) for low, high in value)

    def flag(self, key: str) -> bool:
        """A yes or no, no where the key is not there."""
        value = self._data.pop(key, False)
        if not isinstance(value, bool):
            self.refuse(key, "true or false")
        return value

    def finish(self) -> None:
        """Refuse what nobody asked for.

        Raises:
            UserError: There is a key with no meaning.
        """
        for key in self._data:
            where = f"{self._name}.{key}" if self._name else key
            raise UserError(f"{self._file}: {where} has no meaning")


def _is_range(value: object) -> bool:
    if not isinstance(value, list) or len(value) != 2:
        return False
    return all(isinstance(each, int | float) and not isinstance(each, bool) for each in value) and value[0] <= value[1]
