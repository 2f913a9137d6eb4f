"""h3probe says which HTTP version each request really used, and why it was not HTTP/3."""

__version__ = "0.1.0"
