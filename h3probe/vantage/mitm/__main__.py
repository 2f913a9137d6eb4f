"""mitmdump, in a process of h3probe's own: `python -m h3probe.vantage.mitm [mitmdump's arguments]`."""

from __future__ import annotations

import sys
from contextlib import suppress

from mitmproxy.tools.main import mitmdump


def main() -> None:
    """Run mitmdump with as many open files as the system allows: each tunnel takes two."""
    with suppress(ImportError, OSError, ValueError):
        import resource  # noqa: PLC0415 - there is none on Windows

        _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    mitmdump(sys.argv[1:])


if __name__ == "__main__":
    main()
