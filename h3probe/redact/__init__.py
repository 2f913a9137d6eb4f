"""Takes names, addresses and credentials out of packets and records, and leaves what a diagnosis looks at.

Sans-IO: frames in, frames of the same length out. Everything is replaced by something of exactly its own length and
shape, so that no length, offset or sequence number changes; checksums and protection are made anew.
"""

from h3probe.redact.mapping import Mapping
from h3probe.redact.redactor import Redactor

__all__ = ["Mapping", "Redactor"]
