"""From a byte stream to the reader for its format."""

from __future__ import annotations

from typing import TYPE_CHECKING

from h3probe.capture import compressed, magic, pcap, pcapng
from h3probe.capture.reader import MAX_BLOCK, CaptureReader
from h3probe.capture.window import Window, reading, reading_into
from h3probe.errors import CaptureError

if TYPE_CHECKING:
    from typing import BinaryIO


def read_capture(stream: BinaryIO, *, name: str = "the capture", limit: int = MAX_BLOCK) -> CaptureReader:
    """Read a pcap or pcapng capture, which gzip, zstd, xz or bzip2 may have compressed, from a stream as it comes.

    The file header is read before this returns; the rest when the reader is iterated, and never more than the
    next record needs, so that a pipe's packets appear as soon as they are there.

    Args:
        stream: Anything with `read1(n)` or, if that does not wait for all n bytes, `read(n)`; never seeked.
            `close` of the reader closes it.
        name: What messages call it.
        limit: The largest record that is believed, in bytes; a larger one ends the reading.

    Raises:
        CaptureError: It is no capture; the message says what it is, where that can be told.
    """
    window = Window(reading(stream), into=reading_into(stream))
    # Six bytes name every format; none is shorter, and more may be long in coming.
    window.need(6)
    kind = compressed.compression(window.data)
    if kind is not None:
        window = Window(compressed.Decompressed(kind, reading(stream), window.data).read)
        window.need(6)
    reader = _reader(window, name, limit)
    reader.compression = kind
    reader.stream = stream
    return reader


def _reader(window: Window, name: str, limit: int) -> CaptureReader:
    first = window.data[:4]
    if first in pcap.MAGICS:
        return pcap.PcapReader(window, name=name, limit=limit)
    if first == pcapng.MAGIC:
        return pcapng.PcapngReader(window, name=name, limit=limit)
    window.need(magic.LOOKED_AT)
    if window.fault:
        raise CaptureError(f"{name} cannot be read: {window.fault}")
    if not window.data:
        raise CaptureError(f"{name} is empty")
    first = window.data[: magic.LOOKED_AT]
    other = magic.foreign(first)
    if other is not None:
        raise CaptureError(f"{name} is {other}: h3probe reads pcap and pcapng (Wireshark's `editcap` converts it)")
    what = magic.describe(first)
    is_what = f"is {what}, not a capture" if what else "is no capture"
    raise CaptureError(f"{name} {is_what}: h3probe reads pcap and pcapng")
