"""Runs a command in an isolation, as `h3probe watch --isolate` does, and tells what it saw.

    drive_isolate.py SPEC -- COMMAND...

SPEC is JSON with the fields of `IsolateSpec`, and perhaps `intercept`, and `middle`: a program to run in the middle.
The last line of standard error is a JSON object: `pid` (the command's, as seen from outside), `notes`, `ready_s`,
`uplink`, `frames` (how many packets were seen), `sent_to` (the addresses and UDP ports that datagrams went to) and
`uplink_ended`. The exit status is the command's; SIGINT and SIGTERM are passed on.
"""

from __future__ import annotations

import json
import signal
import socket
import subprocess
import sys
import time
from contextlib import ExitStack
from typing import Any

from h3probe.errors import UserError
from h3probe.vantage.isolate.isolation import Isolation
from h3probe.vantage.isolate.spec import IsolateSpec

_OUTGOING = 4
_UDP = 17


def read_spec(given: dict[str, Any]) -> IsolateSpec:
    """Read SPEC."""
    for name in ("block_udp", "reject_ports"):
        if given.get(name) is not None:
            given[name] = frozenset(given[name])
    return IsolateSpec(**given)


def look(packets: socket.socket) -> tuple[int, list[str]]:
    """Read what waits."""
    frames = 0
    sent_to: set[str] = set()
    while True:
        try:
            data, address = packets.recvfrom(65536)
        except BlockingIOError:
            return frames, sorted(sent_to)
        frames += 1
        if address[2] == _OUTGOING and data[12:14] == b"\x08\x00" and data[23] == _UDP:
            sent_to.add(f"{socket.inet_ntoa(data[30:34])}:{int.from_bytes(data[36:38])}")


def tell(line: str) -> None:
    """Write a line to standard error at once."""
    sys.stderr.write(f"{line}\n")
    sys.stderr.flush()


def main() -> int:
    """Run the command."""
    began = time.monotonic()
    given = json.loads(sys.argv[1])
    middle, intercept = given.pop("middle", None), given.pop("intercept", False)
    with ExitStack() as stack:
        isolation = stack.enter_context(Isolation(read_spec(given), intercept=intercept))
        packets = stack.enter_context(isolation.packet_sockets()[0])
        packets.setblocking(False)
        if middle is not None:
            argv = isolation.enter_middle(middle)
            helper = subprocess.Popen(argv, pass_fds=isolation.middle_descriptors, stdout=subprocess.PIPE)
            stack.callback(helper.kill)
            assert helper.stdout is not None
            assert helper.stdout.readline() == b"ready\n"
        command = stack.enter_context(isolation.command(sys.argv[3:]))
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, lambda number, _: command.forward(number))
        tell(f"started {command.pid}")
        ended = None
        while (status := command.wait(0.1)) is None:
            ended = isolation.poll() if ended is None else ended
        frames, sent_to = look(packets)
        told = {"pid": command.pid, "notes": isolation.notes, "ready_s": isolation.ready_s, "frames": frames}
        told |= {"sent_to": sent_to, "uplink": isolation.uplink.name, "uplink_ended": ended}
        tell(json.dumps(told | {"took_s": time.monotonic() - began}))
    return status


if __name__ == "__main__":
    try:
        sys.exit(main())
    except UserError as error:
        tell(f"h3probe: {error}")
        sys.exit(error.exit_status)
