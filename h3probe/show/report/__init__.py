"""A report: one HTML file that tells what captures show, made to be attached to a bug report and read by anybody.

It loads nothing: styles, the little script and the pictures are in it, and its own policy forbids everything else.
Whatever came from the network is hostile text: `clean` spells out what does not print as itself, wherever the template
says it, and Jinja escapes the rest.
"""

from __future__ import annotations

import base64
import hashlib
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any

import jinja2

from h3probe import __version__
from h3probe.show.report.assemble import make_report
from h3probe.show.report.chart import make_chart
from h3probe.show.report.packet_fields import PacketReader
from h3probe.show.report.timeline import make_timeline
from h3probe.text import clean, count, seconds

if TYPE_CHECKING:
    from collections.abc import Mapping

    from h3probe.events import Frame
    from h3probe.show.report.gather import Explanation

__all__ = ["render", "wanted_packets"]

LONGEST = 4000
"""Characters of one text at the most."""


def wanted_packets(explanation: Explanation) -> set[int]:
    """Numbers of the packets that the report shows the fields of; `render` takes their frames."""
    return set(make_report(explanation).packets)


def render(explanation: Explanation, frames: Mapping[int, Frame], *, title: str) -> str:
    """Make the report.

    Args:
        explanation: All that there is to say, as `h3probe.run.explaining.explained` gives it.
        frames: The packets that `wanted_packets` names, as far as they are there.
        title: What was looked at.
    """
    report = make_report(explanation)
    reader = PacketReader(frames, explanation.all_records)
    style, script = _source("report.css"), _source("report.js")
    policy = (
        f"default-src 'none'; style-src {_hash(style)}; script-src {_hash(script)}; base-uri 'none'; form-action 'none'"
    )
    page = _environment().get_template("report.html")
    return page.render(
        title=title,
        version=__version__,
        policy=policy,
        style=style,
        script=script,
        report=report,
        charts={origin.number: make_chart(origin) for origin in report.origins},
        timelines={origin.number: make_timeline(origin) for origin in report.origins},
        packets=[reader.read(frames[number]) for number in report.packets if number in frames],
    ).lstrip()


def _fit(value: Any) -> Any:  # noqa: ANN401 - whatever an expression in the template gives
    """Make every text harmless before it is escaped; markup of the package's own stays as it is."""
    return clean(value, LONGEST) if isinstance(value, str) and not hasattr(value, "__html__") else value


@cache
def _environment() -> jinja2.Environment:
    environment = jinja2.Environment(
        autoescape=True,
        finalize=_fit,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        loader=jinja2.FunctionLoader(_source),
    )
    environment.filters |= {"seconds": seconds, "counted": count}
    return environment


def _source(name: str) -> str:
    return files(__name__).joinpath("templates", name).read_text(encoding="utf-8")


def _hash(text: str) -> str:
    """What a Content Security Policy calls an inline source that it allows (CSP 3, 2.3.1)."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode('ascii')}'"
