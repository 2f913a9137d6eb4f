from __future__ import annotations

import struct

import pytest

from h3probe.capture.magic import FOREIGN, LOOKED_AT, MAGICS, describe, foreign


@pytest.mark.parametrize(("offset", "magic", "name"), MAGICS, ids=[name for _, _, name in MAGICS])
def test_every_magic_is_found(offset: int, magic: bytes, name: str) -> None:
    """No entry of the table is hidden by one before it."""
    first = bytes(offset) + magic + b"\xff" * 10
    assert (describe(first), foreign(first)) == (name, None)


@pytest.mark.parametrize(("magic", "name"), FOREIGN, ids=[name for _, name in FOREIGN])
def test_captures_of_other_programs_are_named(magic: bytes, name: str) -> None:
    """A capture in a format that is not read is told from what is no capture."""
    first = magic + b"\xff" * 20
    assert (foreign(first), describe(first)) == (name, None)


@pytest.mark.parametrize(
    ("first", "name"),
    [
        (b"  <!DOCTYPE html><title>404", "an HTML page"),
        (b"<html lang=en>", "an HTML page"),
        (b'<?xml version="1.0"?>\n<pdml version="0">', "a PDML file (XML from Wireshark)"),
        (b"<?xml version='1.0'?><feed>", "XML or HTML"),
        (b'{"qlog_version": "0.3", "traces": []}', "a qlog"),
        (b'{"constants":{"activeFieldTrialGroups":[]', "a Chrome NetLog"),
        (b'\xef\xbb\xbf{\n "log": {"version": "1.2", "creator"', "a HAR file"),
        (b'[{"_index": "x", "_source": {"layers"', "JSON from tshark"),
        (b"{}", "JSON"),
        (b"[1]", "JSON"),
        (b"# NSS\nCLIENT_HANDSHAKE_TRAFFIC_SECRET 00 11\n", "a TLS key log (`--keylog FILE` takes it)"),
        (b"CLIENT_RANDOM 00 11\n", "a TLS key log (`--keylog FILE` takes it)"),
        (b"3860:7:version;2:20#4:mode;12:transparent;", "a mitmproxy flow file"),
        (
            b"12:00:00.0 IP 10.0.0.1.443 > 10.0.0.2.55: Flags",
            "text, perhaps what tcpdump prints (`tcpdump -w FILE` records)",
        ),
        (b"hello\tworld\r\n\x1b[31mred", "text"),
        ("Grüße".encode() * 200, "text"),
        ("text of PowerShell".encode("utf-16"), "text"),
        (b"\0" * 40, "nothing but zeros"),
    ],
)
def test_texts_are_told_apart(first: bytes, name: str) -> None:
    """What people give by mistake is named, in whatever encoding, wherever the first bytes are cut."""
    assert describe(first[:LOOKED_AT]) == name


def test_erf_is_guessed() -> None:
    """ERF has no magic number; a record of Ethernet with a time of this century looks like one."""
    record = struct.pack("<IIBB", 0, 1_700_000_000, 2, 4) + struct.pack(">HHH", 80, 0, 60) + bytes(64)
    assert foreign(record) == "perhaps an ERF capture"


@pytest.mark.parametrize("first", [b"\x80" * 512, b"abc\0def", b"\xff\xfe\x00", bytes(range(256))])
def test_the_rest_has_no_name(first: bytes) -> None:
    """Binary data that fits nothing is not called text."""
    assert (describe(first), foreign(first)) == (None, None)
