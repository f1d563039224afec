"""Calibration and decisions in a bench: reports, comparisons and exports."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from frostbench.benchmarks.runs.evaluate import part_of
from frostbench.benchmarks.runs.events import RowStarted, RunDone
from frostbench.benchmarks.runs.runner import run_bench
from frostbench.benchmarks.runs.store import read_outcomes
from frostbench.benchmarks.settings.plan import BenchSpec
from frostbench.embedcache.splits.making import load_or_make_split
from frostbench.embedcache.table import read_table
from frostbench.heads.bundle.export import load
from frostbench.heads.posthoc.calibrators.rows import Calibration
from frostbench.heads.posthoc.crossfit import cross_fitted, folds_of
from frostbench.heads.posthoc.pipeline import Layers
from frostbench.heads.posthoc.spec import PosthocSpec
from frostbench.training.metrics.classification import all_metrics

DECIDED = {
    "posthoc.calibration.kind": "vector",
    "posthoc.thresholds": {"kind": "coordinate_ascent", "metric": "balanced_accuracy", "shrink": 3},
    "head.classifier.kind": "logreg",
}
SHIFTED = {
    "posthoc.calibration.kind": "none",
    "posthoc.shift": {"kind": "given", "logits": {"fir": 6.0}},
    "head.classifier.kind": "logreg",
}
ROWS = {"by_calibrate": DECIDED, "by_select": DECIDED | {"posthoc.rows": "select"}, "shifted": SHIFTED}


@pytest.fixture(scope="module")
def ran(write_cache, tmp_path_factory):
    cache = write_cache(tmp_path_factory.mktemp("posthoc") / "cache")
    bench = BenchSpec(
        caches=(str(cache),),
        store=str(cache.parent / "runs"),
        preset="plain",
        base={"train.schedule": {"epochs": 2, "min_steps": 0}},
        toggles=ROWS,
        ensembles={"together": ("by_calibrate", "shifted")},
        seeds=(0,),
    )
    events = list(run_bench(bench))
    table = read_table(cache)
    done = {event.row: event for event in events if isinstance(event, RunDone)}
    return table, load_or_make_split(cache, table, bench.split), done, events


def kept(done, store, row, role):
    return read_outcomes(store, done[row].record.key, role)


@pytest.mark.parametrize("role", ["select", "test"])
@pytest.mark.parametrize("row", ["by_calibrate", "shifted"])
def test_figures_are_of_the_decided_classes(ran, row, role):
    table, split, done, _ = ran
    head = load(done[row].folder / "head").head
    part = part_of(table, split.roles == role)
    log_p = head.log_probabilities(part.columns)
    predicted = head.decide(log_p)
    assert not torch.equal(predicted, log_p.argmax(1))
    wanted = all_metrics(log_p, part.labels, head.counts, (), predicted)
    assert done[row].record.evaluations[role].metrics == pytest.approx(wanted, abs=1e-6)
    plain = all_metrics(log_p, part.labels, head.counts)
    assert wanted["nll"] == plain["nll"]
    assert wanted["accuracy"] != plain["accuracy"]
    store = Path(done[row].folder).parents[1]
    outcomes = kept(done, store, row, role)
    assert outcomes["predicted"].tolist() == predicted.tolist()
    own = log_p.double().exp()[torch.arange(len(predicted)), predicted]
    assert outcomes["confidence"].to_numpy() == pytest.approx(own.numpy(), abs=1e-6)


def test_selection_rows_that_fit_are_judged_by_cross_fitting_and_the_head_has_all(ran):
    table, split, done, _ = ran
    record = done["by_select"].record
    head = load(done["by_select"].folder / "head").head
    part = part_of(table, split.roles == "select")
    logits = head.logits(part.columns)
    spec = PosthocSpec.model_validate(record.full_spec["posthoc"])
    layers = Layers.of(spec, table.class_names)
    whole = layers.fitted_to(Calibration(logits, part.labels))
    assert torch.equal(head.layers.bias, whole.bias)
    answers = cross_fitted(layers, logits, part.labels, folds_of(part.labels, part.groups))
    wanted = all_metrics(answers.log_p, part.labels, head.counts, (), answers.predicted)
    assert record.evaluations["select"].metrics == pytest.approx(wanted, abs=1e-6)
    optimistic = all_metrics(whole.log_probabilities(logits), part.labels, head.counts)
    assert record.evaluations["select"].metrics["nll"] > optimistic["nll"]
    tested = part_of(table, split.roles == "test")
    log_p = head.log_probabilities(tested.columns)
    wanted = all_metrics(log_p, tested.labels, head.counts, (), head.decide(log_p))
    assert record.evaluations["test"].metrics == pytest.approx(wanted, abs=1e-6)


def test_test_rows_move_nothing_that_is_fitted(ran, write_cache, tmp_path):
    """With other labels on the test rows, calibration and decisions stay the same."""
    table, split, done, _ = ran
    chosen = np.flatnonzero(split.roles == "test")
    relabelled = table.labels.copy()
    relabelled[chosen] = (relabelled[chosen] + 1) % len(table.class_names)
    from frostbench.benchmarks.runs.evaluate import table_to_data
    from frostbench.training.engine.events import Finished
    from frostbench.training.engine.fit import fit
    from frostbench.training.run import RunSpec

    spec = RunSpec.model_validate(done["by_calibrate"].record.full_spec)
    other = table_to_data(replace(table, labels=relabelled), split)
    (end,) = [event for event in fit([spec], other) if isinstance(event, Finished)]
    head = load(done["by_calibrate"].folder / "head").head
    # A head trained alone equals the one from the bench's stack up to rounding.
    assert torch.allclose(end.head.layers.bias, head.layers.bias, atol=1e-5)
    pairs = [(end.head.layers.numbers[name], value) for name, value in head.layers.numbers.items()]
    assert all(torch.allclose(found, value, rtol=1e-4, atol=1e-5) for found, value in pairs)


def test_an_ensemble_decides_by_the_mean_of_what_its_members_add(ran):
    table, split, done, _ = ran
    heads = [load(done[row].folder / "head").head for row in ("by_calibrate", "shifted")]
    part = part_of(table, split.roles == "select")
    mean = sum(head.log_probabilities(part.columns).double().exp() for head in heads) / 2
    bias = sum(head.layers.bias for head in heads) / 2
    predicted = (mean.log() + bias).argmax(1)
    outcomes = kept(done, Path(done["shifted"].folder).parents[1], "together", "select")
    assert outcomes["predicted"].tolist() == predicted.tolist()
    assert predicted.tolist() != mean.argmax(1).tolist()


def test_few_rows_are_told_before_training(ran):
    _, split, _, events = ran
    told = {event.row: " ".join(event.warnings) for event in events if isinstance(event, RowStarted)}
    for row, role in (("by_calibrate", "calibrate"), ("by_select", "select")):
        rows = int((split.roles == role).sum())
        assert f"posthoc.calibration.kind=vector is fitted to {rows} rows" in told[row]
    assert "of 6 classes are tuned on fewer than 3 rows" in told["by_calibrate"]
    assert "fitted to" not in told["shifted"]
