"""`h3probe lab run`: scenarios, and the experiments of two articles, played with a client of one's choice."""

from __future__ import annotations

import asyncio
import json
import sys
from typing import TYPE_CHECKING

import click

from h3probe.cli import nearest
from h3probe.cli.progress import Progress
from h3probe.errors import UserError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from h3probe.lab.article import Experiment, Run
    from h3probe.lab.clients import LabClient
    from h3probe.lab.judge import NotPlayed, Played
    from h3probe.lab.runs import Setting
    from h3probe.lab.scenario import Scenario
    from h3probe.show.console import Console

ARTICLES = "articles"
ALL = "all"


@click.command(
    epilog="""\b
Examples:
  h3probe lab run udp-blocked stale-alt-svc
  h3probe lab run all --client java
  h3probe lab run udp-blocked --client 'curl --http3 --cacert {ca} {url}'
  h3probe lab run articles --client java --java25 /opt/jdk-25
  h3probe lab run 04-fallback --client java

\b
Exit status: 0 when all was as expected, else 1; 2 wrong usage.
"""
)
@click.argument("names", nargs=-1, metavar="NAME...", required=True)
@click.option("--client", "client_name", default="builtin", show_default=True, metavar="builtin|java|curl|CMD",
              help="Who asks. CMD is a command with {url}, {port}, {ca} or {proxy} in it.")  # fmt: skip
@click.option("--java", "java_path", metavar="PATH", help="A JDK 26.  [default: $H3PROBE_JAVA, or of PATH]")
@click.option("--java25", "java25_path", metavar="PATH",
              help="A Java from before HTTP/3.  [default: $JAVA25_HOME, or where Debian has it]")  # fmt: skip
@click.option("--client-log/--no-client-log", default=None,
              help="With --client java: h3probe reads the client's log too.  [default: for the articles]")  # fmt: skip
@click.option("--json", "as_json", is_flag=True, help="Print an object for each, with h3probe's records in it.")
def run(  # noqa: PLR0913 - one parameter per option
    *,
    names: tuple[str, ...],
    client_name: str,
    java_path: str | None,
    java25_path: str | None,
    client_log: bool | None,
    as_json: bool,
) -> int:
    """Play scenarios, and compare what came of them with what should have.

    NAME is a scenario, `all` of them, an experiment, or `articles`: all experiments of two articles about HTTP/3 in
    Java, with what they report beside what this machine gives, and h3probe's explanation. `h3probe lab list` lists
    them.

    Each scenario has a network of its own where that is possible (Linux with pasta or slirp4netns, no root); elsewhere
    a relay does to UDP what it can.
    """
    from h3probe.cli.demo import until_stopped  # noqa: PLC0415 - loaded when asked for
    from h3probe.lab.isolated import obstacle  # noqa: PLC0415 - the same
    from h3probe.lab.runs import Setting  # noqa: PLC0415 - the same
    from h3probe.lab.servers import temporary_authority  # noqa: PLC0415 - the same

    scenarios, experiments = _find(names)
    client = _client("java" if experiments and client_name == "builtin" else client_name, java_path, java25_path)
    if experiments and client.name != "java":
        raise UserError(f"the articles' experiments are about Java's client, not {client.name}: --client java")
    client_log = bool(experiments) if client_log is None else client_log
    if client_log and client.name != "java":
        raise UserError("--client-log is for --client java: other clients do not log what h3probe reads")
    with temporary_authority() as authority:
        setting = Setting(authority, client, obstacle(), ("--client-log",) if client_log else ())
        factory = asyncio.SelectorEventLoop if sys.platform == "win32" else None
        with asyncio.Runner(loop_factory=factory) as runner:
            return runner.run(until_stopped(_run(scenarios, experiments, setting, as_json=as_json)))


def _find(names: Sequence[str]) -> tuple[list[Scenario], list[Experiment]]:
    """The scenarios and the experiments with these names.

    Raises:
        UserError: There is none with one of them.
    """
    from h3probe.lab.article import load_experiments  # noqa: PLC0415 - loaded when asked for
    from h3probe.lab.scenario import load_scenarios  # noqa: PLC0415 - the same

    scenarios = {scenario.name: scenario for scenario in load_scenarios()}
    experiments = {experiment.name: experiment for experiment in load_experiments()}
    wanted: dict[str, None] = {}
    for name in names:
        if name == ALL:
            wanted |= dict.fromkeys(scenarios)
        elif name == ARTICLES:
            wanted |= dict.fromkeys(experiments)
        elif name in scenarios or name in experiments:
            wanted[name] = None
        else:
            hint = nearest(name, [*scenarios, *experiments, ARTICLES, ALL])
            raise UserError(f"no scenario '{name}'{hint or '; `h3probe lab list` lists them'}")
    return [scenarios[name] for name in wanted if name in scenarios], [
        experiments[name] for name in wanted if name in experiments
    ]


def _client(name: str, java_path: str | None, java25_path: str | None) -> LabClient:
    """The client that was asked for.

    Raises:
        UserError: It is not there.
    """
    from h3probe.lab import clients, java  # noqa: PLC0415 - loaded when asked for

    if name == "builtin":
        return clients.BuiltinClient()
    if name == "curl":
        return clients.find_curl()
    if name != "java":
        return clients.other_client(name)
    found = java.find_java(java_path)
    try:
        return clients.JavaClient(found, java.find_java_before_http3(java25_path))
    except UserError as error:
        if java25_path is not None:
            raise
        return clients.JavaClient(found, str(error))


async def _run(scenarios: list[Scenario], experiments: list[Experiment], setting: Setting, *, as_json: bool) -> int:
    from h3probe.lab.runs import play_all  # noqa: PLC0415 - loads the servers
    from h3probe.show.console import Console  # noqa: PLC0415 - loaded when asked for

    runs = [(experiment, run) for experiment in experiments for run in experiment.runs]
    progress = Progress(len(scenarios) + len(runs))
    console = None if as_json else Console(sys.stdout)
    if console is not None:
        _introduce(console, setting)
    results = await play_all(
        [*scenarios, *(run.scenario for _, run in runs)], setting, lambda result: progress.done(result.scenario.name)
    )
    progress.close()
    played, repeated = results[: len(scenarios)], results[len(scenarios) :]
    if console is None:
        _print_json(played, [(*pair, result) for pair, result in zip(runs, repeated, strict=True)], setting)
    else:
        from h3probe.cli.lab_tables import draw_articles, draw_scenarios  # noqa: PLC0415 - imports rich

        if played:
            draw_scenarios(console, played, setting.client)
        if experiments:
            draw_articles(console, experiments, repeated)
        console.blank()
        console.note(_summary(results, progress.seconds))
    return 0 if all(_as_expected(result) for result in results) else 1


def _as_expected(result: Played | NotPlayed) -> bool:
    from h3probe.lab.judge import Played  # noqa: PLC0415 - loaded already

    # What could not be played here has not gone otherwise than expected.
    return not result.misses if isinstance(result, Played) else not result.failed


def _introduce(console: Console, setting: Setting) -> None:
    from h3probe.lab.clients import CurlClient, JavaClient  # noqa: PLC0415 - loaded already

    client = setting.client
    if isinstance(client, JavaClient):
        console.note(f"{client.java.program}: {client.java.version}")
        if not isinstance(client.before, str):
            console.note(f"{client.before.program}: {client.before.version}")
    if isinstance(client, CurlClient):
        without = "" if client.http3 else ", without HTTP/3: what takes that is not played"
        console.note(f"{client.program}: {client.version}{without}")
    if setting.no_networks:
        console.note(f"no networks of their own, so a relay does to UDP what it can ({setting.no_networks})")


def _print_json(
    played: Sequence[Played | NotPlayed],
    repeated: Sequence[tuple[Experiment, Run, Played | NotPlayed]],
    setting: Setting,
) -> None:
    from h3probe.lab.report import article_json, as_json  # noqa: PLC0415 - loaded when asked for

    told = [as_json(result, setting.client.name) for result in played]
    told += [article_json(*row, setting.client.name) for row in repeated]
    for each in told:
        click.echo(json.dumps(each))


def _summary(results: Sequence[Played | NotPlayed], seconds: float) -> str:
    """All in one sentence."""
    from h3probe.lab.judge import NotPlayed, Played  # noqa: PLC0415 - loaded already

    right = sum(isinstance(each, Played) and each.judged and not each.misses for each in results)
    unjudged = sum(isinstance(each, Played) and not each.judged for each in results)
    skipped = sum(isinstance(each, NotPlayed) and not each.failed for each in results)
    words = f"{right} of {len(results)} as expected"
    words += f", {unjudged} without expectation" if unjudged else ""
    words += f", {skipped} not played" if skipped else ""
    return f"{words}, in {seconds:.0f} s"
