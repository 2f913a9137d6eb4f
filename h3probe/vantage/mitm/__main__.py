"""mitmdump, in a process of h3probe's own: `python -m h3probe.vantage.mitm [--become=UID:GID:NAME] [mitmdump's...]`."""

from __future__ import annotations

import sys
from contextlib import suppress

from h3probe.vantage import privileges
from h3probe.vantage.mitm.settings import taken_user


def main() -> None:
    """Run mitmdump with as many open files as the system allows: each tunnel takes two."""
    with suppress(ImportError, OSError, ValueError):
        import resource  # noqa: PLC0415 - there is none on Windows

        _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    arguments = sys.argv[1:]
    user = taken_user(arguments)
    if user is not None:
        privileges.drop(user)
    from mitmproxy.tools.main import mitmdump  # noqa: PLC0415 - not as root

    mitmdump(arguments)


if __name__ == "__main__":
    main()
