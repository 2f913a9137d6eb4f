from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from h3probe.engine import Engine
from h3probe.events import AltSvcSeen, CaRejected, Exchange
from h3probe.lab.authority import Authority, create_authority
from h3probe.lab.client import Policy
from h3probe.lab.servers import SERVERS, Server, running
from h3probe.records import FindingRecord
from h3probe.vantage.proxy_events import parse_event
from h3probe.vantage.proxy_ports import claim
from tests.vantage.proxying import PATIENCE_S, Background, get, say

if TYPE_CHECKING:
    from collections.abc import Iterator

    from h3probe.lab.outcome import Outcome

ADDONS = Path(__file__).parents[2] / "addons"
MITMDUMP = str(Path(sys.executable).with_name("mitmdump"))
CA = "mitmproxy-ca-cert.pem"


class Dump:
    """A plain mitmdump with one of the scripts.

    Attributes:
        port: Where it listens.
        folder: With its authority.
    """

    def __init__(self, port: int, folder: Path) -> None:
        self.port = port
        self.folder = folder


@contextmanager
def mitmdump(folder: Path, authority: Authority, script: str, *options: str, mode: str = "regular") -> Iterator[Dump]:
    """Run mitmdump with a script (or several, apart by spaces) and `--set` options until the end of the block."""
    (host, *_), port = claim("127.0.0.1", 0, udp=True)
    argv = [MITMDUMP, "-q", "--mode", f"{mode}@{host}:{port}"]
    argv += [each for name in script.split() for each in ("-s", str(ADDONS / name))]
    settings = (f"confdir={folder}", f"ssl_verify_upstream_trusted_ca={authority.ca_file}", *options)
    argv += [each for setting in settings for each in ("--set", setting)]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.STDOUT) as process:
        try:
            deadline = time.monotonic() + PATIENCE_S
            while True:
                with suppress(OSError):
                    socket.create_connection((host, port)).close()
                    break
                assert process.poll() is None, process.communicate()
                assert time.monotonic() < deadline
                time.sleep(0.05)
            yield Dump(port, folder)
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait(PATIENCE_S)


@pytest.fixture(scope="module")
def background() -> Iterator[Background]:
    """A loop for servers."""
    with Background() as background:
        yield background


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    """The authority of the lab's servers."""
    return create_authority(tmp_path_factory.mktemp("authority"))


@pytest.fixture(scope="module")
def server(background: Background, authority: Authority) -> Server:
    """A server with all versions of HTTP, and Alt-Svc."""
    return background.enter(running(SERVERS["h3"], authority))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where mitmdump keeps its authority, made once for all tests here."""
    return tmp_path_factory.mktemp("mitmproxy")


def ask(background: Background, dump: Dump, url: str) -> Outcome:
    """Send one request through a mitmdump that terminates TLS."""
    return get(background, url, dump.folder / CA, proxy=dump.port)[0]


def test_log(background: Background, server: Server, authority: Authority, folder: Path, tmp_path: Path) -> None:
    """The log script writes what h3probe's own proxy would report, and leaves Alt-Svc to mitmproxy and its settings."""
    path = tmp_path / "events.ndjson"
    mode = f"reverse:https://localhost:{server.port}"
    with mitmdump(folder, authority, "h3probe_log.py", f"h3probe_out={path}", mode=mode) as dump:
        url = f"https://localhost:{dump.port}/"
        outcomes = get(background, url, folder / CA, policy=Policy.ALT_SVC, count=2)
        assert [outcome.version for outcome in outcomes] == ["HTTP/2", "HTTP/3"]
    lines = path.read_text().splitlines()
    kinds, events = [json.loads(line)["type"] for line in lines], [parse_event(line) for line in lines]
    assert {"proxy_ready", "onward_connection", "client_hello", "alt_svc", "exchange", "connection_ended"} <= set(kinds)
    assert [event.version for event in events if isinstance(event, Exchange)] == ["HTTP/2", "HTTP/3"]
    # Seen before mitmproxy rewrites it, which is not the script's doing.
    assert {e.lines for e in events if isinstance(e, AltSvcSeen)} == {(f'h3=":{server.port}"; ma=3600',)}
    assert outcomes[0].alt_svc == f'h3=":{dump.port}"; ma=3600'
    assert path.stat().st_mode & 0o777 == 0o600


def test_a_client_that_does_not_trust_it(
    background: Background, server: Server, authority: Authority, folder: Path, tmp_path: Path
) -> None:
    """The log script notices who refuses mitmproxy's certificate, and that this goes on; it changes nothing."""
    path = tmp_path / "events.ndjson"
    with mitmdump(folder, authority, "h3probe_log.py", f"h3probe_out={path}") as dump:
        outcomes = [get(background, server.url, authority.ca_file, proxy=dump.port)[0] for _ in range(2)]
    assert [outcome.status for outcome in outcomes] == [None, None]
    events = [parse_event(line) for line in path.read_bytes().splitlines()]
    rejected = [event for event in events if isinstance(event, CaRejected)]
    assert [(event.host, event.transport, event.let_alone) for event in rejected] == [("localhost", "tcp", False)] * 2
    engine = Engine("events", "ndjson", vantage="proxy")
    records = [record for event in events for record in engine.feed(event)] + engine.finish()
    (finding,) = [record for record in records if isinstance(record, FindingRecord)]
    assert finding.rule == "ca-rejected"
    assert "passed through untouched" not in finding.summary


def test_log_without_a_file(folder: Path) -> None:
    """Without a file to write to it says so, and mitmdump ends."""
    argv = [MITMDUMP, "-q", "-s", str(ADDONS / "h3probe_log.py"), "--set", f"confdir={folder}", "--mode", "regular@0"]
    done = subprocess.run(argv, capture_output=True, text=True, check=False, timeout=PATIENCE_S)
    assert done.returncode == 1
    assert "h3probe_out=events.ndjson" in done.stdout


def test_strip_alt_svc(background: Background, server: Server, authority: Authority, folder: Path) -> None:
    """The client sees no Alt-Svc; of a host that is not named it does."""
    with mitmdump(folder, authority, "strip_alt_svc.py") as dump:
        outcome = ask(background, dump, server.url)
        assert (outcome.status, outcome.alt_svc) == (200, None)
    with mitmdump(folder, authority, "strip_alt_svc.py", "strip_alt_svc_hosts=example.org") as dump:
        assert ask(background, dump, server.url).alt_svc == f'h3=":{server.port}"; ma=3600'


def test_what_an_add_on_takes_out_is_told(
    background: Background, server: Server, authority: Authority, folder: Path, tmp_path: Path
) -> None:
    """Beside the log, the add-on's doing is seen: what the server sent did not go on to the client."""
    events = tmp_path / "events.ndjson"
    with mitmdump(folder, authority, "h3probe_log.py strip_alt_svc.py", f"h3probe_out={events}") as dump:
        assert ask(background, dump, server.url).alt_svc is None
    seen = [event for line in events.read_text().splitlines() if isinstance(event := parse_event(line), AltSvcSeen)]
    assert [(event.lines, event.passed_on) for event in seen] == [((f'h3=":{server.port}"; ma=3600',), ())]
    explain = [sys.executable, "-m", "h3probe", "explain", "--json", str(events)]
    told = subprocess.run(explain, capture_output=True, text=True, check=False).stdout
    assert '"rule":"proxy-strips-alt-svc"' in told


def test_set_alt_svc(background: Background, server: Server, authority: Authority, folder: Path) -> None:
    """The client sees what was set, as it was set."""
    with mitmdump(folder, authority, "set_alt_svc.py", 'alt_svc=h3=":9"; ma=60, h2=') as dump:
        assert ask(background, dump, server.url).alt_svc == 'h3=":9"; ma=60, h2='


def test_connect_407(authority: Authority, folder: Path) -> None:
    """Nobody is let through, and with a user that one is."""
    request = b"CONNECT 127.0.0.1:1 HTTP/1.1\r\n%s\r\n"
    with mitmdump(folder, authority, "connect_407.py", "connect_user=me:secret") as dump:
        refused = say(dump.port, request % b"")
        assert refused.startswith(b"HTTP/1.1 407 ")
        assert b'Proxy-Authenticate: Basic realm="proxy"\r\n' in refused
        let_through = say(dump.port, request % b"Proxy-Authorization: Basic bWU6c2VjcmV0\r\n")
        assert let_through.startswith(b"HTTP/1.1 502 ")
    with mitmdump(folder, authority, "connect_407.py", "connect_status=403") as dump:
        refused = say(dump.port, request % b"")
        assert refused.startswith(b"HTTP/1.1 403 ")
        assert b"Proxy-Authenticate" not in refused


def test_connect_delay(authority: Authority, folder: Path) -> None:
    """A CONNECT is answered, but late."""
    delay = 0.5
    with mitmdump(folder, authority, "connect_delay.py", f"connect_delay={delay}") as dump:
        began = time.monotonic()
        assert say(dump.port, b"CONNECT 127.0.0.1:1 HTTP/1.1\r\n\r\n").startswith(b"HTTP/1.1 502 ")
        assert time.monotonic() - began >= delay


@pytest.mark.parametrize("delay", ["-1", "soon", "nan"])
def test_no_delay(folder: Path, delay: str) -> None:
    """A delay that is none is refused at the start."""
    argv = [MITMDUMP, "-s", str(ADDONS / "connect_delay.py"), "--set", f"confdir={folder}", "--mode", "regular@0"]
    done = subprocess.run(
        [*argv, "--set", f"connect_delay={delay}"], capture_output=True, text=True, check=False, timeout=PATIENCE_S
    )
    assert done.returncode == 1
    assert "neither seconds nor `forever`" in done.stdout + done.stderr


@pytest.mark.parametrize("path", sorted(ADDONS.glob("*.py")), ids=lambda path: path.name)
def test_documented_at_its_top(path: Path) -> None:
    """Each script says at its top how it is run, which options it has, and what it needs."""
    text = path.read_text()
    top = text[: text.index("from __future__")]
    assert f"mitmdump -s addons/{path.name}" in top
    options = set(re.findall(r'add_option\("(\w+)"', text))
    assert options
    documented = top[top.index("Options:") :]
    assert options == set(re.findall(r"^    (\w+) ", documented, re.MULTILINE))
    needs_h3probe = "from h3probe" in text
    assert ("Needs h3probe" in top) == needs_h3probe
    assert ("nothing but mitmproxy" in " ".join(top.split())) == (not needs_h3probe)


def test_the_experiments_need_nothing_but_mitmproxy() -> None:
    """A mitmproxy without h3probe beside it can load them."""
    code = (
        "import sys, runpy; sys.modules['h3probe'] = None; "
        "[runpy.run_path(path)['addons'] for path in sys.argv[1:]]; print('all')"
    )
    scripts = [str(path) for path in ADDONS.glob("*.py") if path.name != "h3probe_log.py"]
    done = subprocess.run(
        [sys.executable, "-c", code, *scripts], capture_output=True, text=True, check=False, cwd=os.sep
    )
    assert done.stdout == "all\n", done.stderr
