"""Rows that training uses, and metrics of the stored head."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from short_benches import SHORT, bench_of, kinds

from frostbench.benchmarks.runs.evaluate import table_to_data
from frostbench.benchmarks.runs.events import (
    RunDone,
)
from frostbench.benchmarks.runs.runner import run_bench
from frostbench.benchmarks.runs.store import read_outcomes
from frostbench.embedcache.splits.making import SplitSpec, load_or_make_split
from frostbench.embedcache.table import read_table
from frostbench.heads.bundle.export import load
from frostbench.training.losses.class_weights import EffectiveWeight
from frostbench.training.metrics.classification import all_metrics


def test_class_weights_may_count_the_groups_of_the_table(cache):
    """With two images per group: half of each class, or slightly more."""
    part = table_to_data(read_table(cache), load_or_make_split(cache, read_table(cache), SplitSpec())).train
    weights = {"train.loss.class_weight.kind": "effective", "train.loss.class_weight.beta": 0.9}
    bench = bench_of(cache, seeds=(0,), base=SHORT | weights, toggles={"groups": {"train.loss.count": "groups"}})
    heads = {event.row: load(event.folder / "head").head for event in kinds(run_bench(bench), RunDone)}
    groups = torch.tensor([len(part.groups[part.labels == label].unique()) for label in range(6)])
    for row, counted in (("baseline", heads["baseline"].priors.counts), ("groups", groups)):
        seen = heads[row].priors.raw * EffectiveWeight(beta=0.9)(counted)
        assert torch.allclose(heads[row].priors.effective, seen / seen.sum())


def test_training_never_sees_test_rows(cache):
    table = read_table(cache)
    split = load_or_make_split(cache, table, SplitSpec())
    data = table_to_data(table, split)
    for role, part in (("train", data.train), ("select", data.select), ("calibrate", data.calibrate)):
        chosen = np.flatnonzero(split.roles == role)
        assert part.columns["toy"].dtype == torch.float32
        assert torch.equal(part.columns["toy"], torch.from_numpy(table.columns["toy"][chosen].astype(np.float32)))
        assert part.labels.tolist() == table.labels[chosen].tolist()
    assert len(data.train) + len(data.select) + len(data.calibrate) == 272 - 56
    assert data.class_names == table.class_names


def test_changed_test_vectors_change_nothing_but_the_test_figures(cache, tmp_path, monkeypatch):
    done = kinds(run_bench(bench_of(cache, seeds=(0,))), RunDone)[0].record

    def spoiled(folder, columns=None, verify=False, stored=False):
        table = read_table(folder, columns, verify=verify, stored=stored)
        if stored:
            return table
        vectors = table.columns["toy"].copy()
        vectors[load_or_make_split(cache, table, SplitSpec()).roles == "test"] *= -1
        return replace(table, columns={"toy": vectors})

    monkeypatch.setattr("frostbench.benchmarks.runs.streaming.read_table", spoiled)
    other = kinds(run_bench(bench_of(cache, seeds=(0,), store=str(tmp_path / "other"))), RunDone)[0].record
    assert other.curve == done.curve
    assert other.evaluations["select"] == done.evaluations["select"]
    assert other.evaluations["test"] != done.evaluations["test"]


def test_the_kept_head_gives_the_kept_figures_and_knows_its_recipe(cache):
    calibrated = SHORT | {"posthoc.calibration.kind": "temperature"}
    event = kinds(run_bench(bench_of(cache, seeds=(0,), base=calibrated)), RunDone)[0]
    head, record = load(event.folder / "head").head, event.record
    table = read_table(cache)
    recipe = table.recipes["toy"]
    head.check_recipes({"toy": recipe.model_dump(mode="json") | {"hash": recipe.hash}})
    with pytest.raises(ValueError, match="model: head 'gaussian', vectors 'other'"):
        head.check_recipes({"toy": {"hash": "other", "model": "other"}})
    roles = load_or_make_split(cache, table, SplitSpec()).roles
    for role in ("select", "test"):
        chosen = roles == role
        log_p = head.log_probabilities({"toy": torch.from_numpy(table.columns["toy"][chosen])})
        labels = torch.from_numpy(table.labels[chosen])
        assert record.evaluations[role].metrics == pytest.approx(all_metrics(log_p, labels, head.priors.counts))
        outcomes = read_outcomes(cache.parent / "runs", record.key, role).set_index("id")
        assert len(outcomes) == chosen.sum()
        row = np.flatnonzero(chosen)[5]
        kept = outcomes.loc[table.ids[row]]
        assert kept["group"] == table.groups[row]
        assert kept["predicted"] == int(log_p[5].argmax())
        assert kept["log_p"] == pytest.approx(float(log_p[5, table.labels[row]]), abs=1e-6)
        assert kept["confidence"] == pytest.approx(float(log_p[5].exp().max()), abs=1e-6)
        assert kept["confidence_raw"] != pytest.approx(kept["confidence"], abs=1e-4)
    assert record.temperature == head.temperature != 1
    assert head.facts["key"] == record.key
