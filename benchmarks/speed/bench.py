"""Benches: stacks against runs one by one, the estimate of a dry run, and stores of 10,000 runs.

- stacked: 200 runs with 4 skeletons in one bench, against each run in a bench of its own (some of them, scaled).
- sklearn: 50 strengths of logistic regression as a bench, with reading, metrics, notes and storing, against a loop of
  scikit-learn over fit, predict_proba, macro F1 and log loss on the same rows, solved to the same tolerance.
- dry_run: seconds that a dry run estimates for this bench, as a multiple of the seconds that it takes; the goal is at
  least a half, and the figure must not exceed 2 either. No run stops early.
- list: reading all runs of a store of 10,000 as a table, against a limit of one second.
- end: what the end of a bench does in that store when one run is new, against a limit of one second.
"""

import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import f1_score, log_loss
from sklearn.preprocessing import StandardScaler

from frostbench.benchmarks.arrays import cache_of
from frostbench.benchmarks.runs.all_runs import read_records, write_records
from frostbench.benchmarks.runs.dry_run import plan_bench
from frostbench.benchmarks.runs.evaluate import table_to_data
from frostbench.benchmarks.runs.keys import rows_of
from frostbench.benchmarks.runs.runner import run_bench
from frostbench.benchmarks.runs.store import as_json, read_record, run_folder
from frostbench.benchmarks.runs.streaming import opened_to_train
from frostbench.benchmarks.settings.parsing import parse
from frostbench.benchmarks.settings.plan import BenchSpec
from frostbench.benchmarks.speed.fake_runs import write_fake_runs
from frostbench.benchmarks.speed.harness import Figure, figure
from frostbench.training.data.part import Data

SKELETONS: Mapping[str, dict[str, object]] = {
    "linear": {},
    "MLP": {"head.body.kind": "mlp", "head.body.hidden": [64]},
    "cosine": {"head.classifier.kind": "cosine"},
    "prototype": {"head.classifier.kind": "prototype"},
}
RUNS, QUICK_RUNS = 10_000, 500
"""Runs of the store that is listed."""
LIST_SECONDS = END_SECONDS = 1.0


def figures(quick: bool) -> Iterator[Figure]:
    """Yield the five figures; `quick` uses 40 runs, 10 strengths and a store of 500."""
    with tempfile.TemporaryDirectory(prefix="frostbench-speed-") as folder:
        yield from trained(Path(folder), rates=10 if quick else 50, alone=2 if quick else 5)
    with tempfile.TemporaryDirectory(prefix="frostbench-speed-") as folder:
        yield beside_sklearn(Path(folder), strengths=10 if quick else 50)
    with tempfile.TemporaryDirectory(prefix="frostbench-speed-") as folder:
        yield from listed(Path(folder), QUICK_RUNS if quick else RUNS)


def trained(folder: Path, rates: int, alone: int) -> Iterator[Figure]:
    """Yield the figures of training `rates` learning rates per skeleton, of which `alone` are trained one by one."""
    cache = _drawn_cache(folder)
    values = np.geomspace(1e-4, 3e-2, rates).round(6).tolist()
    rows = {
        f"{name} {rate}": changes | {"train.optim.lr": rate} for name, changes in SKELETONS.items() for rate in values
    }
    whole = _bench(cache, folder / "whole", rows)
    (plan,) = plan_bench(whole)
    together = _seconds(partial(list, run_bench(whole)))
    chosen = [name for name in rows if float(name.split()[1]) in values[:: max(1, rates // alone)][:alone]]
    benches = [_bench(cache, folder / "single", {name: rows[name]}) for name in chosen]
    single = sum(_seconds(partial(list, run_bench(bench))) for bench in benches) * len(rows) / len(chosen)
    unit = f"seconds one by one / our seconds, {len(rows)} runs in 4 skeletons, {len(chosen)} of them one by one"
    yield figure("bench.stacked", [(together, single)], [single / together], goal=2.0, unit=unit)
    ratio = plan.seconds / together
    result = figure("bench.dry_run", [(plan.seconds, together)], [ratio], goal=0.5, unit="estimated / actual seconds")
    yield replace(result, ok=0.5 <= ratio <= 2.0)


def beside_sklearn(folder: Path, strengths: int) -> Figure:
    """Return the figure of this many strengths of logistic regression, once as a bench and once with scikit-learn."""
    cache = _drawn_cache(folder)
    values = np.geomspace(1e-3, 10, strengths).round(8).tolist()
    rows = {f"C={c}": {"head.classifier.kind": "logreg", "head.classifier.c": c} for c in values}
    bench = _bench(cache, folder / "store", rows)
    table, split, _ = opened_to_train(cache, bench, rows_of(bench), "cpu", "never")
    data = table_to_data(table, split)
    ours = _seconds(partial(list, run_bench(bench)))
    peer = _seconds(partial(_sklearn, data, values))
    unit = f"scikit-learn's seconds / our seconds, {strengths} strengths of logistic regression"
    return figure("bench.sklearn", [(ours, peer)], [peer / ours], goal=1.0, unit=unit)


def _sklearn(data: Data, strengths: list[float]) -> None:
    """Fit and evaluate one strength after the other on standardised rows."""
    train, held_out = (next(iter(part.columns.values())).numpy() for part in (data.train, data.select))
    scaler = StandardScaler().fit(train)
    x, held_out = scaler.transform(train), scaler.transform(held_out)
    for c in strengths:
        model = LogisticRegression(C=c, tol=1e-6, max_iter=5000).fit(x, data.train.labels)
        p = model.predict_proba(held_out)
        f1_score(data.select.labels, model.classes_[p.argmax(1)], average="macro")
        log_loss(data.select.labels, p, labels=model.classes_)


def _drawn_cache(folder: Path) -> str:
    """Write a cache of 2,000 vectors with 128 numbers in 20 classes, and return its path."""
    rng = np.random.default_rng(0)
    labels = rng.integers(0, 20, 2000)
    x = rng.normal(size=(20, 128))[labels] + rng.normal(scale=3, size=(2000, 128))
    return str(cache_of(x.astype(np.float32), labels, None, None, None, folder / "cache").folder)


def _bench(cache: str, store: Path, rows: dict[str, dict[str, object]]) -> BenchSpec:
    base = {"train.schedule.epochs": 10, "train.early_stop.metric": "last", "head.preprocess.center": True}
    first, *others = rows
    tree = {"name": "speed", "preset": "plain", "caches": [cache], "store": str(store), "seeds": [0]}
    return parse(BenchSpec, tree | {"base": base | rows[first], "toggles": {name: rows[name] for name in others}})


def listed(store: Path, runs: int) -> Iterator[Figure]:
    """Yield the figures of a store with this many runs."""
    first, _ = write_fake_runs(store, rows=200, classes=10)
    record = read_record(store, first)
    for number in range(runs - 2):
        key = f"copy-{number:06d}"
        path = run_folder(store, key) / "record.json"
        path.parent.mkdir(parents=True)
        path.write_text(as_json(replace(record, key=key)), encoding="utf-8")
    write_records(store)
    seconds = [_seconds(lambda: read_records(store)) for _ in range(3)]
    unit = f"limit of {LIST_SECONDS:g} s / our seconds, {runs} runs"
    pairs = [(s, LIST_SECONDS) for s in seconds]
    yield figure("bench.list", pairs, [LIST_SECONDS / s for s in seconds], goal=1.0, unit=unit)
    ends = []
    for number in range(3):
        path = run_folder(store, f"new-{number}") / "record.json"
        path.parent.mkdir()
        path.write_text(as_json(replace(record, key=f"new-{number}")), encoding="utf-8")
        ends.append(_seconds(lambda: write_records(store)))
    pairs = [(s, END_SECONDS) for s in ends]
    yield figure("bench.end", pairs, [END_SECONDS / s for s in ends], goal=1.0, unit=unit)


def _seconds(work: Callable[[], object]) -> float:
    began = time.perf_counter()
    work()
    return time.perf_counter() - began
