"""Benches whose rows are tuned over two learning rates, of which one is hopeless."""

import json

import frostbench.benchmarks.runs.train_missing as train_missing
from frostbench.benchmarks.runs.store import SEAL, run_folder
from frostbench.benchmarks.settings.plan import BenchSpec
from frostbench.training.engine.events import Failed, Finished

SHORT = {"train.schedule.epochs": 8, "train.schedule.min_steps": 0, "train.schedule.batch_size": 32}
LR = "train.optim.lr"
RATES = {LR: (1e-6, 0.1)}


def bench_of(folder, **fields):
    known = {"caches": (str(folder / "cache"),), "store": str(folder / "s"), "preset": "plain", "base": SHORT}
    return BenchSpec(**(known | {"seeds": (0, 1)} | fields))


def tuned_bench(folder, **fields):
    """Three rows: two of two learning rates, of which one is hopeless, and one with nothing to tune."""
    toggles = {"smooth": {"train.loss.smoothing.epsilon": 0.1}, "solved": {"head.classifier.kind": "ridge"}}
    tune = {"plain": RATES, "smooth": [{LR: 0.05}, {"train": {"optim": {"lr": 1e-6}}}], "solved": {}}
    return bench_of(folder, **({"toggles": toggles, "tune": tune} | fields))


def of_kind(events, *kinds):
    return [event for event in events if isinstance(event, kinds)]


def fail(monkeypatch, which):
    """Let training give no head where a run is such."""
    real = train_missing.fit

    def failing(runs, data, stop, checkpoints, **rest):
        for event in real(runs, data, stop, checkpoints, **rest):
            is_so = isinstance(event, Finished) and which(runs[event.run])
            yield Failed(event.run, "it diverged. Lower train.optim.lr.") if is_so else event

    monkeypatch.setattr(train_missing, "fit", failing)


def change_metric(folder, key, metric, value):
    path = run_folder(folder / "s", key) / "record.json"
    record = json.loads(path.read_text())
    record.pop(SEAL, None)
    record["evaluations"]["select"]["metrics"][metric] = value
    path.write_text(json.dumps(record))
