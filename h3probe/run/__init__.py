"""Runs: a vantage point, the engine and the output, wired together."""
