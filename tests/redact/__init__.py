"""Tests of `h3probe.redact`."""
