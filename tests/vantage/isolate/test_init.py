from __future__ import annotations

import json
import socket
import subprocess
import sys
from pathlib import Path

import pytest

if sys.platform != "linux":
    pytest.skip("what only Linux has", allow_module_level=True)

import h3probe
from h3probe.vantage.isolate.isolation import _BOOT

ROOT = str(Path(h3probe.__file__).parents[1])


def test_it_ends_when_whoever_started_it_is_gone() -> None:
    """A parent that is another process than the plan says has ended meanwhile: nothing is set up, nothing said."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    argv = [sys.executable, "-I", "-S", "-c", _BOOT, ROOT, str(theirs.fileno())]
    with ours, subprocess.Popen(argv, pass_fds=[theirs.fileno()]) as process:
        theirs.close()
        ours.send(json.dumps({"parent": 1, "user_namespace": False}).encode())
        said = ours.recv(4096)
        process.wait(10)
    # Without root the namespace of processes is refused before, and that is said.
    assert said == b"" or json.loads(said)["failed"] == "pid namespace"


def test_it_imports_little() -> None:
    """Its start is the command's delay: none of what is slow to import is."""
    code = f"import sys; sys.path.insert(0, {ROOT!r}); import h3probe.vantage.isolate.init; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-I", "-S", "-c", code], capture_output=True, text=True, check=True)
    modules = set(done.stdout.split())
    assert not modules & {"asyncio", "dataclasses", "inspect", "pathlib", "subprocess", "tempfile", "h3probe.errors"}
