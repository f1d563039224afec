"""`python -m frostbench.benchmarks.results calibration DATA`: train what is missing, and write the page anew.

`posthoc` in place of `calibration DATA` prints the table of docs/calibration.md, and `verdicts` writes the page on
the level and power of verdicts from made-up outcomes; neither needs images. `defaults [DATA]` measures heads at their
defaults on vectors of any scale, and writes docs/results/defaults.md below what people wrote there; `--part digits`
takes that table alone, `--before FOLDER` puts the heads of an older checkout beside today's, and DATA adds images to
the other tables. DATA is a folder with coins.tar, blood_cells.tar and
grocery.tar, or with these unpacked: a folder of images each, with manifest.csv (path, label, group, split). The work
of calibration can be stopped at any time and goes on where it was; `--step train --part HEAD/CACHE` trains a part of
it, which several processes may do side by side.
"""

import argparse
from collections.abc import Iterable, Sequence
from pathlib import Path

from frostbench.benchmarks.results import posthoc, verdicts
from frostbench.benchmarks.results.calibration import STEPS, regenerate
from frostbench.benchmarks.results.defaults import page as defaults


def main(arguments: Sequence[str] | None = None) -> None:
    """Read the command line and do the steps that it names."""
    parser = argparse.ArgumentParser(prog="python -m frostbench.benchmarks.results", description=__doc__)
    parser.add_argument("page", choices=["calibration", "posthoc", "defaults", "verdicts"])
    parser.add_argument("data", type=Path, nargs="?", help="folder of the images; calibration needs it")
    parser.add_argument("--work", type=Path, default=Path("results-work"), help="caches and runs; may be large")
    parser.add_argument("--out", type=Path, default=Path("docs/results"), help="folder of the page")
    parser.add_argument("--step", choices=STEPS, action="append", help="one step alone; repeat for several")
    parser.add_argument(
        "--part", action="append", help="HEAD/CACHE, as mlp/coins-lite0, or a table of defaults: this alone"
    )
    parser.add_argument("--tables", type=int, default=verdicts.TABLES, help="verdicts: made-up tables of each regime")
    parser.add_argument("--before", type=Path, help="defaults: checkout of an older version, whose heads stand beside")
    parser.add_argument("--draws", type=int, default=defaults.DRAWS, help="defaults: cuts of each table")
    chosen = parser.parse_args(arguments)
    if chosen.page == "calibration" and chosen.data is None:
        parser.error(
            "calibration needs the folder of the images: python -m frostbench.benchmarks.results calibration DATA"
        )
    for words in _made(chosen):
        print(words, flush=True)


def _made(chosen: argparse.Namespace) -> Iterable[str]:
    """The lines that a page tells while it is made."""
    if chosen.page == "posthoc":
        return posthoc.lines()
    if chosen.page == "defaults":
        return defaults.written(chosen.data, chosen.work, chosen.out, chosen.part or (), chosen.before, chosen.draws)
    if chosen.page == "verdicts":
        return verdicts.regenerate(chosen.out, chosen.tables)
    return regenerate(chosen.data, chosen.work, chosen.out, chosen.step or STEPS, chosen.part)


if __name__ == "__main__":
    main()
