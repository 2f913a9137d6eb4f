from __future__ import annotations

import errno
import sys
from typing import TYPE_CHECKING

import pytest

if sys.platform != "linux":
    pytest.skip("what only Linux has", allow_module_level=True)

from h3probe.vantage.isolate.kernel import Failed, mount, set_value, step

if TYPE_CHECKING:
    from pathlib import Path


def test_a_setting_that_does_not_exist_is_passed_over(tmp_path: Path) -> None:
    """A kernel without IPv6 has no settings for it; one that exists is set, and one that cannot be set is named."""
    set_value(str(tmp_path / "none"), "1")
    there = tmp_path / "there"
    there.touch()
    set_value(str(there), "1")
    assert there.read_text() == "1"
    with pytest.raises(Failed) as caught:
        set_value(str(tmp_path), "1")
    assert (caught.value.step, caught.value.number) == (str(tmp_path), errno.EISDIR)


def test_a_step_that_fails_has_its_name_and_number() -> None:
    """What the kernel says is kept for `obstacles.explain`."""
    with pytest.raises(Failed) as caught:
        step("mount", lambda: mount("nothing", "/no/such/place", "tmpfs", 0))
    assert caught.value.step == "mount"
    assert caught.value.number > 0
