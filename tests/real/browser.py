"""Chromium in a lab: a page that asks for one URL after the other."""

import base64
import hashlib
import json
import subprocess
import sys
from collections.abc import Sequence

from .parts import ADVERTISED, Lab
from .watching import H3PROBE, Watched

SET_UP = "Chromium is missing: sudo scripts/real-parts chromium"
SILENT = 9000
"""A port that takes connections and says nothing: a page is not loaded before that one's answer is given up."""

PAGE = """<body><img id=waits src="http://127.0.0.1:{silent}/"><script>
const urls = {urls};
function next() {{
  const url = urls.shift();
  if (!url) {{ waits.src = "data:,"; return; }}
  const image = new Image();
  image.onload = image.onerror = () => setTimeout(next, {pause_ms});
  image.src = url;
}}
next();
</script>"""
"""Asks for URLs one after the other; loaded when the last one has an answer."""


class Browser:
    """Chromium in a lab, which asks for pages of the lab's server one after the other."""

    def __init__(self, lab: Lab) -> None:
        self.lab = lab
        self._key_hash = _key_hash(lab)
        silence = f"import socket, time; s = socket.create_server(('127.0.0.1', {SILENT})); time.sleep(600)"
        lab.netns.start([sys.executable, "-c", silence], cwd=lab.folder, stderr=subprocess.DEVNULL)

    def command(self, *options: str, requests: int = 3, pause_ms: int = 300, forced: int = 9) -> list[str]:
        """Give its command line; `forced` is the port that is asked over QUIC alone, by default none that is used.

        Only the hosts of that option may have a certificate over QUIC that the world does not know.
        """
        urls = json.dumps([f"https://localhost:{ADVERTISED}/{number}" for number in range(requests)])
        page = PAGE.format(silent=SILENT, urls=urls, pause_ms=pause_ms)
        (self.lab.folder / "page.html").write_text(page)
        fixed = ["--headless", "--no-sandbox", "--disable-gpu", "--user-data-dir=/tmp/profile", "--timeout=60000"]
        trust = f"--ignore-certificate-errors-spki-list={self._key_hash}"
        force = f"--origin-to-force-quic-on=localhost:{forced}"
        return ["chromium", *fixed, trust, force, *options, "--dump-dom", "file:///lab/page.html"]

    def watched(self, watch: Sequence[str], command: Sequence[str], *, uid: int = 0) -> Watched:
        """Run it under `h3probe watch`, both among the real parts, as root or somebody else."""
        argv = ["env", "PYTHONDONTWRITEBYTECODE=1", *H3PROBE, "watch", "--json", *watch, "--", *command]
        return Watched.of(self.lab.run_here(self.lab.parts.as_user(argv, uid=uid)), self.lab.folder)


def _key_hash(lab: Lab) -> str:
    """What Chromium knows the lab's certificate by (RFC 7469, 2.4)."""
    pem = lab.folder / "server.pem"
    key = subprocess.run(["openssl", "x509", "-in", pem, "-pubkey", "-noout"], capture_output=True, check=True).stdout
    body = b"".join(line for line in key.splitlines() if not line.startswith(b"-"))
    return base64.b64encode(hashlib.sha256(base64.b64decode(body)).digest()).decode()
