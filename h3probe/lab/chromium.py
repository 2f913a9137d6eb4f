"""Chromium as a client of the lab: a page asks for the rest, and says what the browser says of each request.

The browser's own word is the Resource Timing entry of each request (`nextHopProtocol`); the page writes it down as
Probe.java does, and `--dump-dom` prints the page.
"""

from __future__ import annotations

import base64
import hashlib
import shutil
import tempfile
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from h3probe.errors import UserError
from h3probe.lab.outcome import parse_outcome
from h3probe.lab.site import PAGES

if TYPE_CHECKING:
    from h3probe.lab.authority import Authority
    from h3probe.lab.clients import Place
    from h3probe.lab.outcome import Outcome
    from h3probe.lab.scenario import Expectation, Scenario

LEARNS: Final = (
    "alt-svc", "alt-svc-other-port", "advertised-and-blocked", "udp-refused", "udp-one-way", "http1-only", "http2-only",
    "packet-loss", "connect-tunnel",
)  # fmt: skip
"""Scenarios in which it goes by Alt-Svc."""
FORCED: Final = ("http3-uri-only", "retry")
"""Those in which it is told to use QUIC and nothing else."""

_FIXED: Final = (
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update",
    "--timeout=60000",
)  # fmt: skip
_NOBODY: Final = "localhost:9"


@dataclass(frozen=True, slots=True)
class ChromiumClient:
    """Chromium, or Chrome.

    Attributes:
        program: Its path.
    """

    program: str

    name = "chromium"
    logs = True
    writes_secrets = True
    trusts_environment = False

    def expects(self, scenario: Scenario) -> Expectation | None:  # noqa: ARG002 - the protocol's
        """What a browser does is its own affair."""
        return None

    def obstacle(self, scenario: Scenario) -> str:
        """That it has nothing to do with it."""
        return "" if scenario.name in (*LEARNS, *FORCED) else "it is not for Chromium"

    def argv(self, scenario: Scenario, place: Place) -> list[str]:
        """One browser with a profile of its own, and a page that asks for as much as the scenario does.

        Over QUIC it takes a certificate that the world does not know only from hosts that it is told to use QUIC with,
        whatever their port; so it is told that of a port that nobody asks for.
        """
        origin = urlsplit(place.url).netloc
        argv = [self.program, *_FIXED, f"--user-data-dir={tempfile.mkdtemp(dir=place.authority.ca_file.parent)}"]
        argv.append(f"--ignore-certificate-errors-spki-list={_key_hash(place.authority)}")
        argv.append(f"--origin-to-force-quic-on={origin if scenario.name in FORCED else _NOBODY}")
        if place.proxy_port:
            argv += [f"--proxy-server=http://127.0.0.1:{place.proxy_port}", "--proxy-bypass-list=<-loopback>"]
        if place.log is not None:
            argv.append(f"--log-net-log={place.log}")
        return [*argv, "--dump-dom", f"{place.url.rstrip('/')}{PAGES}{scenario.requests}"]

    def outcome(self, line: str, number: int) -> Outcome | None:  # noqa: ARG002 - the protocol's
        """As the page writes it."""
        return parse_outcome(line)


def _key_hash(authority: Authority) -> str:
    """What it knows the server's certificate by (RFC 7469, 2.4)."""
    from cryptography import x509  # noqa: PLC0415 - loaded where it is used
    from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat  # noqa: PLC0415 - the same

    certificate = x509.load_pem_x509_certificate(authority.cert_file.read_bytes())
    key = certificate.public_key().public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
    return base64.b64encode(hashlib.sha256(key).digest()).decode("ascii")


def find_chromium() -> ChromiumClient:
    """Find it on PATH.

    Raises:
        UserError: It is not there.
    """
    program = next(filter(None, map(shutil.which, ("chromium", "google-chrome", "chromium-browser"))), None)
    if program is None:
        raise UserError("no chromium on PATH")
    return ChromiumClient(program)
