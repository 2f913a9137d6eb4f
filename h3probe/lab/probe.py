"""The built-in client as a program of its own, for `h3probe watch -- COMMAND`: what Probe.java is for Java.

python -m h3probe.lab.probe https://localhost:4433/ alt-svc 3 --ca ca.pem
"""

from __future__ import annotations

import argparse
import asyncio
import os
from pathlib import Path

from h3probe.lab.client import Client, Policy, Timeouts
from h3probe.lab.outcome import write_outcome

_SETTLE_S = 0.5
"""After the connections have ended, for the network to change."""


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m h3probe.lab.probe")
    parser.add_argument("url")
    parser.add_argument("policy", choices=list(Policy), type=Policy)
    parser.add_argument("requests", type=int)
    parser.add_argument("--ca", type=Path, help="the authority to trust, PEM; else $SSL_CERT_FILE")
    parser.add_argument("--proxy", type=int, default=0, help="port of an HTTP proxy on 127.0.0.1")
    parser.add_argument("--timeout", type=float, help="seconds that it waits for an alternative")
    parser.add_argument("--disconnect-after", type=int, default=0, help="close all connections after this request")
    return parser.parse_args()


async def _run(given: argparse.Namespace) -> None:
    timeouts = Timeouts() if given.timeout is None else Timeouts(advertised=given.timeout)
    proxy = ("127.0.0.1", given.proxy) if given.proxy else None
    ca_file = given.ca or Path(os.environ["SSL_CERT_FILE"])
    async with Client(given.policy, ca_file, proxy=proxy, timeouts=timeouts) as client:
        for number in range(1, given.requests + 1):
            outcome = await client.get(given.url)
            if number == given.disconnect_after:
                await client.disconnect()
            print(write_outcome(outcome), flush=True)  # noqa: T201 - what it is for
            if number == given.disconnect_after:
                await asyncio.sleep(_SETTLE_S)


if __name__ == "__main__":
    asyncio.run(_run(_arguments()))
