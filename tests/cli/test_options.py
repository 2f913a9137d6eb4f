"""Options that several commands share."""

from __future__ import annotations

import pytest
from click.testing import CliRunner

from h3probe.cli.watch import watch


@pytest.mark.parametrize("option", ["--for", "--loss", "--delay", "--rate"])
@pytest.mark.parametrize("value", ["nan", "-nan", "NaN"])
def test_what_is_no_number_is_refused(option: str, value: str) -> None:
    """A value that is neither too small nor too large is refused all the same where it is no number at all."""
    result = CliRunner().invoke(watch, ["--isolate", option, value, "--", "true"])
    assert result.exit_code == 2
    assert f"{value!r} is not a number" in result.output
