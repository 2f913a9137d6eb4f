from __future__ import annotations

import os
import subprocess
import sys

from h3probe.vantage.isolate import enter
from tests.vantage.conftest import needs_root


@needs_root
def test_it_becomes_the_program_in_another_network_as_another_user() -> None:
    """The namespace of a descriptor is joined, the identity taken on, and the process id stays."""
    before = os.open("/proc/thread-self/ns/net", os.O_RDONLY)
    os.unshare(os.CLONE_NEWNET)
    network = os.open("/proc/thread-self/ns/net", os.O_RDONLY)
    os.setns(before, os.CLONE_NEWNET)
    script = "echo $$; readlink /proc/self/ns/net; id -u; id -g; id -G"
    argv = [sys.executable, "-I", "-S", enter.__file__, str(network), "-1", "12345:12346:12346,12347"]
    with subprocess.Popen(
        [*argv, "/bin/sh", "-c", script], pass_fds=[network], stdout=subprocess.PIPE, text=True
    ) as process:
        said, _ = process.communicate(timeout=10)
    expected = [str(process.pid), f"net:[{os.fstat(network).st_ino}]", "12345", "12346", "12346 12347"]
    os.close(network)
    os.close(before)
    assert said.splitlines() == expected
