"""Metrics of ensembles, computed from the stored heads of their members."""

import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from averaged_benches import ENSEMBLES, bench_of, by_hand, kinds

import frostbench.benchmarks.runs.ensembles as ensembles
from frostbench.benchmarks.arrays import cache_of
from frostbench.benchmarks.comparison.compare import compare
from frostbench.benchmarks.inference.predict import predict_table
from frostbench.benchmarks.report.report import write_report
from frostbench.benchmarks.runs.events import BenchDone, RowStarted, RunDone, RunSkipped
from frostbench.benchmarks.runs.exporting import export_row
from frostbench.benchmarks.runs.keys import ensemble_key
from frostbench.benchmarks.runs.runner import run_bench
from frostbench.benchmarks.runs.store import is_finished, read_outcomes, read_record, run_folder
from frostbench.benchmarks.runs.tuning import chosen_rows
from frostbench.embedcache.table import read_table
from frostbench.heads.bundle.export import load
from frostbench.training.metrics.classification import all_metrics


@pytest.mark.parametrize("role", ["select", "test"])
@pytest.mark.parametrize("name", ENSEMBLES)
def test_figures_are_those_of_the_averaged_probabilities(ran, name, role):
    bench, events = ran
    done = [event.record for event in kinds(events, RunDone) if event.row == name]
    assert [record.seed for record in done] == [0, 1]
    for record in done:
        mean, labels, ids = by_hand(bench, ENSEMBLES[name], record.seed, role)
        counts = torch.tensor(record.data.train_counts)
        wanted = all_metrics(mean.log(), labels, counts)
        assert record.evaluations[role].metrics == pytest.approx(wanted, abs=1e-9)
        outcomes = read_outcomes(Path(bench.store), record.key, role).set_index("id").loc[ids]
        assert outcomes["predicted"].tolist() == mean.argmax(1).tolist()
        assert outcomes["confidence"].to_numpy() == pytest.approx(mean.amax(1).numpy(), abs=1e-9)
        own = mean[torch.arange(len(labels)), labels].log()
        assert outcomes["log_p"].to_numpy() == pytest.approx(own.numpy(), abs=1e-9)


def test_the_record_names_the_members_and_the_store_has_no_second_copy_of_heads(ran):
    bench, events = ran
    store, rows = Path(bench.store), chosen_rows(bench)[0].rows
    assert list(rows) == ["plain", "logreg", "ncm", "both", "all"]
    for seed in (0, 1):
        members = sorted((rows["plain"][seed], rows["logreg"][seed]))
        record = read_record(store, rows["both"][seed])
        assert (record.members, record.full_spec, record.spec) == (tuple(members), {"seed": seed}, {})
        assert (record.reason, record.temperature, record.curve, record.gradient_norm) == ("averaged", 1.0, {}, None)
        assert record.seconds == pytest.approx(sum(read_record(store, key).seconds for key in members))
        assert record.key == ensemble_key(members[::-1])
        assert not (run_folder(store, record.key) / "head").exists()
    flat = pd.read_parquet(kinds(events, BenchDone)[0].records).set_index("key")["members"]
    assert flat[rows["both"][0]] == ",".join(sorted((rows["plain"][0], rows["logreg"][0])))
    assert flat[rows["plain"][0]] == ""


def test_events_count_ensembles_as_rows_and_a_second_start_judges_nothing(ran, monkeypatch):
    bench, events = ran
    started = [(event.row, event.number, event.rows) for event in kinds(events, RowStarted)]
    assert started == [("plain", 1, 5), ("logreg", 2, 5), ("ncm", 3, 5), ("both", 4, 5), ("all", 5, 5)]
    assert (events[-1].trained, events[-1].skipped, events[-1].failed) == (10, 0, ())
    monkeypatch.setattr(ensembles, "evaluate", None)
    monkeypatch.setattr(ensembles, "load_head", None)
    again = list(run_bench(bench))
    assert not kinds(again, RunDone)
    keys = {(event.row, event.seed): event.key for event in kinds(again, RunSkipped)}
    assert {keys["both", 0], keys["both", 1]} == set(chosen_rows(bench)[0].rows["both"])
    assert (again[-1].trained, again[-1].skipped) == (0, 10)


def test_the_order_of_members_and_the_name_change_no_key(ran):
    bench, _ = ran
    other = bench.model_copy(update={"ensembles": {"renamed": ("logreg", "plain")}})
    assert chosen_rows(other)[0].rows["renamed"] == chosen_rows(bench)[0].rows["both"]
    assert chosen_rows(bench, ["both"])[0].rows == {"both": chosen_rows(bench)[0].rows["both"]}


def test_a_tuned_bench_averages_the_winners(cache):
    tune = {"plain": {"train.optim.lr": (0.0001, 0.05)}, "logreg": {"head.classifier.c": (0.01, 10.0)}, "ncm": {}}
    bench = bench_of(cache, tune=tune, ensembles={"both": ("plain", "logreg")}, seeds=(0,))
    events = list(run_bench(bench))
    (part,) = chosen_rows(bench)
    (record,) = [event.record for event in kinds(events, RunDone) if event.row == "both"]
    assert record.members == tuple(sorted((part.rows["plain"][0], part.rows["logreg"][0])))
    assert part.rows["both"] == (record.key,)
    assert list(part.tuned) == ["plain", "logreg", "ncm"]
    found = compare(Path(bench.store), part.rows, "plain", "select", title="tuned", tuned=part.tuned)
    assert "both" in write_report([found], Path(bench.store), cache.parent / "report.html").read_text()
    assert chosen_rows(bench, ["both"])[0].tuned == {}
    mean, labels, _ = by_hand(bench, ["plain", "logreg"], 0, "select")
    wanted = all_metrics(mean.log(), labels, torch.tensor(record.data.train_counts))
    assert record.evaluations["select"].metrics == pytest.approx(wanted, abs=1e-9)


def test_members_may_read_other_columns(tmp_path):
    generator = np.random.default_rng(3)
    labels = np.repeat([0, 1, 2], 40)
    columns = {"a": generator.normal(0, 1, (120, 3)) + labels[:, None], "b": generator.normal(0, 1, (120, 2))}
    names = [("ash", "beech", "cedar")[label] for label in labels]
    cache = cache_of(columns, names, [f"g{row}" for row in range(120)], None, None, tmp_path / "cache").folder
    rows = {"b alone": {"columns": ["b"]}, "both": {"columns": ["b", "a"]}}
    bench = bench_of(cache, toggles=rows, ensembles={"mean": ("plain", "b alone", "both")}, seeds=(0,))
    (record,) = [event.record for event in kinds(run_bench(bench), RunDone) if event.row == "mean"]
    assert sorted(record.data.columns) == ["a", "b"]
    export_row(bench, "mean", tmp_path / "bundle", refit=False)
    table = read_table(cache)
    found = predict_table(load(tmp_path / "bundle").head, table)
    heads = [load(run_folder(Path(bench.store), key) / "head").head for key in record.members]
    x = {name: torch.from_numpy(each.astype(np.float32)) for name, each in table.columns.items()}
    mean = sum(head.log_probabilities(x).double().exp() for head in heads) / 3
    assert found["p:cedar"].to_numpy() == pytest.approx(mean[:, 2].numpy(), abs=1e-6)


def test_records_of_before_have_no_members(ran):
    bench, _ = ran
    record = read_record(Path(bench.store), chosen_rows(bench)[0].rows["plain"][0])
    assert record.members == ()
    assert is_finished(Path(bench.store), record.key)
    assert replace(record, members=("a", "b")).members == ("a", "b")
    assert math.isfinite(record.seconds)
