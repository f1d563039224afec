"""`python -m frostbench.benchmarks.results calibration DATA`: train the missing runs and regenerate the page.

Other pages: `posthoc` prints the table of docs/calibration.md. `verdicts` writes the page on level and power of
verdicts, from simulations. Neither needs images. `defaults [DATA]` evaluates heads at their defaults on vectors of any
scale and writes the generated part of docs/results/defaults.md; `--part digits` runs only the table of that name,
`--before FOLDER` compares with the heads of an older checkout, and DATA adds tables of images.

`phases`, `full`, `factorial` and `tuned` run shipped benches on all data sets; `--part coins/lite0` embeds and trains
only that data set and backbone. `hypotheses` judges the claims of docs/results/hypotheses.yaml on their runs, and
`explorer` makes one page to search all of their results. `five_liners [DATA]` compares presets with scikit-learn's
classifiers; `--part` and `--draws` are as for `defaults`. `labels` measures what to label next and which labels to
check; `--part coins` does so on that data set only. `all` makes every page.

DATA is a folder with coins.tar, blood_cells.tar, grocery.tar and plankton.tar, or with these unpacked: a folder of
images each, with manifest.csv (path, label, group, split). `calibration` and the shipped benches can be interrupted and
resumed; `--step train --part HEAD/CACHE` trains a part of the runs, also in several processes at the same time.
"""

import argparse
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from itertools import chain
from pathlib import Path

from frostbench.benchmarks.results import calibration, posthoc, verdicts
from frostbench.benchmarks.results.ablation import hypotheses, pages
from frostbench.benchmarks.results.ablation.running import PAGES
from frostbench.benchmarks.results.calibration import STEPS
from frostbench.benchmarks.results.defaults import page as defaults
from frostbench.benchmarks.results.explorer import build as explorer
from frostbench.benchmarks.results.five_liners import page as five_liners
from frostbench.benchmarks.results.labels import page as labels

ALL = "all"
"""Stands for every page."""


def main(arguments: Sequence[str] | None = None) -> None:
    """Parse the command line and run its steps."""
    parser = argparse.ArgumentParser(prog="python -m frostbench.benchmarks.results", description=__doc__)
    parser.add_argument("page", choices=[*_pages(), *_last_pages(), ALL])
    parser.add_argument("data", type=Path, nargs="?", help="folder of the images; required for calibration and labels")
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
    parser.add_argument("--draws", type=int, help="defaults, five_liners, labels: random splits")
    options = parser.parse_args(arguments)
    if options.page in ("calibration", "labels", ALL) and options.data is None:
        parser.error(f"{options.page} needs DATA, the folder of the images")
    for progress in _run(options):
        print(progress, flush=True)


def _run(options: argparse.Namespace) -> Iterable[str]:
    if options.page == ALL:
        # The explorer and the hypotheses read what the other pages leave.
        return chain.from_iterable(page(options) for page in (*_pages().values(), *_last_pages().values()))
    return (_pages() | _last_pages())[options.page](options)


def _pages() -> dict[str, Callable[[argparse.Namespace], Iterable[str]]]:
    """Return what makes each page."""
    return {
        "posthoc": lambda _: posthoc.lines(),
        "verdicts": lambda o: verdicts.regenerate(o.out, o.tables),
        "calibration": lambda o: calibration.regenerate(o.data, o.work, o.out, o.step or STEPS, o.part),
        "defaults": lambda o: defaults.written(
            o.data, o.work, o.out, o.part or (), o.before, o.draws or defaults.DRAWS
        ),
        "five_liners": lambda o: five_liners.written(o.data, o.work, o.out, o.part or (), o.draws),
        "labels": lambda o: labels.written(o.data, o.work, o.out, o.part or (), o.draws),
        **{name: partial(_on_benches, name) for name in PAGES},
    }


def _on_benches(page: str, options: argparse.Namespace) -> Iterable[str]:
    steps = options.step or STEPS
    return pages.regenerate(page, options.data, options.work, options.out, steps, options.part or ())


def _last_pages() -> dict[str, Callable[[argparse.Namespace], Iterable[str]]]:
    return {
        "hypotheses": lambda o: hypotheses.regenerate(o.work, o.out),
        "explorer": lambda o: explorer.regenerate(o.out),
    }


if __name__ == "__main__":
    main()
