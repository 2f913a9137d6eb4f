"""Runs one target under Atheris, until it finds something or is stopped.

    uv run --with atheris python -m fuzz.one TARGET [--seeds FOLDER] [OPTION...]

The options are libFuzzer's, such as `-max_total_time=60`; a file instead of options is run alone. It prints a line for
each input that took longer than any before it.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import atheris

with atheris.instrument_imports(include=["h3probe"]):
    from fuzz.seeds import seeds
    from fuzz.targets import CORPUS, TARGETS, most_work
    from fuzz.work import work

if TYPE_CHECKING:
    from collections.abc import Callable

MS_NS = 1_000_000


def held_to_its_work(name: str) -> Callable[[bytes], None]:
    """The target, with a line whenever an input takes longer than all before it; that one's work is counted."""
    target, longest_ns = TARGETS[name], MS_NS

    def run(data: bytes) -> None:
        nonlocal longest_ns
        began = time.thread_time_ns()
        target(data)
        took = time.thread_time_ns() - began
        if took > longest_ns:
            longest_ns = took
            print("longest:", took // MS_NS, "ms", len(data), "bytes", flush=True)
            done = work(target, data)
            assert done <= most_work(name, len(data)), f"{done:,} steps for {len(data):,} bytes"

    return run


def main() -> None:
    """Seed the target's corpus, which is kept between runs, and fuzz it."""
    arguments = sys.argv[1:]
    folder = None
    if "--seeds" in arguments[:-1]:
        at = arguments.index("--seeds")
        folder = Path(arguments[at + 1])
        del arguments[at : at + 2]
    target = arguments.pop(0) if arguments else ""
    if target not in TARGETS:
        sys.exit(f"usage: python -m fuzz.one {{{','.join(TARGETS)}}} [--seeds FOLDER] [OPTION...]")
    corpus = CORPUS / target
    corpus.mkdir(parents=True, exist_ok=True)
    for number, seed in enumerate(seeds(target, folder)):
        (corpus / f"seed-{number}").write_bytes(seed)
        if not number:
            TARGETS[target](seed)  # What is loaded when it is needed has been, when the first input is timed.
    # What breaks it is written beside the corpus, not into the checkout.
    options = [f"-artifact_prefix={CORPUS}/{target}-", "-max_len=65535", *arguments]
    alone = any(Path(option).is_file() for option in arguments)
    atheris.Setup([sys.argv[0], *options, *([] if alone else [str(corpus)])], held_to_its_work(target))
    atheris.Fuzz()


if __name__ == "__main__":
    main()
