"""A bench of three rows and two ensembles of them, and their means by hand."""

from pathlib import Path

import numpy as np
import torch

from frostbench.benchmarks.runs.store import run_folder
from frostbench.benchmarks.runs.tuning import chosen_rows
from frostbench.benchmarks.settings.plan import BenchSpec
from frostbench.embedcache.splits.making import load_or_make_split
from frostbench.embedcache.table import read_table
from frostbench.heads.bundle.export import load

BASE = {
    "train.schedule.epochs": 3,
    "train.schedule.min_steps": 0,
    "train.schedule.batch_size": 64,
    "train.optim.lr": 0.02,
    "posthoc.calibration.kind": "temperature",
}
TOGGLES = {"logreg": {"head.classifier.kind": "logreg"}, "ncm": {"head.classifier.kind": "ncm"}}
ENSEMBLES = {"both": ("plain", "logreg"), "all": ("ncm", "plain", "logreg")}


def bench_of(cache, **fields):
    known = {"caches": (str(cache),), "store": str(cache.parent / "runs"), "preset": "plain", "base": BASE}
    return BenchSpec(**(known | {"toggles": TOGGLES, "ensembles": ENSEMBLES, "seeds": (0, 1)} | fields))


def kinds(events, kind):
    return [event for event in events if isinstance(event, kind)]


def by_hand(bench, rows, seed, role):
    """The mean of the probabilities [N, C] of the heads of rows, their labels and ids."""
    store, cache = bench.store, bench.caches[0]
    table = read_table(Path(cache))
    chosen = load_or_make_split(Path(cache), table, bench.split).roles == role
    vectors = torch.from_numpy(table.columns["toy"][chosen].astype(np.float32))
    keys = chosen_rows(bench)[0].rows
    folders = [run_folder(Path(store), keys[row][bench.seeds.index(seed)]) / "head" for row in rows]
    each = [load(folder).head.log_probabilities({"toy": vectors}).double().exp() for folder in folders]
    return sum(each) / len(each), torch.from_numpy(table.labels[chosen]), table.ids[chosen]
