"""Names for files that are no capture h3probe reads, so that the one line of refusal can say what they are."""

from __future__ import annotations

from codecs import getincrementaldecoder

FOREIGN: tuple[tuple[bytes, str], ...] = (
    (b"snoop\0\0\0", "a snoop capture (Solaris)"),
    (b"GMBU", "a Microsoft Network Monitor capture"),
    (b"RTSS", "a Microsoft Network Monitor 1 capture"),
    (b"btsnoop\0", "a Bluetooth capture (btsnoop)"),
    (b"TRSNIFF data    \x1a", "a Network General Sniffer capture"),
    (b"XCP\0", "a NetXray or Sniffer capture"),
    (b"\x7fver", "an OmniPeek capture"),
    (b"\x05VNF", "a Visual Networks capture"),
    (b"\xaa\xaa\xaa\xaa", "an InfoVista 5View capture"),
    (b"\x01\x10\x4c\x00\x01\x05", "a Novell LANalyzer capture"),
    (b"iptrace ", "an AIX iptrace capture"),
    (b"ObserverPktBuffe", "a Network Instruments Observer capture"),
    (b"\x54\x52\x00\x64\x00", "an HP-UX nettl capture"),
    (b"\x00\x00\x02\x00\x12\x05\x00\x10", "a Tektronix K12 capture"),
)
"""(bytes that a capture in another format starts with, name)."""

MAGICS: tuple[tuple[int, bytes, str], ...] = (
    (0, b"\r\n\r\r\r\n", "a pcapng file that a transfer in text mode has damaged"),
    # Things wrapped around a capture.
    (0, b"\x1f\x8b", "gzip data"),
    (0, b"\x28\xb5\x2f\xfd", "zstd data"),
    (0, b"\xfd7zXZ\x00", "xz data"),
    (0, b"BZh", "bzip2 data"),
    (0, b"\x04\x22\x4d\x18", "LZ4 data (`lz4 -dc FILE | h3probe explain -` reads it)"),
    (0, b"LZIP", "lzip data"),
    (0, b"\x1f\x9d", "data of Unix compress"),
    (0, b"PK\x03\x04", "a ZIP archive"),
    (0, b"7z\xbc\xaf\x27\x1c", "a 7z archive"),
    (0, b"Rar!", "a RAR archive"),
    (257, b"ustar", "a tar archive"),
    (0, b"version https://git-lfs", "a Git LFS pointer instead of the file itself"),
    # What else gets picked by mistake.
    (0, b"\x7fELF", "an ELF program"),
    (0, b"MZ", "a Windows program"),
    (0, b"\xcf\xfa\xed\xfe", "a macOS program"),
    (0, b"\xca\xfe\xba\xbe", "a Java class or a macOS program"),
    (0, b"LPKSHHRH", "a systemd journal"),
    (0, b"SQLite format 3\0", "an SQLite database"),
    (0, b"%PDF", "a PDF document"),
    (0, b"\x89PNG", "a PNG picture"),
    (0, b"\xff\xd8\xff", "a JPEG picture"),
    (0, b"\x1e{", "a qlog (JSON text sequence)"),
)
"""(offset, bytes that stand there, name)."""

TEXTS: tuple[tuple[bytes, bytes, str], ...] = (
    (b"<!doctype html", b"", "an HTML page"),
    (b"<html", b"", "an HTML page"),
    (b"<?xml", b"<pdml", "a PDML file (XML from Wireshark)"),
    (b"<", b"", "XML or HTML"),
    (b"{", b'"qlog_version"', "a qlog"),
    (b"{", b'"constants"', "a Chrome NetLog"),
    (b"{", b'"log"', "a HAR file"),
    (b"[", b'"_source"', "JSON from tshark"),
    (b"{", b"", "JSON"),
    (b"[", b"", "JSON"),
    (b"", b"client_handshake_traffic_secret ", "a TLS key log (`--keylog FILE` takes it)"),
    (b"", b"client_random ", "a TLS key log (`--keylog FILE` takes it)"),
    (b"", b"7:version;", "a mitmproxy flow file"),
    (b"", b" > ", "text, perhaps what tcpdump prints (`tcpdump -w FILE` records)"),
    (b"", b"", "text"),
)
"""(how the text starts, what its beginning has in it, name), in lower case; the first that fits."""

LOOKED_AT = 512
"""How many bytes from the start decide, at most."""


def foreign(first: bytes) -> str | None:
    """Which other format of captures a file has that starts with these bytes, with its article; None for none."""
    for magic, name in FOREIGN:
        if first.startswith(magic):
            return name
    return "perhaps an ERF capture" if describe(first) is None and _looks_like_erf(first) else None


def describe(first: bytes) -> str | None:
    """What a file is that starts with these bytes, and is no capture, with its article; None if they tell nothing."""
    for offset, magic, name in MAGICS:
        if first.startswith(magic, offset):
            return name
    if not first.strip(b"\0"):
        return "nothing but zeros"
    text = _text(first)
    if text is not None:
        return next(name for start, part, name in TEXTS if text.startswith(start) and part in text)
    return None


def _text(first: bytes) -> bytes | None:
    """The bytes in lower case, without leading white space, if they are text in UTF-8 or UTF-16."""
    encoding = "utf-16" if first[:2] in (b"\xff\xfe", b"\xfe\xff") else "utf-8-sig"
    try:
        # Incrementally, as the last character may be cut.
        text = getincrementaldecoder(encoding)().decode(first)
    except UnicodeDecodeError:
        return None
    # ANSI colours are text too: a terminal's output that was saved.
    if not text or any(character < " " and character not in "\t\n\r\f\b\x1b" for character in text):
        return None
    return text.lstrip().lower().encode()


def _looks_like_erf(first: bytes) -> bool:
    """ERF has no magic number: a record is time (64 bits, little endian), type, flags, length (16 bits), ..."""
    seconds, kind, length = int.from_bytes(first[4:8], "little"), first[8:9], int.from_bytes(first[10:12], "big")
    return (
        946_684_800 < seconds < 2_208_988_800 and kind in (b"\x01", b"\x02", b"\x82") and 18 <= length < len(first) * 8
    )
