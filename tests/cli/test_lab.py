from __future__ import annotations

import asyncio
import contextlib
import re
import signal
import socket
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from h3probe.cli import main
from h3probe.lab.article import load_experiments
from h3probe.lab.client import Client, Policy
from h3probe.lab.scenario import load_scenarios
from h3probe.lab.servers import SERVERS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from h3probe.lab.outcome import Outcome


@contextlib.contextmanager
def lab_up(*arguments: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """`h3probe lab up`, running, and what it printed."""
    process = subprocess.Popen(
        [sys.executable, "-m", "h3probe", "lab", "up", *arguments], stdout=subprocess.PIPE, text=True
    )
    try:
        printed = ""
        while process.stdout is not None and "Ctrl-C" not in printed:
            line = process.stdout.readline()
            assert line, "it ended"
            printed += line
        yield process, printed
    finally:
        process.kill()
        process.communicate()


def free_port() -> int:
    """A port that was free a moment ago."""
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        port: int = sock.getsockname()[1]
        return port


def get(url: str, ca_file: str, policy: Policy) -> Outcome:
    """One request."""

    async def run() -> Outcome:
        async with Client(policy, Path(ca_file)) as client:
            return await client.get(url)

    return asyncio.run(run())


def printed_ca(printed: str) -> str:
    """The CA file in the output, which may be wrapped elsewhere but not here."""
    match = re.search(r"--cacert (\S+)", printed)
    assert match is not None
    return match[1]


def test_what_is_printed_works() -> None:
    """The URL and the CA file that are shown get a client to the server, over TCP and QUIC."""
    with lab_up("h3", "--port", str(free_port())) as (_, printed):
        (url,) = set(re.findall(r"https://localhost:\d+/", printed))
        for policy, version in ((Policy.NO_OPT_IN, "HTTP/2"), (Policy.H3_ONLY, "HTTP/3")):
            outcome = get(url, printed_ca(printed), policy)
            assert (outcome.version, outcome.error) == (version, None)


def test_all_of_them_run_on_ports_of_their_own() -> None:
    """Without a name every server is there and answers."""
    with lab_up() as (_, printed):
        urls = dict(re.findall(r"^(\S+) +(https://localhost:\d+/)", printed, re.MULTILINE))
        assert list(urls) == list(SERVERS)
        assert len(set(urls.values())) == len(SERVERS)
        outcomes = [get(url, printed_ca(printed), Policy.NO_OPT_IN) for url in urls.values()]
    assert {outcome.status for outcome in outcomes} == {200}


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no such signals")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_it_and_its_files(number: signal.Signals) -> None:
    """Ctrl-C and SIGTERM end it with status 0, and the certificate's folder is gone."""
    with lab_up("h2", "--port", str(free_port())) as (process, printed):
        folder = Path(printed_ca(printed)).parent
        assert folder.is_dir()
        process.send_signal(number)
        assert process.wait(timeout=10) == 0
        assert not folder.exists()


def test_lists_the_servers(capsys: pytest.CaptureFixture[str]) -> None:
    """`lab list` names each server, scenario and experiment."""
    assert main(["lab", "list"]) == 0
    printed = capsys.readouterr().out
    names = [*SERVERS, *(each.name for each in load_scenarios()), *(each.name for each in load_experiments())]
    assert re.findall(r"^([a-z0-9]\S*)  ", printed, re.MULTILINE) == names


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["h33"], "no server 'h33'; did you mean h3"),
        (["xyz"], "no server 'xyz'; `h3probe lab list` lists them"),
        (["h3", "--delay", "5"], "--delay is for h3-slow, not for h3"),
        (["h3", "--port", "0"], "Invalid value for '--port'"),
    ],
)
def test_mistakes_are_one_line(arguments: list[str], complaint: str, capsys: pytest.CaptureFixture[str]) -> None:
    """What cannot be started is said in one line, with exit status 2."""
    assert main(["lab", "up", *arguments]) == 2
    said = capsys.readouterr().err
    assert complaint in said
    assert said.count("\n") == 1


def test_port_in_use_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    """A port that is taken is named."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        assert main(["lab", "up", "h3", "--port", str(port)]) == 2
    assert f"port {port} on loopback is in use" in capsys.readouterr().err
