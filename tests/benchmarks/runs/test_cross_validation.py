"""Cross-validation with three images per class, from vectors to a comparison and an exported head."""

import json

import numpy as np
import pytest
import torch

from frostbench.benchmarks.api import fit
from frostbench.benchmarks.arrays import cache_of
from frostbench.benchmarks.comparison.compare import compare
from frostbench.benchmarks.runs.events import BenchStopped, RunDone, RunEpoch, RunFold, RunSkipped
from frostbench.benchmarks.runs.runner import bench_rows, run_bench
from frostbench.benchmarks.runs.store import SEAL, read_outcomes, read_record
from frostbench.benchmarks.settings.parsing import SettingsError, parse
from frostbench.benchmarks.settings.plan import BenchSpec
from frostbench.embedcache.splits.making import load_or_make_split
from frostbench.embedcache.table import read_table
from frostbench.heads.bundle.export import load
from frostbench.training.metrics.classification import all_metrics

CLASSES, DIM = 8, 6
BASE = {
    "train.schedule.epochs": 6,
    "train.schedule.min_steps": 0,
    "train.schedule.batch_size": 8,
    "train.optim.lr": 0.05,
    "posthoc.calibration.kind": "temperature",
}


@pytest.fixture(scope="module")
def vectors():
    generator = np.random.default_rng(5)
    labels = np.repeat(np.arange(CLASSES), 3)
    x = generator.normal(0, 1, (CLASSES, DIM))[labels] * 1.5 + generator.normal(0, 1, (len(labels), DIM))
    return x.astype(np.float32), [f"class {label}" for label in labels]


@pytest.fixture
def cache(vectors, tmp_path):
    x, labels = vectors
    groups = [f"g{i}" for i in range(len(labels))]
    return cache_of(x, labels, groups, None, None, tmp_path / "cache").folder


def bench_of(cache, **fields):
    known = {"caches": [str(cache)], "store": str(cache.parent / "runs"), "preset": "plain", "base": BASE}
    return parse(BenchSpec, known | {"seeds": [0, 1], "split": {"folds": 3, "test": 0}} | fields)


def kinds(events, kind):
    return [event for event in events if isinstance(event, kind)]


def test_three_images_a_class_from_run_to_comparison(cache):
    bench = bench_of(cache, toggles={"ridge": {"head.classifier.kind": "ridge"}, "slow": {"train.optim.lr": 0.01}})
    events = list(run_bench(bench))
    done = {(event.row, event.record.seed): event for event in kinds(events, RunDone)}
    assert len(done) == 6
    assert {row: event.record.together for (row, _), event in done.items()} == {"plain": 2, "slow": 2, "ridge": 1}
    table = read_table(cache)
    split = load_or_make_split(cache, table, bench.split)
    for event in done.values():
        record, outcomes = event.record, read_outcomes(cache.parent / "runs", event.record.key, "select")
        assert outcomes["id"].tolist() == sorted(table.ids.tolist())
        assert list(record.evaluations) == ["select"]
        assert (record.data.folds, record.data.rows["train"], record.data.rows["select"]) == (3, 24, 0)
        assert record.data.train_counts == (3,) * CLASSES
        assert record.data.split == split.hash
        assert record.evaluations["select"].metrics["nll"] == pytest.approx(-outcomes["log_p"].mean())
        head = load(event.folder / "head").head
        assert len(head.calibration.labels) == 24
        # The head does better on the rows it was fitted to than the held-out predictions that are evaluated.
        own = head.log_probabilities({name: torch.from_numpy(np.array(each)) for name, each in table.columns.items()})
        fitted = all_metrics(own, torch.from_numpy(np.array(table.labels)), head.priors.counts)
        assert fitted["nll"] < record.evaluations["select"].metrics["nll"]
    stepped = done["plain", 0].record
    assert len(stepped.curve["nll"]) == len(stepped.curve["loss"]) == 6
    assert stepped.curve["macro_f1_fg"][stepped.epoch - 1] == max(stepped.curve["macro_f1_fg"])
    found = compare(cache.parent / "runs", bench_rows(bench)[0].rows)
    assert (found.n_rows, found.n_groups) == (24, 24)
    assert any(note.startswith("Cross-validated, 3 folds: validation metrics") for note in found.notes)
    assert not any("chose their epoch on the images" in note for note in found.notes)
    assert found.line("ridge", "macro_f1_fg")["value"] == pytest.approx(
        np.mean([done["ridge", seed].record.evaluations["select"].metrics["macro_f1_fg"] for seed in (0, 1)])
    )


def test_progress_is_told_by_fits_and_then_by_the_mean_course(cache):
    events = list(run_bench(bench_of(cache, seeds=[0])))
    assert [(event.done, event.fits) for event in kinds(events, RunFold)] == [(i, 7) for i in range(1, 8)]
    assert [(event.epoch, event.epochs) for event in kinds(events, RunEpoch)] == [(i, 6) for i in range(1, 7)]


def test_test_rows_are_judged_by_the_refitted_head(cache, vectors):
    x, labels = vectors
    tripled = np.concatenate([x, x + 0.1, x - 0.1])
    many = cache_of(tripled, labels * 3, None, None, None, cache.parent / "many").folder
    bench = bench_of(many, seeds=[0], split={"folds": 3})
    (event,) = kinds(run_bench(bench), RunDone)
    table, record = read_table(many), event.record
    test = load_or_make_split(many, table, bench.split).roles == "test"
    assert set(record.evaluations) == {"select", "test"}
    log_p = load(event.folder / "head").head.log_probabilities(
        {name: torch.from_numpy(each[test]) for name, each in table.columns.items()}
    )
    counts = torch.tensor(record.data.train_counts)
    wanted = all_metrics(log_p, torch.from_numpy(np.array(table.labels[test])), counts)
    assert record.evaluations["test"].metrics == pytest.approx(wanted)
    assert int(counts.sum()) == (~test).sum()
    outcomes = read_outcomes(many.parent / "runs", record.key, "select")
    assert not set(outcomes["id"]) & set(table.ids[test].tolist())


def test_a_stopped_bench_goes_on_where_it_was(cache):
    bench = bench_of(cache, toggles={"ridge": {"head.classifier.kind": "ridge"}}, seeds=[0])
    seen = []

    def stop():
        return bool(kinds(seen, RunDone))

    for event in run_bench(bench, stop=stop):
        seen.append(event)
    assert isinstance(seen[-1], BenchStopped)
    assert [event.row for event in kinds(seen, RunDone)] == ["plain"]
    again = list(run_bench(bench))
    assert [event.row for event in kinds(again, RunDone)] == ["ridge"]
    assert [event.row for event in kinds(again, RunSkipped)] == ["plain"]


def test_other_folds_are_another_run(cache):
    splits = ({"folds": 3}, {"folds": 2}, {"folds": 3, "repeats": 2}, {"rule": "leave_one_group_out"})
    keys = {bench_rows(bench_of(cache, split={"test": 0} | split))[0].rows["plain"][0] for split in splits}
    assert len(keys) == 4


def test_shares_of_their_own_are_refused_beside_folds(cache):
    with pytest.raises(SettingsError, match="Cross-validation has no validation and calibration rows"):
        bench_of(cache, split={"folds": 3, "select": 0.3})


def test_the_python_api_and_leaving_out_each_group(vectors):
    x, labels = vectors
    settings = {"head.classifier.kind": "ridge"}
    split = {"rule": "leave_one_group_out", "test": 0}
    fitted = fit(x[:12], labels[:12], settings, preset="plain", split=split)
    assert fitted.record.data.folds == 12
    assert fitted.metrics["accuracy"] is not None
    assert fitted.predict(x[:2]).shape == (2,)


def test_a_record_without_the_new_fields_still_reads(cache):
    (event,) = kinds(run_bench(bench_of(cache, seeds=[0], base={"head.classifier.kind": "ridge"})), RunDone)
    path = event.folder / "record.json"
    tree = json.loads(path.read_text())
    del tree["together"], tree["data"]["folds"], tree[SEAL]
    path.write_text(json.dumps(tree))
    old = read_record(cache.parent / "runs", event.record.key)
    assert (old.together, old.data.folds) == (1, 0)
