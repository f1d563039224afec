"""Values of a report equal those of the records, with intervals and verdicts."""

import json
import math
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from frostbench.benchmarks.api import calibration
from frostbench.benchmarks.calibration.runs import EvaluatedRows, probabilities_of
from frostbench.benchmarks.runs.all_runs import read_records
from frostbench.benchmarks.runs.evaluate import predictions
from frostbench.benchmarks.runs.store import SEAL, read_record, run_folder
from frostbench.embedcache.splits.making import load_or_make_split
from frostbench.embedcache.table import read_table
from frostbench.heads.bundle.export import load_head
from frostbench.training.metrics.calibration import calibration_metrics


def test_values_are_means_over_seeds_of_what_the_records_hold(toy, report):
    for row, keys in report.rows.items():
        held = [read_record(Path(toy.store), key).evaluations["select"].calibration for key in keys]
        for side in ("before", "after"):
            for metric in ("ece", "aece", "cece", "smece", "nll", "brier", "aurc"):
                wanted = np.mean([one[side][metric] for one in held])
                assert report.line(side, row, metric)["value"] == pytest.approx(wanted, abs=1e-5), (row, side, metric)
        assert report.temperatures[row] == pytest.approx([one["after"]["temperature"] for one in held], rel=1e-5)


def test_before_is_without_and_after_with_the_temperature_of_calibration_rows(toy, report):
    cache, store = toy.caches[0], Path(toy.store)
    table = read_table(Path(cache))
    split = load_or_make_split(Path(cache), table, toy.split)
    head = load_head(run_folder(store, report.rows["scaled"][0]) / "head")
    chosen = split.roles == "select"
    said = predictions(head, table, chosen)
    labels = torch.from_numpy(table.labels[chosen])
    held = read_record(store, report.rows["scaled"][0]).evaluations["select"].calibration
    assert held["before"] == pytest.approx(calibration_metrics(said.logits.double().log_softmax(1), labels), abs=1e-6)
    # The head was scaled by a temperature that was fitted to the same rows.
    assert held["after"]["temperature"] == pytest.approx(head.temperature, rel=1e-6)
    assert held["after"]["nll"] == pytest.approx(calibration_metrics(said.log_p, labels)["nll"], abs=1e-6)


def test_the_flat_view_has_both_sides(toy):
    flat = read_records(Path(toy.store))
    assert {"select.before.ece", "select.after.nll", "test.after.temperature"} <= set(flat.columns)


def test_a_record_from_before_has_none(toy, report, tmp_path):
    folder = run_folder(Path(toy.store), report.rows["plain"][0])
    shutil.copytree(folder, tmp_path / "runs" / "old")
    text = (folder / "record.json").read_text()
    tree = json.loads(text)
    del tree[SEAL]
    for evaluation in tree["evaluations"].values():
        del evaluation["calibration"]
    (tmp_path / "runs" / "old" / "record.json").write_text(json.dumps(tree))
    assert read_record(tmp_path, "old").evaluations["select"].calibration == {}


def test_heads_as_they_are_stand_beside_where_one_has_a_calibration_of_its_own(report):
    assert report.sides == ["before", "after", "as_is"]
    assert report.line("as_is", "plain", "nll")["value"] == report.line("before", "plain", "nll")["value"]
    assert report.line("as_is", "scaled", "nll")["value"] == report.line("after", "scaled", "nll")["value"]
    own = report.line("as_is", "vector", "nll")["value"]
    assert own not in (report.line("before", "vector", "nll")["value"], report.line("after", "vector", "nll")["value"])


def test_differences_are_paired_with_the_baseline(report):
    line, base = report.line("before", "smooth", "nll"), report.line("before", "plain", "nll")
    assert line["delta"] == pytest.approx(line["value"] - base["value"])
    assert line["low"] <= line["delta"] <= line["high"]
    assert base["verdict"] == ""
    assert math.isnan(base["delta"])
    assert line["verdict"].split(" (")[0] in ("better", "worse", "can't tell")
    same = report.line("before", "scaled", "ece")
    assert (same["delta"], same["low"], same["high"], same["verdict"]) == (0, 0, 0, "can't tell")


def test_every_value_has_an_interval_and_only_the_covariance_may_be_negative(report):
    table = report.table
    assert (table["value_low"] <= table["value_high"]).all()
    assert (table[table["metric"] != "brier_within_covariance"]["value_low"] >= 0).all()
    assert report.line("before", "plain", "nll")["value_low"] < report.line("before", "plain", "nll")["value"]


def test_another_baseline_and_the_test_rows(toy):
    (found,) = calibration(toy, "test", baseline="smooth", resamples=20)
    assert (found.baseline, next(iter(found.rows)), found.role) == ("smooth", "smooth", "test")
    assert found.line("after", "plain", "ece")["delta"] == pytest.approx(
        found.line("after", "plain", "ece")["value"] - found.line("after", "smooth", "ece")["value"]
    )
    assert found.best != "smooth"


def test_the_order_of_the_rows_does_not_matter(toy, report):
    table = read_table(Path(toy.caches[0]))
    split = load_or_make_split(Path(toy.caches[0]), table, toy.split)
    order = np.random.default_rng(0).permutation(np.flatnonzero(split.roles == "select"))
    groups = np.unique(table.groups[order], return_inverse=True)[1]
    record = read_record(Path(toy.store), report.rows["vector"][0])
    evaluated = EvaluatedRows(Path(toy.store), "c", table, split, "select", order, groups, None)
    first = probabilities_of(record, evaluated)
    rows = np.argsort(order)
    again = probabilities_of(record, replace(evaluated, order=order[rows], groups=groups[rows]))
    assert first.by_side.keys() == again.by_side.keys() == {"before", "after", "as_is"}
    for side, judged in first.by_side.items():
        assert judged.labels.tolist() == table.labels[order].tolist()
        assert np.allclose(judged.log_p[rows], again.by_side[side].log_p)
