"""Records for people: the timeline as it happens, then findings, verdicts and one line of figures.

Rich colours and measures; the layout is made here, a line at a time, since a live timeline cannot wait for
its table to end. Texts of records are data, never markup.
"""

from __future__ import annotations

import io
import os
import re
from typing import TYPE_CHECKING, TextIO

from rich.cells import cell_len
from rich.console import Console as RichConsole
from rich.text import Text

from h3probe.show.layout import shorten, symbols_for, terminal_width, wants_color, wrap, writable
from h3probe.text import count, seconds

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from h3probe.records import (
        Evidence,
        ExpectationRecord,
        FindingRecord,
        Moment,
        Severity,
        SummaryRecord,
        VerdictRecord,
    )

TRANSPORT_STYLES = {
    "quic": "bold magenta",
    "tcp": "bold cyan",
    "icmp": "bold yellow",
    "dns": "bold blue",
    "proxy": "bold blue",
}
WEIGHT_STYLES = {"start": "", "progress": "", "good": "green", "bad": "red"}
SEVERITY_STYLES = {"problem": "bold red", "notice": "bold yellow", "info": "dim"}
SEVERITY_ORDER: tuple[Severity, ...] = ("problem", "notice", "info")

WIDE = 100
"""From this width on there is room for process ids and whole addresses."""

NARROW = 64
"""Below this width addresses are cut to little more than their ports."""

LEAST_WIDTH = 40
"""Narrower terminals wrap lines themselves."""

LEAST_TEXT = 22
"""Cells that the last column needs; with fewer it goes on a line of its own."""

EVIDENCE_SHOWN = 8
"""Packets shown of one finding; `--json` has them all."""

Part = tuple[str, str]
"""A text and its rich style."""


class _Rich(RichConsole):
    """Rich without its own idea of what a closed pipe means (exit status 1, which says here: a problem was found)."""

    def on_broken_pipe(self) -> None:
        raise  # noqa: PLE0704 - rich calls this while it handles the BrokenPipeError


class Console:
    """Draws records on a text stream.

    Args:
        stream: Where to.
        color: None decides by the stream, NO_COLOR, FORCE_COLOR and TERM.
        width: Columns; None asks COLUMNS and the terminal anew for each line, so that a window may be resized.
        environ: The environment; tests bring their own.

    Every method raises BrokenPipeError when the reader of the stream is gone.
    """

    def __init__(
        self,
        stream: TextIO,
        *,
        color: bool | None = None,
        width: int | None = None,
        environ: Mapping[str, str] | None = None,
    ) -> None:
        self._stream = stream
        self._environ = os.environ if environ is None else environ
        self._fixed_width = width
        self._encoding = getattr(stream, "encoding", None) or "utf-8"
        self.symbols = symbols_for(self._encoding)
        self._begun = False
        self._columns = {"time": 6, "client": 10, "server": 14}
        colored = wants_color(stream, self._environ) if color is None else color
        self._rich = _Rich(
            file=stream,
            width=width,
            force_terminal=colored,
            color_system="standard" if colored else None,
            legacy_windows=False,
            highlight=False,
            markup=False,
            emoji=False,
            _environ={},  # all that rich would look up is decided above
        )

    @property
    def width(self) -> int:
        """The columns of the next line."""
        return max(self._fixed_width or terminal_width(self._stream, self._environ), LEAST_WIDTH)

    # -- while it happens

    def moment(self, moment: Moment) -> None:
        """One thing that happened: time, client, direction, server, transport, what."""
        arrow = {True: self.symbols.outgoing, False: self.symbols.incoming, None: self.symbols.neither}
        style = WEIGHT_STYLES[moment.weight]
        client_most, server_most = self._most()
        row: list[Part] = [
            (self._column("time", f"{moment.at:.3f}", 12), "dim"),
            (self._column("client", self._client(moment, client_most), client_most), ""),
            (arrow[moment.outgoing] + " ", "dim"),
            (self._column("server", self._fit(moment.server, server_most), server_most), ""),
            (f"{moment.transport.upper():<5} ", TRANSPORT_STYLES[moment.transport]),
            (self._mark(moment.weight) + " ", style),
        ]
        text = self._say(moment.text)
        if self.width - sum(cell_len(part) for part, _ in row) >= LEAST_TEXT:
            self._hanging(row, text, style)
        else:
            self._line(row[:-1])
            self._hanging([(" " * (self._columns["time"] + 1), ""), row[-1]], text, style)

    def note(self, text: str) -> None:
        """A remark of the program itself (`watching lo and eth0; Ctrl-C ends`)."""
        for line in wrap(self._say(text), self.width):
            self._line([(line, "dim")])

    def text(self, text: str, *, indent: int = 0, style: str = "") -> None:
        """A paragraph, wrapped and indented."""
        self._hanging([(" " * indent, "")], self._say(text), style)

    def row(self, before: Sequence[Part], text: str) -> None:
        """A paragraph that hangs behind labels of the program's own."""
        self._hanging(before, self._say(text), "")

    def line(self, parts: Sequence[Part]) -> None:
        """One line of parts that fit, made of texts that `say` gave."""
        self._line(parts)

    def say(self, text: str) -> str:
        """A text as this stream can show it, without control characters."""
        return self._say(text)

    def blank(self) -> None:
        """An empty line."""
        self._line([])

    def heading(self, text: str) -> None:
        """A title over what follows."""
        title = shorten(self._say(text), self.width, self.symbols.cut)
        rest = max(self.width - cell_len(title) - 1, 0)
        if self._begun:
            self.blank()
        self._line([(title, "bold"), (" " + self.symbols.line * rest if rest > 1 else "", "dim")])

    # -- at the end

    def finding(self, finding: FindingRecord, *, advise: bool = False) -> None:
        """One finding: what it says; beyond an `info` also its packets, its cost and its advice.

        Args:
            finding: The finding.
            advise: Whether an `info` has its advice too.
        """
        style = SEVERITY_STYLES[finding.severity]
        head = (f"  {self._severity_mark(finding.severity)} {finding.severity:<7}  ", style)
        room = self.width - cell_len(head[0])
        rule = shorten(self._say(finding.rule), room, self.symbols.cut)
        if finding.severity == "info":
            self._line([head, (rule, "")])
            self.text(finding.summary, indent=4, style="dim")
            self._advice(finding.advice if advise else "", style="dim")
            return
        cost = "" if finding.cost is None else self._say(f"cost {seconds(finding.cost)}")
        beside = cell_len(rule) + 2 + cell_len(cost) <= room
        self._line([head, (rule, "bold"), (f"  {cost}" if beside else "", style)])
        if not beside:
            self.text(cost, indent=4, style=style)
        self.text(finding.summary, indent=4)
        self._evidence(finding.evidence)
        self._advice(finding.advice)

    def verdict(self, verdict: VerdictRecord, severity: Severity | None = None, alike: int = 0) -> None:
        """One verdict; the worst severity behind it chooses its mark, and of so many others the same is said."""
        only_h3 = bool(verdict.versions) and set(verdict.versions or ()) == {"HTTP/3"}
        mark, style = self.symbols.plain, "bold"
        if severity in {"problem", "notice"}:
            mark, style = self._severity_mark(severity), SEVERITY_STYLES[severity]
        elif only_h3:
            mark, style = self.symbols.good, "bold green"
        others = f", and {alike:,} more like it" if alike else ""
        who = self._say(f"{verdict.origin or 'origin not known'}, client {verdict.client}{others}")
        self._hanging([(f"{mark} ", style)], who, "")
        self._hanging([("  ", "")], self._say(verdict.sentence), "bold")
        behind = [f"{number}{self.symbols.times} {version}" for version, number in (verdict.versions or {}).items()]
        if verdict.rules:
            behind.append("because of " + ", ".join(verdict.rules))
        if behind:
            self._hanging([("  ", "")], self._say("; ".join(behind)), "dim")

    def expectation(self, expectation: ExpectationRecord) -> None:
        """One origin, whether it was as expected, and how it went."""
        good = expectation.met
        mark, style = (self.symbols.good, "bold green") if good else (self.symbols.bad, "bold red")
        origin = expectation.origin or "no origin"
        text = f"{origin}: {'met' if good else 'not met'}. {expectation.reason}"
        self._hanging([(f"{mark} ", style)], self._say(text), "")

    def summary(self, summary: SummaryRecord, findings: Mapping[Severity, int]) -> None:
        """The figures, in one line where they fit; `findings` says how many there are of each severity."""
        kinds = {"quic": "QUIC", "tcp": "TCP", "tunnel": "tunnel", "icmp": "ICMP", "exchange": "exchange"}
        seen = [f"{summary.records[kind]:,} {name}" for kind, name in kinds.items() if summary.records.get(kind)]
        links = f" ({', '.join(summary.link_types)})" if summary.link_types else ""
        parts = [count(summary.packets, "packet") + links, ", ".join(seen) or "no connections"]
        grades = [count(findings[grade], grade) for grade in SEVERITY_ORDER[:2] if findings.get(grade)]
        parts.append(
            ", ".join(grades) or ("no problem found in what was looked at" if summary.evicted else "no problem")
        )
        lost = {
            "lost before h3probe saw them": summary.dropped or 0,
            "packets of long transfers not counted (there was more than the sums say)": summary.uncounted,
            "not decodable": summary.malformed,
            "connections forgotten": summary.evicted,
        }
        parts += [f"{number:,} {what}" for what, number in lost.items() if number]
        if summary.truncated:
            parts.append("the source could not be read to its end")
        self._hanging([], self._say("; ".join(parts)), "dim")

    # -- pieces

    def _evidence(self, evidence: Sequence[Evidence]) -> None:
        """The packets, in aligned columns; of many the first ones and the last."""
        shown = [*evidence[: EVIDENCE_SHOWN - 1], evidence[-1]] if len(evidence) > EVIDENCE_SHOWN else evidence
        rows = [(f"#{e.frame}" if e.frame is not None else "", f"+{e.at:.3f} s", e.what) for e in shown]
        frame_width = max((len(frame) for frame, _, _ in rows), default=0)
        time_width = max((len(time) for _, time, _ in rows), default=0)
        for index, (frame, time, what) in enumerate(rows):
            if len(shown) < len(evidence) and index == len(rows) - 1:
                self.text(f"{self.symbols.cut} {len(evidence) - len(shown)} more", indent=6, style="dim")
            before = f"      {frame:>{frame_width}}  {time:>{time_width}}  "
            self._hanging([(before, "dim")], self._say(what), "")

    def _advice(self, advice: str, style: str = "") -> None:
        if advice:
            self._hanging([(f"    {self.symbols.advice} ", "bold")], self._say(advice), style)

    def _client(self, moment: Moment, most: int) -> str:
        """The client's process and port, or its address and port."""
        if moment.process is None:
            return self._fit(moment.client, most)
        port = moment.client.rpartition(":")[2]
        pid = f"[{moment.process.pid}]" if self.width >= WIDE else ""
        return self._fit(f"{moment.process.name}{pid}:{port}", most)

    def _most(self) -> tuple[int, int]:
        """The widest that the client's and the server's column may become."""
        return (28, 28) if self.width >= WIDE else (16, 19) if self.width >= NARROW else (10, 12)

    def _fit(self, peer: str, width: int) -> str:
        """An address cut in its middle, its port kept."""
        peer = self._say(peer)
        port = len(peer) - max(peer.rfind(":"), 0)
        return shorten(peer, width, self.symbols.cut, tail=port if port <= len(":65535") else 0)

    def _column(self, name: str, value: str, most: int) -> str:
        """Pad a value to its column and one space; a column that proves too narrow stays wider from then on."""
        self._columns[name] = max(self._columns[name], cell_len(value))
        padding = " " * (min(self._columns[name], most) - cell_len(value))
        return f"{padding}{value} " if name == "time" else f"{value}{padding} "

    def _mark(self, weight: str) -> str:
        return {"good": self.symbols.good, "bad": self.symbols.bad}.get(weight, " ")

    def _severity_mark(self, severity: Severity) -> str:
        return {"problem": self.symbols.bad, "notice": self.symbols.notice, "info": self.symbols.info}[severity]

    def _say(self, text: str) -> str:
        return writable(text, self._encoding)

    def _hanging(self, before: Sequence[Part], text: str, style: str) -> None:
        """`before`, then the text, whose further lines begin where its first one does."""
        indent = sum(cell_len(part) for part, _ in before)
        first, *rest = wrap(text, self.width - indent)
        self._line([*before, (first, style)])
        for line in rest:
            self._line([(" " * indent, ""), (line, style)])

    def _line(self, parts: Sequence[Part]) -> None:
        line = Text.assemble(*parts)
        line.rstrip()
        self._rich.print(line, soft_wrap=True)
        self._begun = True


def export_svg(draw: Callable[[Console], None], *, title: str, width: int = 96) -> str:
    """What `draw` prints, as an SVG picture of a terminal."""
    console = Console(io.StringIO(), color=True, width=width)
    console._rich.record = True  # noqa: SLF001 - the same module
    draw(console)
    svg = console._rich.export_svg(title=title)  # noqa: SLF001
    return re.sub(r"\s*@font-face \{.*?\}", "", svg, flags=re.DOTALL)  # rich names a font on a server elsewhere
