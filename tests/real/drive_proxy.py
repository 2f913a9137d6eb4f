"""Runs a command through h3probe's proxy, in the network and the folder it is started in.

    drive_proxy.py SPEC -- COMMAND...

SPEC is JSON: `listen` or `reverse` (as on the command line), and perhaps `upstream`, `intercept`, `intercept_all`,
`kind`. What came of it is printed as one JSON object: `events`, `set` (what was handed to the command), `said` (its
standard output, lines), `complained` (its standard error, lines), `exit`.
"""

import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from h3probe.events import ProxyReady, Unreadable
from h3probe.vantage.proxy import Proxy
from h3probe.vantage.proxy_events import format_event
from h3probe.vantage.proxy_settings import proxy_environment
from h3probe.vantage.proxy_spec import ProxySpec, parse_proxy, parse_reverse, parse_upstream
from h3probe.vantage.proxy_trust import Trust, make_trust

# Connections end a little after the command that had them.
LINGER_S = 0.5
INSIDE = Path("/lab")


def read_spec(text: str) -> tuple[ProxySpec, dict[str, Any]]:
    """Read SPEC."""
    given = json.loads(text)
    intercept = () if given.get("intercept_all") else given.get("intercept")
    spec = ProxySpec(
        listen=parse_proxy(given["listen"]) if "listen" in given else None,
        reverse=(parse_reverse(given["reverse"]),) if "reverse" in given else (),
        upstream=parse_upstream(given["upstream"]) if "upstream" in given else None,
        intercept=None if intercept is None else tuple(intercept),
        upstream_ca=Path("ca.pem").resolve(),
    )
    return spec, given


def inside(trust: Trust, folder: Path) -> Trust:
    """The same files as the real programs see them, in their root."""
    return Trust(*(INSIDE / path.relative_to(folder) for path in (trust.ca_file, trust.bundle, trust.trust_store)))


def main() -> None:
    """Run the command, and print what came of it."""
    spec, given = read_spec(sys.argv[1])
    command, here = sys.argv[3:], Path.cwd()
    with Proxy(spec, folder=here / "proxy") as proxy:
        trust = None if spec.intercept is None else inside(make_trust(proxy.folder, spec.upstream_ca), here)
        environment: dict[str, str] | None = None
        lines: list[str] = []
        if spec.listen is not None:
            environment, lines = proxy_environment(given.get("kind", "unknown"), proxy.addresses[0], trust=trust)
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
        time.sleep(LINGER_S)
        events = [*proxy.events(), *proxy.stop()]
    result = {
        "events": [json.loads(format_event(e)) for e in events if not isinstance(e, ProxyReady | Unreadable)],
        "set": lines,
        "said": done.stdout.splitlines(),
        "complained": done.stderr.splitlines(),
        "exit": done.returncode,
    }
    print(json.dumps(result))  # noqa: T201 - a program


if __name__ == "__main__":
    main()
