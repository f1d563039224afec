"""`python -m frostbench.benchmarks.results calibration DATA`: train the missing runs and regenerate the page.

Other pages: `posthoc` prints the table of docs/calibration.md. `verdicts` writes the page on level and power of
verdicts, from simulations. Neither needs images. `defaults [DATA]` evaluates heads at their defaults on vectors of any
scale and writes the generated part of docs/results/defaults.md; `--part digits` runs only the table of that name,
`--before FOLDER` compares with the heads of an older checkout, and DATA adds tables of images.

DATA is a folder with coins.tar, blood_cells.tar and grocery.tar, or with these unpacked: a folder of images each, with
manifest.csv (path, label, group, split). `calibration` can be interrupted and resumed; `--step train --part HEAD/CACHE`
trains a part of its runs, also in several processes at the same time.
"""

import argparse
from collections.abc import Iterable, Sequence
from pathlib import Path

from frostbench.benchmarks.results import posthoc, verdicts
from frostbench.benchmarks.results.calibration import STEPS, regenerate
from frostbench.benchmarks.results.defaults import page as defaults


def main(arguments: Sequence[str] | None = None) -> None:
    """Parse the command line and run its steps."""
    parser = argparse.ArgumentParser(prog="python -m frostbench.benchmarks.results", description=__doc__)
    parser.add_argument("page", choices=["calibration", "posthoc", "defaults", "verdicts"])
    parser.add_argument("data", type=Path, nargs="?", help="folder of the images; required for calibration")
    parser.add_argument(
        "--work", type=Path, default=Path("results-work"), help="folder for caches and runs; may become large"
    )
    parser.add_argument("--out", type=Path, default=Path("docs/results"), help="folder of the page")
    parser.add_argument("--step", choices=STEPS, action="append", help="run only this step; repeatable")
    parser.add_argument(
        "--part", action="append", help="run only this HEAD/CACHE (such as mlp/coins-lite0) or table of defaults"
    )
    parser.add_argument("--tables", type=int, default=verdicts.TABLES, help="verdicts: simulated tables per regime")
    parser.add_argument("--before", type=Path, help="defaults: checkout of an older version to compare with")
    parser.add_argument("--draws", type=int, default=defaults.DRAWS, help="defaults: random splits of each table")
    options = parser.parse_args(arguments)
    if options.page == "calibration" and options.data is None:
        parser.error("calibration needs DATA, the folder of the images")
    for progress in _run(options):
        print(progress, flush=True)


def _run(options: argparse.Namespace) -> Iterable[str]:
    if options.page == "posthoc":
        return posthoc.lines()
    if options.page == "defaults":
        return defaults.written(
            options.data, options.work, options.out, options.part or (), options.before, options.draws
        )
    if options.page == "verdicts":
        return verdicts.regenerate(options.out, options.tables)
    return regenerate(options.data, options.work, options.out, options.step or STEPS, options.part)


if __name__ == "__main__":
    main()
