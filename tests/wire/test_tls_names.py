from __future__ import annotations

import pytest

from h3probe.wire.tls_names import alert_name, is_grease


@pytest.mark.parametrize(
    ("code", "name"), [(0, "close_notify"), (48, "unknown_ca"), (120, "no_application_protocol"), (200, "alert_200")]
)
def test_alerts_have_their_registered_names(code: int, name: str) -> None:
    """An alert is named as in the registry, and by its number where the registry has none."""
    assert alert_name(code) == name


def test_grease_is_sixteen_values() -> None:
    """Exactly the 16 values of RFC 8701 count as GREASE, among all that 16 bits can say."""
    assert [value for value in range(1 << 16) if is_grease(value)] == [0x0A0A + 0x1010 * n for n in range(16)]
