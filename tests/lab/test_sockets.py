from __future__ import annotations

import asyncio
import contextlib
import os
import subprocess
import sys

import pytest

from h3probe.lab.sockets import Counter

CODE = """
import socket, sys
open("/proc/self/comm", "w").write("sockets-of-mine")  # other tests leave children of the same program behind
kept = [socket.socket(socket.AF_INET, socket.SOCK_DGRAM) for _ in range(7)]
for each in kept:
    each.bind(("127.0.0.1", 0))
print("ready", flush=True)
sys.stdin.read()
"""


@pytest.mark.skipif(sys.platform != "linux", reason="/proc names the child")
def test_counts_the_sockets_of_a_child() -> None:
    """UDP sockets and descriptors of the process with the name are counted, and of nobody else."""

    async def look(counter: Counter) -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(1):
                await counter.count()

    with subprocess.Popen([sys.executable, "-c", CODE], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == b"ready\n"
        counter = Counter(os.getpid(), "sockets-of-mine")
        asyncio.run(look(counter))
        child.communicate(b"")
    assert counter.most is not None
    assert counter.most.udp_sockets == 7
    assert counter.most.descriptors >= 10


def test_without_such_a_process_there_is_no_count() -> None:
    """Nothing is made up where nobody with the name runs."""

    async def look(counter: Counter) -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(0.2):
                await counter.count()

    counter = Counter(os.getpid(), "no-such-program")
    asyncio.run(look(counter))
    assert counter.most is None
