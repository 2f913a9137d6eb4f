"""What the benchmarks on real programs share: nginx with a file of 64 MiB, curl, and a network namespace for both."""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
import time
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING

from tests.real.netns import Netns
from tests.real.parts import SET_UP, RealParts, curl

if TYPE_CHECKING:
    from collections.abc import Iterator

SIZE = 64 << 20
SERVER = 4433
READY_S = 15.0
VERSIONS = {"HTTP/2": "--http2", "HTTP/3": "--http3-only"}
H3PROBE = [sys.executable, "-P", "-m", "h3probe"]
_CONF = f"""
daemon off;
worker_processes 1;
pid /lab/nginx.pid;
error_log stderr crit;
events {{ worker_connections 64; }}
http {{
    access_log off;
    client_body_temp_path /tmp/body;
    proxy_temp_path /tmp/proxy;
    fastcgi_temp_path /tmp/fastcgi;
    uwsgi_temp_path /tmp/uwsgi;
    scgi_temp_path /tmp/scgi;
    server {{
        listen {SERVER} ssl;
        listen {SERVER} quic reuseport;
        http2 on;
        ssl_certificate server.pem;
        ssl_certificate_key server.key;
        root /lab/files;
    }}
}}
"""


@dataclass(frozen=True, slots=True)
class BenchLab:
    """nginx on `SERVER`, in a namespace whose loopback has Ethernet's MTU.

    Attributes:
        parts: The real programs.
        netns: The namespace.
        folder: The folder that the programs see as /lab.
        log: What programs complain into.
    """

    parts: RealParts
    netns: Netns
    folder: Path
    log: IO[str]

    def fetch(self, port: int, option: str) -> float:
        """Fetch the file once with curl; give MiB per second, by curl's own clock.

        Raises:
            RuntimeError: It could not be fetched.
        """
        argv = curl(f"https://localhost:{port}/big", option, "-4")
        done = self.netns.run(self.parts.command(argv), cwd=self.folder, timeout=300)
        if done.returncode or not done.stdout:
            raise RuntimeError(done.stderr)
        return SIZE / (1 << 20) / float(done.stdout.split()[2])

    def wait(self, port: int) -> None:
        """Wait until HTTP/3 is served on a port."""
        deadline = time.monotonic() + READY_S
        while True:
            try:
                self.fetch(port, "--http3-only")
            except RuntimeError:
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.2)
            else:
                return

    def start(self, *options: str, stdout: IO[str] | int = subprocess.DEVNULL) -> subprocess.Popen[str]:
        """Start h3probe with these arguments."""
        return self.netns.start([*H3PROBE, *options], cwd=self.folder, stdout=stdout, stderr=self.log)


@contextmanager
def bench_lab(name: str) -> Iterator[BenchLab]:
    """A lab that is ready, and gone after the block; without the real programs it says how to get them."""
    parts = RealParts.find()
    if parts is None:
        sys.exit(SET_UP)
    with tempfile.TemporaryDirectory() as temporary, Netns(name) as netns:
        folder = Path(temporary)
        shutil.copytree(parts.folder / "lab", folder, dirs_exist_ok=True)
        (folder / "files").mkdir()
        (folder / "files" / "big").write_bytes(bytes(SIZE))
        folder.chmod(0o755)
        (folder / "nginx.conf").write_text(_CONF)
        with (folder / "log").open("w") as log:
            nginx = ["nginx", "-p", "/lab", "-e", "stderr", "-c", "nginx.conf"]
            netns.start(parts.command(nginx), cwd=folder, stderr=log)
            lab = BenchLab(parts, netns, folder, log)
            lab.wait(SERVER)
            yield lab
