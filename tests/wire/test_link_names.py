from __future__ import annotations

from h3probe.wire.link_names import link_type_name


def test_names() -> None:
    """Link types have their usual short names, and unknown ones their number."""
    assert [link_type_name(n) for n in (0, 1, 9, 101, 113, 228, 229, 276)] == [
        "NULL",
        "EN10MB",
        "PPP",
        "RAW",
        "SLL",
        "IPV4",
        "IPV6",
        "SLL2",
    ]
    assert link_type_name(189) == "USB_LINUX"
    assert link_type_name(54321) == "LINKTYPE_54321"
