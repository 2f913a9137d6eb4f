"""Runs one fuzz target under Atheris, until it finds something or is stopped.

    uv run --with atheris python -m fuzz.run TARGET [OPTION...]

The options are libFuzzer's, such as `-max_total_time=60`; a file instead of options is run alone.
"""

from __future__ import annotations

import sys
from pathlib import Path

import atheris

with atheris.instrument_imports(include=["h3probe"]):
    from fuzz.targets import TARGETS, seeds

CORPUS = Path(__file__).parents[1] / ".cache" / "fuzz"


def main() -> None:
    """Seed the target's corpus, which is kept between runs, and fuzz it."""
    target = sys.argv[1] if len(sys.argv) > 1 else ""
    if target not in TARGETS:
        sys.exit(f"usage: python -m fuzz.run {{{','.join(TARGETS)}}} [OPTION...]")
    corpus = CORPUS / target
    corpus.mkdir(parents=True, exist_ok=True)
    for number, seed in enumerate(seeds(target)):
        (corpus / f"seed-{number}").write_bytes(seed)
    # What crashes it is written beside the corpus, not into the checkout.
    options = [f"-artifact_prefix={CORPUS}/{target}-", "-max_len=65535", *sys.argv[2:]]
    alone = any(Path(option).is_file() for option in sys.argv[2:])
    atheris.Setup([sys.argv[0], *options, *([] if alone else [str(corpus)])], TARGETS[target])
    atheris.Fuzz()


if __name__ == "__main__":
    main()
