from __future__ import annotations

import os
import shutil
import signal
import socket
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from h3probe.cli import main
from h3probe.errors import MissingExtraError, UserError
from h3probe.run import batch, cluster
from h3probe.run.batch import KILLED, Outcome, explain_each
from h3probe.run.explaining import Asked
from tests.run.mixes import FOLDER

pytest.importorskip("distributed", reason="no Dask: pip install 'h3probe[cluster]'")

import distributed
import pyarrow.parquet as pq

from tests.run.gate import CLOSED, OPENING, Gate, register, wait_for

if TYPE_CHECKING:
    from collections.abc import Iterator

NAMES = ("jdk26-uri-only.pcap", "curl-http3.pcap", "jdk26-udp-dropped-uri-only.pcap", "curl-http3-only-refused.pcap")
COPIES = 4
WORKERS = 2
LOOPBACK = {"host": "127.0.0.1", "dashboard_address": "127.0.0.1:0", "worker_dashboard_address": "127.0.0.1:0"}


@pytest.fixture(scope="module")
def workers() -> Iterator[distributed.LocalCluster]:
    """A cluster of worker processes on loopback."""
    register()
    with (
        distributed.LocalCluster(n_workers=WORKERS, threads_per_worker=1, processes=True, **LOOPBACK) as started,
        distributed.Client(started, set_as_default=False) as client,
    ):
        client.register_plugin(Gate())
        yield started


@pytest.fixture
def urls(tmp_path: Path) -> list[str]:
    """Captures in the storage, as URLs; some are the same under another name."""
    for name in NAMES:
        for copy in range(COPIES):
            shutil.copy(FOLDER / name, tmp_path / f"{copy}-{name}")
    return [f"gate://{path}" for path in sorted(tmp_path.iterdir())]


def outcomes(urls: list[str], scheduler: str | None) -> tuple[list[Outcome], list[str]]:
    """Explain them, with the records; here where there is no cluster."""
    found: list[Outcome] = []
    texts: list[str] = []
    ready: list[str] = []
    for outcome in explain_each(Asked(tuple(urls)), 1, scheduler=scheduler, as_json=True, done=ready.append):
        texts.append("".join(outcome.lines()))
        outcome.text = None
        found.append(outcome)
    assert sorted(ready) == sorted(urls)
    return found, texts


def test_a_worker_that_is_killed_costs_nothing(workers: distributed.LocalCluster, urls: list[str]) -> None:
    """Killed while it reads a capture, others waiting behind it: each is told of once, as one process tells it."""
    expected = outcomes(urls, None)
    watched = urls[len(urls) // 2].removeprefix("gate://")
    closed, opening = Path(watched + CLOSED), Path(watched + OPENING)
    closed.touch()
    with ThreadPoolExecutor(1) as beside:
        running = beside.submit(outcomes, urls, workers.scheduler_address)
        try:
            wait_for(opening.exists)
            killed = int(opening.read_text())
            assert killed != os.getpid()
            os.kill(killed, signal.SIGKILL)
        finally:
            closed.unlink()
        assert running.result() == expected


def test_a_capture_that_kills_workers_takes_nobody_with_it(
    workers: distributed.LocalCluster, urls: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is told of, once and in its place; all others are explained, those too that were on the same worker."""
    monkeypatch.setattr(workers.scheduler, "allowed_failures", 0)  # which is quicker than three for each
    deadly = Path(urls[2].removeprefix("gate://"))
    expected, _ = outcomes(urls, None)
    place = deadly.with_name(f"deadly-{deadly.name}")
    deadly.rename(place)
    asked = [f"gate://{place}" if number == 2 else url for number, url in enumerate(urls)]
    found, texts = outcomes(asked, workers.scheduler_address)
    assert (found[2].error, found[2].exit_status, texts[2]) == (KILLED, 2, "")
    assert found[:2] + found[3:] == expected[:2] + expected[3:]


def test_the_command_line_says_the_same(
    workers: distributed.LocalCluster, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Records, tables and the exit status are those of one process; what cannot be read is told of there too."""
    captures = [*(str(FOLDER / name) for name in NAMES), f"file://{tmp_path}/missing.pcap"]
    engines = {"here": ["--jobs", "1"], "there": ["--engine", "dask", "--scheduler", workers.scheduler_address]}
    said = []
    for name, engine in engines.items():
        assert main(["explain", "--json", "--each", *engine, "--parquet", str(tmp_path / name), *captures]) == 2
        said.append(capsys.readouterr())
    assert said[0] == said[1]
    assert said[0].out.count('"type":"summary"') == len(NAMES)
    for path in (tmp_path / "here").iterdir():
        assert pq.read_table(path) == pq.read_table(tmp_path / "there" / path.name)


def test_what_cannot_be_read_is_told_without_credentials(workers: distributed.LocalCluster) -> None:
    """An outcome with an error in which neither the user nor the password stands."""
    (found,), _ = outcomes(["gate://me:hidden@storage/missing.pcap"], workers.scheduler_address)
    assert found.error == "gate://…@storage/missing.pcap cannot be opened: there is no such file"
    assert found.name == "gate://…@storage/missing.pcap"


def test_a_task_does_not_show_its_url() -> None:
    """Clusters show and log what they are asked to do."""
    assert "hidden" not in repr(batch.Task(Asked(("s3://me:hidden@bucket/a",)), None, "utf-8"))


def test_a_cluster_without_workers_is_not_waited_for_forever(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each capture is an outcome with an error."""
    monkeypatch.setattr(cluster, "PATIENCE", 0.0)
    monkeypatch.setattr(cluster, "BEAT", 0.1)
    with distributed.LocalCluster(n_workers=0, **LOOPBACK) as started:
        found = list(explain_each(Asked(("a", "b")), 1, scheduler=started.scheduler_address))
    assert [outcome.error for outcome in found] == ["the cluster has no workers any more"] * 2
    assert [outcome.exit_status for outcome in found] == [2, 2]


def test_a_scheduler_that_goes_away_is_told_of() -> None:
    """Each capture that was not explained is an outcome with an error, and nothing waits forever."""
    with (
        ThreadPoolExecutor(1) as beside,
        distributed.LocalCluster(n_workers=0, **LOOPBACK) as started,
    ):
        running = beside.submit(outcomes, ["a", "b"], started.scheduler_address)
        wait_for(lambda: len(started.scheduler.tasks) == 2)
        started.close()
        found, _ = running.result()
    assert [outcome.error for outcome in found] == ["the cluster gave it up, or its scheduler is gone"] * 2


def test_a_scheduler_that_is_not_there_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    """So is an address that is none."""
    monkeypatch.setattr(cluster, "CONNECTING", 0.5)
    with socket.socket() as taken:  # and not listened on
        taken.bind(("127.0.0.1", 0))
        for address in (f"tcp://127.0.0.1:{taken.getsockname()[1]}", "nonsense://127.0.0.1:1"):
            with pytest.raises(UserError, match=f"no Dask scheduler answers at {address}: .+"):
                list(explain_each(Asked(("a",)), 1, scheduler=address))


def test_without_dask_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """One line with what to type."""
    monkeypatch.setitem(sys.modules, "distributed", None)
    with pytest.raises(MissingExtraError, match=r"--engine dask needs Dask, .*: pip install 'h3probe\[cluster\]'"):
        list(explain_each(Asked(("a",)), 1, scheduler="tcp://127.0.0.1:1"))
