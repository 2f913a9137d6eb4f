"""`h3probe watch --isolate` by an ordinary user, around real clients, against nginx on the host's loopback."""

import os
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from .netns import environment
from .parts import ADVERTISED, RealParts, curl, java
from .test_isolate_core import World, namespaces, processes, world
from .watching import H3PROBE, Scenario, SideBySide, Watched

__all__ = ["world"]

URL = f"https://localhost:{ADVERTISED}/"
NOISE = java(URL, "client", "ALT_SVC", 1000, pause_ms=20)
TRUSTING_NOBODY = ["java", "Probe", URL]

SCENARIOS = {
    "isolated-client-any": Scenario(java(URL, "client", "ANY", 4), isolated=True, noise=NOISE),
    "isolated-request-any": Scenario(java(URL, "request", "ANY", 2), isolated=True, noise=NOISE),
    "isolated-alt-svc": Scenario(java(URL, "client", "ALT_SVC", 3), isolated=True, noise=NOISE),
    "isolated-uri-only": Scenario(java(URL, "client", "HTTP_3_URI_ONLY", 2), isolated=True, noise=NOISE),
    "isolated-curl": Scenario(curl(URL, "--http3", "-4"), isolated=True, noise=NOISE),
    "isolated-curl-http2": Scenario(curl(URL, "--http2", "-4"), isolated=True, noise=NOISE),
    "isolated-blocked": Scenario(java(URL, "client", "ANY", 4), isolated=True, options=["--block-udp"]),
    "isolated-refused": Scenario(curl(URL, "--http3", "-4"), isolated=True, options=["--reject-udp"]),
    "isolated-prohibited": Scenario(curl(URL, "--http3", "-4"), isolated=True, options=["--reject-udp", "admin:4433"]),
    "isolated-intercepted": Scenario(
        [*TRUSTING_NOBODY, "client", "ALT_SVC", "3", "0"],
        isolated=True,
        options=["--intercept", "--server-ca", "ca.pem"],
    ),
    "isolated-untrusting": Scenario(
        curl(URL, "--http2", "-4"), isolated=True, options=["--intercept", "--server-ca", "ca.pem"]
    ),
    "isolated-silent": Scenario(["sh", "-c", "exit 7"], isolated=True),
    "isolated-leaving": Scenario(["sh", "-c", "sleep 60 & sleep 60 & exit 3"], isolated=True),
}
PATIENT = ("isolated-blocked",)
UNTOUCHED = [name for name, scenario in SCENARIOS.items() if scenario.noise]

pytestmark = pytest.mark.xdist_group("isolate")


@pytest.fixture(scope="module")
def watched(parts: RealParts, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SideBySide]:
    """Give what came of each scenario, by its name."""
    side_by_side = SideBySide(parts, tmp_path_factory.mktemp("isolate"), SCENARIOS, PATIENT)
    yield side_by_side
    side_by_side.close()


def sentence(seen: Watched) -> str:
    """Give the only verdict's sentence."""
    text = seen.one("verdict")["sentence"]
    assert isinstance(text, str)
    return text


@pytest.mark.parametrize("name", UNTOUCHED)
def test_the_commands_packets_alone(watched: SideBySide, name: str) -> None:
    """Beside a noisy client of the same server, all that is seen is the command's, under loopback's addresses."""
    seen = watched[name]
    assert seen.exit == 0
    connections = seen.all("quic") + seen.all("tcp")
    assert 1 <= len(connections) <= 2
    assert {connection["server"] for connection in connections} == {f"127.0.0.1:{ADVERTISED}"}
    assert {connection["client"].rpartition(":")[0] for connection in connections} == {"127.0.0.1"}
    program = SCENARIOS[name].client[0]
    assert {c["process"]["name"] for c in connections if c["process"] is not None} <= {program}
    summary = seen.one("summary")
    assert (summary["dropped"], summary["malformed"], summary["evicted"]) == (0, 0, 0)
    assert len(seen.all("verdict")) == 1


def test_client_level_any(watched: SideBySide) -> None:
    """A race of which both ends are seen; which one carried request 1 is encrypted."""
    seen = watched["isolated-client-any"]
    assert seen.answers == ["HTTP_2", "HTTP_3", "HTTP_3", "HTTP_3"]
    race = seen.one("race")
    assert race["carried"] is None
    assert race["quic_ready_at"] is not None
    assert race["tcp_ready_at"] is not None
    assert "raced" in sentence(seen)


def test_request_level_any(watched: SideBySide) -> None:
    """HTTP/3 from the first request, and no TCP."""
    seen = watched["isolated-request-any"]
    assert seen.answers == ["HTTP_3", "HTTP_3"]
    assert seen.all("tcp") == []
    assert sentence(seen).startswith("HTTP/3 from the first request")


def test_alt_svc(watched: SideBySide) -> None:
    """TCP first, then HTTP/3 by what its response said."""
    seen = watched["isolated-alt-svc"]
    assert seen.answers == ["HTTP_2", "HTTP_3", "HTTP_3"]
    assert sentence(seen).startswith("HTTP/2 or HTTP/1.1 first, then HTTP/3")


def test_uri_only(watched: SideBySide) -> None:
    """HTTP/3 alone."""
    seen = watched["isolated-uri-only"]
    assert seen.answers == ["HTTP_3", "HTTP_3"]
    assert sentence(seen).startswith("HTTP/3 from the first request")


def test_curl(watched: SideBySide) -> None:
    """What curl did is what it says."""
    assert watched["isolated-curl"].answers == ["3"]
    assert sentence(watched["isolated-curl"]).startswith("HTTP/3 from the first request")
    assert watched["isolated-curl-http2"].answers == ["2"]
    assert "no QUIC packet was sent" in sentence(watched["isolated-curl-http2"])


def test_udp_blocked(watched: SideBySide) -> None:
    """Request 2 fails with request 1's pending attempt, request 3 waits 30 s, as behind any such firewall."""
    seen = watched["isolated-blocked"]
    assert seen.answers == ["HTTP_2", "java.net.http.HttpConnectTimeoutException", "HTTP_2", "HTTP_2"]
    assert {quic["outcome"] for quic in seen.all("quic")} == {"unanswered"}
    assert [icmp["icmp_type"] for icmp in seen.all("icmp")] == []
    assert seen.took_s > 30
    assert "In force: UDP blocked silently." in sentence(seen)
    waits = [finding["cost"] for finding in seen.all("finding") if finding["cost"] is not None]
    assert max(waits) == pytest.approx(30, abs=1.5)


@pytest.mark.parametrize(("name", "code"), [("isolated-refused", 3), ("isolated-prohibited", 13)])
def test_udp_refused(watched: SideBySide, name: str, code: int) -> None:
    """curl falls back at once, and the error is told to come from the way and not from the server."""
    seen = watched[name]
    assert seen.answers == ["2"]
    assert seen.one("quic")["outcome"] == "refused"
    assert {icmp["icmp_code"] for icmp in seen.all("icmp")} == {code}
    assert {icmp["from"] for icmp in seen.all("icmp")} == {"198.18.0.1"}
    assert seen.one("tcp")["at"] - seen.one("quic")["at"] < 1
    assert "In force: UDP" in sentence(seen)


def test_interception_without_settings(watched: SideBySide) -> None:
    """Of TCP the version and the Alt-Svc are known; QUIC went past, and what it carried is not counted."""
    seen = watched["isolated-intercepted"]
    assert seen.answers == ["HTTP_2", "HTTP_3", "HTTP_3"]
    exchange = seen.one("exchange")
    assert (exchange["version"], exchange["status"], exchange["known_from"]) == ("HTTP/2", 200, "proxy")
    assert exchange["connection"] == seen.one("tcp")["id"]
    assert seen.one("alt_svc")["value"] == f'h3=":{ADVERTISED}"; ma=3600'
    assert seen.all("tunnel") == []
    assert seen.one("quic")["outcome"] == "established"
    assert "QUIC went past the proxy" in sentence(seen)
    assert seen.one("verdict")["versions"] is None


def test_a_client_that_does_not_trust(watched: SideBySide) -> None:
    """A client with an authority of its own is told to have refused h3probe's."""
    seen = watched["isolated-untrusting"]
    assert seen.exit == 60
    assert "ca-rejected" in seen.rules


def test_nothing_asked_for(watched: SideBySide) -> None:
    """Silence is told as such, and the exit status is the command's."""
    seen = watched["isolated-silent"]
    assert seen.exit == 7
    assert sentence(seen).startswith("It asked for nothing")


def test_what_a_command_leaves_running_is_told(watched: SideBySide) -> None:
    """Processes in the background do not end without a word; of a command without any nothing is said."""
    seen = watched["isolated-leaving"]
    assert seen.exit == 3
    said = "left running by the command, and ended with its network"
    assert any(f"{said}: 2 processes" in line for line in seen.said)
    assert not any(said in line for line in watched["isolated-silent"].said)


@pytest.mark.parametrize("end", ["exit", "interrupt", "kill"])
def test_nothing_is_left(world: World, end: str) -> None:
    """With everything that `watch` can start, nothing outlives it, however it ends."""
    before, elsewhere = world.state(), namespaces()
    options = ["--block-udp", "--no-https-rr", "--intercept", "--server-ca", "ca.pem"]
    watch = [*H3PROBE, "watch", "--isolate", *options, "--", "sh", "-c", "sleep 60 & echo up; wait"]
    settings = [world.mark, "PYTHONDONTWRITEBYTECODE=1", "TMPDIR=/lab", "HOME=/lab"]  # where it would leave files
    argv = world.lab.parts.as_user(["env", "--default-signal", *settings, *watch])
    with subprocess.Popen(
        world.lab.netns.command(argv),
        cwd=world.lab.folder,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        env=environment(),
        start_new_session=True,
    ) as watching:
        assert watching.stdout is not None
        while watching.stdout.readline() != "up\n":
            assert watching.poll() is None
        # h3probe, the isolation's first two, the uplink, the DNS filter, mitmdump, and the command's shell
        assert len(processes(world.mark)) >= 7
        if end == "exit":
            shell = min(pid for pid in processes(world.mark) if _is_the_command(pid))  # its children begin as copies
            os.kill(shell, signal.SIGKILL)
        else:
            (os.kill if end == "kill" else os.killpg)(watching.pid, signal.SIGKILL if end == "kill" else signal.SIGINT)
        watching.communicate(timeout=20)
        assert watching.returncode == {"exit": 137, "interrupt": 130, "kill": -9}[end]
    deadline = time.monotonic() + 10.0
    while (world.state() != before or namespaces() - elsewhere) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert world.state() == before


def _is_the_command(pid: int) -> bool:
    return Path(f"/proc/{pid}/cmdline").read_bytes().startswith(b"sh\0-c\0sleep 60")
