"""Tests that drive real programs, each in a network namespace of its own."""
