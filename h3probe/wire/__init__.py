"""Bytes to facts: decoders without sockets, files or clocks."""
