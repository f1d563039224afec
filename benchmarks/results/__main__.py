"""`python -m benchmarks.results calibration DATA`: train what is missing, and write the page anew.

`posthoc` in place of `calibration DATA` prints the table of docs/calibration.md. DATA is a folder with coins.tar,
blood_cells.tar and grocery.tar, or with these unpacked: a folder of images each, with manifest.csv (path, label, group,
split). The work can be stopped at any time and goes on where it was; `--step train --part HEAD/CACHE` trains a part of
it, which several processes may do side by side.
"""

import argparse
from collections.abc import Sequence
from pathlib import Path

from benchmarks.results import posthoc
from benchmarks.results.calibration import STEPS, regenerate


def main(arguments: Sequence[str] | None = None) -> None:
    """Read the command line and do the steps that it names."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.results", description=__doc__)
    parser.add_argument("page", choices=["calibration", "posthoc"])
    parser.add_argument("data", type=Path, nargs="?", help="folder of the images; posthoc needs none")
    parser.add_argument("--work", type=Path, default=Path("results-work"), help="caches and runs; may be large")
    parser.add_argument("--out", type=Path, default=Path("docs/results"), help="folder of the page")
    parser.add_argument("--step", choices=STEPS, action="append", help="one step alone; repeat for several")
    parser.add_argument("--part", action="append", help="HEAD/CACHE, as mlp/coins-lite0: train or report this alone")
    chosen = parser.parse_args(arguments)
    if chosen.page == "calibration" and chosen.data is None:
        parser.error("calibration needs the folder of the images: python -m benchmarks.results calibration DATA")
    made = regenerate(chosen.data, chosen.work, chosen.out, chosen.step or STEPS, chosen.part)
    for words in posthoc.lines() if chosen.page == "posthoc" else made:
        print(words, flush=True)


if __name__ == "__main__":
    main()
