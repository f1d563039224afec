"""A refit equals training on the joined rows with all choices fixed."""

import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from frostbench.benchmarks.api import fit as fit_in_python
from frostbench.benchmarks.runs.evaluate import part_of
from frostbench.benchmarks.runs.events import RunDone
from frostbench.benchmarks.runs.refit import refitted, refitted_on, repeated
from frostbench.benchmarks.runs.runner import run_bench
from frostbench.benchmarks.settings.plan import BenchSpec
from frostbench.embedcache.splits.making import load_or_make_split
from frostbench.embedcache.table import read_table
from frostbench.heads.posthoc.spec import NoCalibration, fit_temperature
from frostbench.training.data.part import Data
from frostbench.training.engine.events import Choices, Failed, Finished
from frostbench.training.engine.fit import fit
from frostbench.training.run import RunSpec
from frostbench.training.spec.stage import EarlyStop

BASE = {
    "train.schedule.epochs": 6,
    "train.schedule.min_steps": 0,
    "train.schedule.batch_size": 32,
    "train.optim.lr": 0.05,
}
ROWS = {
    "stepped": {"train.schedule.min_steps": 40, "train.loss.class_weight.kind": "effective"},
    "calibrated": {"posthoc.calibration.kind": "temperature"},
    "crt": {"head.body": {"kind": "mlp", "hidden": [4]}, "second": {"kind": "crt", "epochs": 3}},
    "lws": {"second": {"kind": "lws", "epochs": 3}, "posthoc.calibration.kind": "temperature"},
    "tau_norm": {"second.kind": "tau_norm"},
    "tuned": {"posthoc.adjustment.rule": "tuned", "posthoc.calibration.kind": "temperature"},
    "logreg": {"head.classifier.kind": "logreg"},
    "ncm": {"head.classifier.kind": "ncm"},
    "gaussian": {"train.oversample.kind": "gaussian"},
    "decided": {"posthoc": {"calibration": {"kind": "vector"}, "thresholds": {"kind": "coordinate_ascent"}}},
    "by_select": {"posthoc": {"calibration": {"kind": "vector"}, "rows": "select"}},
}


def bench_of(cache, **fields):
    known = {"caches": (str(cache),), "store": str(cache.parent / "runs"), "preset": "plain", "base": BASE}
    return BenchSpec(**(known | {"seeds": (0,)} | fields))


@pytest.fixture(scope="module")
def ran(write_cache, tmp_path_factory):
    """Table, split and finished runs by row."""
    cache = write_cache(tmp_path_factory.mktemp("refit") / "cache")
    bench = bench_of(cache, toggles=ROWS)
    done = {event.row: event.record for event in run_bench(bench) if isinstance(event, RunDone)}
    table = read_table(cache)
    return table, load_or_make_split(cache, table, bench.split), done


def by_hand(table, split, record):
    """The run with its choices put into its settings by hand, trained on both roles."""
    run, chosen, n_train = RunSpec.model_validate(record.full_spec), record.chosen, int((split.roles == "train").sum())
    train = run.train
    if chosen.epochs:
        steps = math.ceil(n_train / 32)
        epochs = max(6, math.ceil(train.schedule.min_steps / steps))
        schedule = train.schedule.model_copy(update={"epochs": epochs, "min_steps": 0})
        stop = EarlyStop(metric="last", patience=100_000, epoch=chosen.epochs[0])
        train = train.model_copy(update={"schedule": schedule, "early_stop": stop})
    given = {"crt": "epoch", "lws": "epoch", "tau_norm": "tau"}.get(run.second.kind)
    value = chosen.epochs[-1] if given == "epoch" else chosen.power
    second = run.second.model_copy(update={given: value}) if given else run.second
    adjustment = run.posthoc.adjustment.model_copy(update={"rule": "fixed", "tau": chosen.tau})
    posthoc = run.posthoc.model_copy(update={"adjustment": adjustment})
    if chosen.temperature is not None:
        posthoc = posthoc.model_copy(update={"calibration": NoCalibration()})
    spec = run.model_copy(update={"train": train, "second": second, "posthoc": posthoc})
    both, calibrate = np.isin(split.roles, ("train", "select")), split.roles == "calibrate"
    data = Data(part_of(table, both), part_of(table, both), part_of(table, calibrate), table.class_names)
    (end,) = [event for event in fit([spec], data) if isinstance(event, Finished)]
    if chosen.temperature is None:
        return end.head, data
    numbers = {"temperature": torch.tensor(chosen.temperature, dtype=torch.float64)}
    return replace(end.head, layers=replace(end.head.layers, spec=run.posthoc, numbers=numbers)), data


@pytest.mark.parametrize("row", [row for row in ROWS if row != "by_select"])
def test_a_refit_is_the_engine_on_joined_rows_with_all_choices_given(ran, row):
    table, split, done = ran
    (head,) = refitted([done[row]], table, split)
    wanted, data = by_hand(table, split, done[row])
    assert len(data.train) == 142 + 44
    own, other = head.head.state_dict(), wanted.head.state_dict()
    assert own.keys() == other.keys()
    assert all(torch.equal(own[name], other[name]) for name in own)
    assert torch.equal(head.shift, wanted.shift)
    assert head.temperature == wanted.temperature
    log_p = head.log_probabilities(data.train.columns)
    assert torch.equal(log_p, wanted.log_probabilities(data.train.columns))
    assert torch.equal(head.decide(log_p), wanted.decide(log_p))
    labels = data.train.labels
    assert head.priors.counts.tolist() == torch.bincount(labels, minlength=6).tolist()
    assert head.priors.counts.sum() == 186


def test_what_was_chosen_is_what_the_runs_had(ran):
    _, _, done = ran
    for row, epochs in (("stepped", 1), ("crt", 2), ("lws", 2), ("tau_norm", 1), ("logreg", 0), ("ncm", 0)):
        assert len(done[row].chosen.epochs) == epochs, row
    # There are fewer than 50 validation rows per class.
    curve = done["stepped"].curve["nll"]
    assert curve[done["stepped"].chosen.epochs[0] - 1] == pytest.approx(min(curve), abs=1e-6)
    assert done["tau_norm"].chosen.power is not None
    assert done["tuned"].chosen.tau in [k / 20 for k in range(31)]


def test_epochs_stay_those_of_the_training_rows(ran):
    _, _, done = ran
    run = RunSpec.model_validate(done["stepped"].full_spec)
    found = repeated(run, Choices((3,)), 142)
    # 40 steps of 5 batches are 8 epochs; with 186 rows it would be 7.
    assert (found.epochs_for(142), found.epochs_for(186), run.epochs_for(186)) == (8, 8, 7)
    assert found.train.early_stop.epoch == 3


def test_a_second_stage_of_which_nothing_was_kept_is_left_out(ran):
    _, _, done = ran
    run = RunSpec.model_validate(done["crt"].full_spec)
    assert repeated(run, Choices((3, 2)), 142).second == run.second.model_copy(update={"epoch": 2})
    assert repeated(run, Choices((3, 0)), 142).second.kind == "none"


def test_the_temperature_is_fitted_anew_on_calibration_rows(ran):
    table, split, done = ran
    (head,) = refitted([done["calibrated"]], table, split)
    rows = part_of(table, split.roles == "calibrate")
    assert torch.equal(head.calibration.labels, rows.labels)
    assert torch.equal(head.calibration.logits, head.logits(rows.columns))
    assert head.temperature == fit_temperature(head.logits(rows.columns), rows.labels)
    assert head.temperature != done["calibrated"].temperature
    assert refitted([done["stepped"]], table, split)[0].calibration is None


def test_several_runs_come_in_their_order(ran):
    table, split, done = ran
    heads = refitted([done["ncm"], done["stepped"], done["logreg"]], table, split)
    assert [head.spec.classifier.kind for head in heads] == ["ncm", "linear", "logreg"]


def test_facts_claim_no_figures_of_the_refitted_head(ran):
    table, split, done = ran
    record = done["calibrated"]
    (head,) = refitted([record], table, split)
    assert "metrics" not in head.facts
    assert head.facts["metrics_before"] == {r: e.metrics for r, e in record.evaluations.items()}
    refit = head.facts["refit"]
    assert (refit["of"], refit["rows"], refit["rows_by_role"]) == (record.key, 186, {"train": 142, "select": 44})
    assert "Refitted to 186 rows: 142 training rows and 44 validation rows." in refit["note"]
    assert f"metrics_before are those of run {record.key}" in refit["note"]
    assert "The refitted head was not evaluated" in refit["note"]
    assert sum(head.facts["data"]["train_counts"]) == 186
    assert head.recipes["toy"]["hash"] == table.recipes["toy"].hash


def test_test_rows_are_never_touched(ran):
    """NaN in test rows would break any training that read them."""
    table, split, done = ran
    vectors = table.columns["toy"].copy()
    vectors[split.roles == "test"] = np.nan
    (head,) = refitted([done["calibrated"]], replace(table, columns={"toy": vectors}), split)
    (wanted,) = refitted([done["calibrated"]], table, split)
    assert torch.equal(head.head.classifier.weight, wanted.head.classifier.weight)


def test_vectors_may_stay_on_disk(ran):
    table, split, done = ran
    record, tree = done["calibrated"], done["calibrated"].full_spec
    sampler = tree["train"]["sampler"] | {"buffer_rows": 64, "block_rows": 16}
    record = replace(record, full_spec=tree | {"train": tree["train"] | {"sampler": sampler}})
    on_disk = read_table(Path(record.data.cache), stored=True)
    (head,), (wanted,) = (refitted([record], each, split) for each in (on_disk, table))
    assert torch.equal(head.head.classifier.weight, wanted.head.classifier.weight)
    assert (head.temperature, head.priors.counts.sum()) == (wanted.temperature, 186)


def test_what_cannot_be_refitted_is_refused(ran, monkeypatch):
    table, split, done = ran
    record = done["stepped"]
    with pytest.raises(ValueError, match=r"cross-validated split the head is already fitted to all rows"):
        refitted([record], table, replace(split, folds=np.zeros((1, len(table.ids)), dtype=np.int64)))
    none = np.where(split.roles == "select", "train", split.roles)
    with pytest.raises(ValueError, match="this split has no validation rows"):
        refitted([record], table, replace(split, roles=none))
    with pytest.raises(ValueError, match=rf"run {record.key} was trained on others"):
        refitted([record], table, replace(split, hash="other"))
    with pytest.raises(ValueError, match=r"validation rows.* \(posthoc\.rows\) is select"):
        refitted([done["by_select"]], table, split)
    with pytest.raises(ValueError, match=rf"run {record.key} diverged at epoch {record.epoch}"):
        refitted([replace(record, reason="diverged")], table, split)
    monkeypatch.setattr(
        "frostbench.benchmarks.runs.refit.fit", lambda runs, data: iter([Failed(0, "it diverged in epoch 1.")])
    )
    with pytest.raises(ValueError, match=r"seed 0 failed: it diverged in epoch 1\. Export with --no-refit"):
        refitted([record], table, split)


def test_a_device_that_is_not_here_is_told(cache):
    with pytest.raises(ValueError, match="must be cpu, cuda, cuda:N or mps, got 'auto'"):
        refitted_on(bench_of(cache), str(cache), [], "auto")


def test_a_refit_that_diverges_gives_no_head(ran):
    table, split, done = ran
    tree = done["stepped"].full_spec
    # Each of its 40 steps multiplies the weights by about -1000.
    wild = tree | {"train": tree["train"] | {"optim": {"kind": "sgd", "lr": 100.0, "weight_decay": 10.0}}}
    with pytest.raises(ValueError, match="The refit of seed 0 failed: "):
        refitted([replace(done["stepped"], full_spec=wild)], table, split)


def test_in_python_a_fit_may_end_with_a_refit(cache):
    plain = fit_in_python(cache, None, BASE, preset="plain", refit=False)
    again = fit_in_python(cache, None, BASE, preset="plain")
    assert (plain.head.priors.counts.sum(), again.head.priors.counts.sum()) == (142, 186)
    assert again.metrics == plain.metrics
    assert str(plain).startswith("head on validation rows (select), all_epochs\n")
    assert "before the refit" in str(again).splitlines()[0]
    folds = {"folds": 3, "test": 0}
    with pytest.raises(ValueError, match="cross-validated split"):
        fit_in_python(cache, None, BASE, preset="plain", split=folds, refit=True)
    told = fit_in_python(cache, None, BASE, preset="plain", split=folds)
    assert not told.is_refitted
    assert any(warning.startswith("not refitted: ") and "cross-validated split" in warning for warning in told.warnings)
