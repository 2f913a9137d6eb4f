"""`watch --keylog`: a command's secrets are read while it writes them, and open the same packets again afterwards."""

import shlex
import sys
from collections.abc import Sequence

import pytest

from .parts import ADVERTISED, HTTP1, Lab, curl, java
from .watching import H3PROBE, Record, Watched

URL = f"https://localhost:{ADVERTISED}/some/path?token=secret"
PYTHON = (
    "import ssl, urllib.request; context = ssl.create_default_context(cafile='ca.pem'); "
    f"print('1.1', urllib.request.urlopen('https://localhost:{HTTP1}/some/path?token=secret', context=context).status)"
)
COMMANDS = {
    "HTTP/3": curl(URL, "--http3-only"),
    "HTTP/2": curl(URL, "--http2"),
    "HTTP/2, TLS 1.2": curl(URL, "--http2", "--tls-max", "1.2"),
    "HTTP/1.1": curl(URL, "--http1.1"),
    "HTTP/1.1, Python": [sys.executable, "-c", PYTHON],
}
STATUS = "http2.headers.status or http3.headers.status or http.response"


def watch(lab: Lab, options: Sequence[str], command: Sequence[str]) -> Watched:
    """Run h3probe among the real parts, so that both it and the command have the same files."""
    argv = ["env", "PYTHONDONTWRITEBYTECODE=1", *H3PROBE, "watch", "--json", *options, "--", *command]
    return Watched.of(lab.run_here(lab.parts.as_user(argv, uid=0)), lab.folder)


def told(exchange: Record) -> tuple[object, ...]:
    """What an exchange says, but for what another run may number in another way."""
    return tuple(exchange[name] for name in ("url", "version", "status", "known_from", "took"))


@pytest.mark.parametrize("name", COMMANDS)
def test_live_and_again_from_the_file(lab: Lab, name: str) -> None:
    """Version and status are the client's own, live and from the capture, in which tshark finds them as well."""
    seen = watch(lab, ["--keylog", "keys.log", "-w", "trace.pcapng"], COMMANDS[name])
    only = seen.one("exchange")
    said = next(line.split()[:2] for line in seen.said if line[:1].isdigit())
    version = {"3": "HTTP/3", "2": "HTTP/2", "1.1": "HTTP/1.1"}[said[0]]
    assert version == name.partition(",")[0]
    assert (only["version"], only["status"], only["known_from"]) == (version, int(said[1]), "decrypted")
    assert only["url"].endswith("/some/path?token=…")
    for file in ("keys.log", "trace.pcapng"):
        assert (lab.folder / file).stat().st_mode & 0o777 == 0o600
    again = Watched.of(lab.run_here([*H3PROBE, "explain", "--json", "trace.pcapng"]), lab.folder)
    assert told(again.one("exchange")) == told(only)
    assert again.one("verdict")["sentence"] == seen.one("verdict")["sentence"]
    ports = [argument for port in (ADVERTISED, HTTP1) for argument in ("-d", f"tcp.port=={port},tls")]
    found = lab.run(["tshark", "-r", "trace.pcapng", *ports, "-Y", STATUS, "-T", "fields", "-e", "frame.number"])
    assert len(found.stdout) == 1


def test_without_the_wish_no_secret_is_written(lab: Lab) -> None:
    """A command that is only watched is told of no file, and the capture holds nothing that opens it."""
    script = f'echo "${{SSLKEYLOGFILE-none}}"; exec {shlex.join(COMMANDS["HTTP/2"])}'
    seen = watch(lab, ["-w", "trace.pcapng"], ["sh", "-c", script])
    assert "none" in seen.said
    assert seen.all("exchange") == []
    assert b"TRAFFIC_SECRET" not in (lab.folder / "trace.pcapng").read_bytes()
    assert not (lab.folder / "keys.log").exists()


def test_java_has_no_key_log(lab: Lab) -> None:
    """That is said, no file is made, and the run goes on as without."""
    seen = watch(lab, ["--keylog", "keys.log"], java(URL, "none"))
    assert seen.exit == 0
    assert any("Java writes no key log" in line for line in seen.said)
    assert not (lab.folder / "keys.log").exists()
