"""Runs a command in an isolation, as `h3probe watch --isolate` does, and tells what it saw.

    drive_isolate.py SPEC -- COMMAND...

SPEC is JSON with the fields of `IsolateSpec`. The last line of standard error is a JSON object: `pid` (the command's,
as seen from outside), `notes`, `ready_s`, `uplink`, `frames` (how many packets were seen) and `sent_to` (the
addresses and UDP ports that datagrams went to). The exit status is the command's; SIGINT and SIGTERM are passed on.
"""

from __future__ import annotations

import json
import signal
import socket
import sys
import time
from typing import Any

from h3probe.errors import UserError
from h3probe.vantage.isolate.isolation import Isolation
from h3probe.vantage.isolate.spec import IsolateSpec

_OUTGOING = 4
_UDP = 17


def read_spec(text: str) -> IsolateSpec:
    """Read SPEC."""
    given: dict[str, Any] = json.loads(text)
    for name in ("block_udp", "reject_ports"):
        if given.get(name) is not None:
            given[name] = frozenset(given[name])
    return IsolateSpec(**given)


def look(packets: socket.socket) -> tuple[int, list[str]]:
    """Read what waits."""
    frames, sent_to = 0, set()
    while True:
        try:
            data, address = packets.recvfrom(65536)
        except BlockingIOError:
            return frames, sorted(sent_to)
        frames += 1
        if address[2] == _OUTGOING and data[12:14] == b"\x08\x00" and data[23] == _UDP:
            sent_to.add(f"{socket.inet_ntoa(data[30:34])}:{int.from_bytes(data[36:38])}")


def main() -> int:
    """Run the command."""
    began = time.monotonic()
    with Isolation(read_spec(sys.argv[1])) as isolation, isolation.packet_socket() as packets:
        packets.setblocking(False)
        with isolation.command(sys.argv[3:]) as command:
            for number in (signal.SIGINT, signal.SIGTERM):
                signal.signal(number, lambda number, _: command.forward(number))
            print(f"started {command.pid}", file=sys.stderr, flush=True)
            while (status := command.wait(0.1)) is None:
                isolation.poll()
        frames, sent_to = look(packets)
        told = {"pid": command.pid, "notes": isolation.notes, "ready_s": isolation.ready_s, "frames": frames}
        told |= {"sent_to": sent_to, "uplink": isolation.uplink.name, "took_s": time.monotonic() - began}
        print(json.dumps(told), file=sys.stderr, flush=True)
    return status


if __name__ == "__main__":
    try:
        sys.exit(main())
    except UserError as error:
        print(f"h3probe: {error}", file=sys.stderr)
        sys.exit(error.exit_status)
