"""What the relay costs: a real curl that fetches 64 MiB from a real nginx, directly and through `watch --relay`.

    sudo scripts/real-parts && sudo .venv/bin/python -m benchmarks.relay [ROUNDS]

Over HTTP/2 and over HTTP/3, by turns in one run, in a network namespace of its own whose loopback has Ethernet's MTU.
Both ways share the machine's processors with client and server. The ratio is the one of the medians.
"""

from __future__ import annotations

import shutil
import statistics
import sys
import tempfile
import time
from pathlib import Path

from tests.real.netns import Netns
from tests.real.parts import SET_UP, RealParts, curl

ROUNDS = 7
SIZE = 64 << 20
SERVER, RELAY = 4433, 5433
READY_S = 15.0
CONF = f"""
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
VERSIONS = {"HTTP/2": "--http2", "HTTP/3": "--http3-only"}
H3PROBE = [sys.executable, "-P", "-m", "h3probe"]


def _fetch(parts: RealParts, netns: Netns, folder: Path, port: int, option: str) -> float:
    """Fetch the file once; give MiB per second, by curl's own clock."""
    argv = curl(f"https://localhost:{port}/big", option, "-4")
    done = netns.run(parts.command(argv), cwd=folder, timeout=300)
    if done.returncode or not done.stdout:
        raise RuntimeError(done.stderr)
    return SIZE / (1 << 20) / float(done.stdout.split()[2])


def _wait(parts: RealParts, netns: Netns, folder: Path, port: int) -> None:
    """Wait until HTTP/3 is served on a port."""
    deadline = time.monotonic() + READY_S
    while True:
        try:
            _fetch(parts, netns, folder, port, "--http3-only")
        except RuntimeError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.2)
        else:
            return


def main() -> None:
    """Measure, and print each way's median and the ratio."""
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else ROUNDS
    parts = RealParts.find()
    if parts is None:
        sys.exit(SET_UP)
    with tempfile.TemporaryDirectory() as name, Netns("relay-benchmark") as netns:
        folder = Path(name)
        shutil.copytree(parts.folder / "lab", folder, dirs_exist_ok=True)
        (folder / "files").mkdir()
        (folder / "files" / "big").write_bytes(bytes(SIZE))
        folder.chmod(0o755)
        (folder / "nginx.conf").write_text(CONF)
        spec = f"127.0.0.1:{RELAY}=127.0.0.1:{SERVER}"
        nginx = ["nginx", "-p", "/lab", "-e", "stderr", "-c", "nginx.conf"]
        with (folder / "log").open("w") as log:
            netns.start(parts.command(nginx), cwd=folder, stderr=log)
            netns.start([*H3PROBE, "watch", "--relay", spec], cwd=folder, stderr=log)
        for port in (SERVER, RELAY):
            _wait(parts, netns, folder, port)
        rates: dict[tuple[str, int], list[float]] = {}
        for _ in range(rounds):
            for version, option in VERSIONS.items():
                for port in (SERVER, RELAY):
                    rates.setdefault((version, port), []).append(_fetch(parts, netns, folder, port, option))
    for version in VERSIONS:
        direct, relayed = (statistics.median(rates[version, port]) for port in (SERVER, RELAY))
        print(f"{version}  direct {direct:7.1f} MiB/s  relay {relayed:7.1f} MiB/s  ratio {relayed / direct:.2f}")


if __name__ == "__main__":
    main()
