"""File formats: pcap and pcapng, plain or compressed, read from byte streams handed in and written to them."""

from h3probe.capture.detect import read_capture
from h3probe.capture.pcapng_write import PcapngWriter
from h3probe.capture.reader import CaptureReader

__all__ = ["CaptureReader", "PcapngWriter", "read_capture"]
