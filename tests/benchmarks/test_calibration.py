"""Reports on a small bench: values that equal those of the records, intervals, verdicts, and rows told apart."""

import json
import math
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch

from benchmarks.api import calibration
from benchmarks.calibration.classes import Confident, class_calibration
from benchmarks.calibration.measured import basic_interval
from benchmarks.calibration.resampled import Draws, Gathered, binned_accuracy, quantiles
from benchmarks.calibration.runs import Place, Said, said_by
from benchmarks.calibration.tables import save, to_text
from benchmarks.evaluate import predictions
from benchmarks.plan import BenchSpec
from benchmarks.runner import run_bench
from benchmarks.settings import SettingsError
from benchmarks.store import StoreError, read_record, read_records, run_folder
from embedcache.recipe import Recipe
from embedcache.sources.source import Item
from embedcache.splits.making import load_or_make_split
from embedcache.storage.files import write_json
from embedcache.storage.store import FORMAT_VERSION, describe_columns, write_items, write_manifest, write_shard
from embedcache.table import read_table
from heads.export import load_head
from training.calibration_bins import BinSums
from training.calibration_metrics import Judged, calibration_metrics, measured
from training.ood import auroc, scores


def bench_of(folder, cache, **changes):
    base = {"train.schedule": {"epochs": 6, "min_steps": 0, "batch_size": 32}, "train.optim.lr": 0.03}
    toggles = {
        "smooth": {"train.loss.smoothing.epsilon": 0.5},
        "scaled": {"posthoc.calibration.kind": "temperature"},
        "vector": {"posthoc.calibration.kind": "vector"},
    }
    options = {"caches": (str(cache),), "store": str(folder / "s"), "preset": "plain", "base": base, "toggles": toggles}
    return BenchSpec(**options | {"ensembles": {"both": ("plain", "smooth")}, "seeds": (0, 1)} | changes)


@pytest.fixture(scope="module")
def toy(tmp_path_factory, write_cache):
    folder = tmp_path_factory.mktemp("calibrated")
    bench = bench_of(folder, write_cache(folder / "cache"))
    list(run_bench(bench))
    return bench


@pytest.fixture(scope="module")
def report(toy):
    (found,) = calibration(toy, resamples=100)
    return found


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


def test_the_interval_of_a_value_mirrors_the_resamples():
    moved = np.linspace(0.2, 0.4, 1001)
    assert basic_interval(0.25, moved, "ece") == pytest.approx((0.5 - 0.395, 0.5 - 0.205))
    assert basic_interval(0.1, moved, "ece") == (0.0, 0.0)
    assert basic_interval(0.1, moved, "brier_within_covariance")[0] == pytest.approx(0.2 - 0.395)
    assert basic_interval(0.95, moved + 0.4, "auroc_msp") == pytest.approx((1.9 - 0.795, 1.0), abs=0.2)


def test_another_baseline_and_the_test_rows(toy):
    (found,) = calibration(toy, "test", baseline="smooth", resamples=20)
    assert (found.baseline, next(iter(found.rows)), found.role) == ("smooth", "smooth", "test")
    assert found.line("after", "plain", "ece")["delta"] == pytest.approx(
        found.line("after", "plain", "ece")["value"] - found.line("after", "smooth", "ece")["value"]
    )
    assert found.best != "smooth"


def test_progress_is_told(toy):
    told = []
    calibration(toy, resamples=4, told=lambda done, total: told.append((done, total)))
    assert told == [(n, 10) for n in range(1, 11)]


def test_the_text_names_everything(report):
    text = to_text(report)
    for words in (
        "validation rows (select), baseline 'plain'",
        "before temperature scaling",
        "after temperature scaling",
        "as the heads are",
        "Temperatures were fitted to the calibration rows.",
        "95 % intervals from 100 resamples",
        "class-wise ECE",
    ):
        assert words in text
    assert "nan" not in text


@pytest.mark.parametrize("ending", [".csv", ".json", ".parquet"])
def test_tables_are_saved(report, tmp_path, ending):
    save([report], tmp_path / f"table{ending}")
    read = {".csv": pd.read_csv, ".parquet": pd.read_parquet}.get(ending)
    if read is None:
        (tree,) = json.loads((tmp_path / "table.json").read_text())
        assert tree["temperatures"].keys() == report.rows.keys()
        table = pd.DataFrame(tree["table"])
    else:
        table = read(tmp_path / f"table{ending}")
    assert len(table) == len(report.table)
    assert set(table["side"]) == {"before", "after", "as_is"}
    with pytest.raises(SettingsError, match=r"saved as .csv, .parquet or .json, however: t.txt came"):
        save([report], tmp_path / "t.txt")


class TestOthers:
    def test_scores_of_the_heads_are_compared(self, toy, tmp_path):
        others = other_cache(tmp_path / "cache")
        (found,) = calibration(toy, others=others, resamples=50)
        store, table, far = Path(toy.store), read_table(Path(toy.caches[0])), read_table(others)
        split = load_or_make_split(Path(toy.caches[0]), table, toy.split)
        values = []
        for key in found.rows["plain"]:
            head = load_head(run_folder(store, key) / "head")
            own = scores(predictions(head, table, split.roles == "select").logits)
            other = scores(predictions(head, far, np.ones(len(far.ids), dtype=bool)).logits)
            values.append([auroc(own[name], other[name]) for name in own])
        names = ("msp", "neg_entropy", "max_logit", "energy")
        for name, wanted in zip(names, np.mean(values, 0), strict=True):
            line = found.line("before", "plain", f"auroc_{name}")
            assert line["value"] == pytest.approx(wanted, abs=1e-9)
            assert line["value_low"] <= line["value"] <= line["value_high"]
        assert found.others == len(far.ids)
        assert "rows of other classes to be told apart" in to_text(found)
        # A temperature does not move the order of the largest logit, and an ensemble has no logits.
        assert found.line("after", "plain", "auroc_max_logit")["value"] == pytest.approx(
            np.mean(values, 0)[2], abs=1e-9
        )
        assert math.isnan(found.line("before", "both", "auroc_energy")["value"])
        assert found.line("before", "both", "auroc_msp")["value"] > 0

    def test_the_same_images_are_refused(self, toy):
        with pytest.raises(
            ValueError, match="images to be told apart are none of the bench's cache, however: 272 of the 272"
        ):
            calibration(toy, others=toy.caches[0], resamples=4)

    def test_vectors_of_another_recipe_are_refused(self, toy, tmp_path):
        other = other_cache(tmp_path / "cache", model="another")
        with pytest.raises(ValueError, match="this head was trained on column 'toy' of recipe"):
            calibration(toy, others=other, resamples=4)


def other_cache(folder, model="gaussian"):
    """Forty rows of a class that the bench does not have."""
    columns, dims = {"toy": Recipe(provider="external", model=model)}, {"toy": 8}
    items = [Item(id=f"x{i:03d}", path=None, label="stone", group=f"h{i // 2}", split=None) for i in range(40)]
    state = {"format_version": FORMAT_VERSION, "class_names": ["stone"], "columns": describe_columns(columns, dims)}
    write_json(folder / "cache.json", state | {"shard_rows": 10_000})
    write_items(folder, items)
    vectors = np.random.default_rng(0).normal(0, 0.3, (40, 8)).astype(np.float16)
    content = [(10_000 + i).to_bytes(32, "big") for i in range(40)]
    write_shard(folder, 0, [item.id for item in items], content, {"toy": vectors}, [], columns, dims)
    write_manifest(folder)
    return folder


class TestRefusals:
    def test_a_run_that_is_missing(self, toy, tmp_path):
        with pytest.raises(StoreError, match="lacks 2 of 2 of row 'plain'"):
            calibration(toy.model_copy(update={"store": str(tmp_path)}), resamples=4)

    def test_a_baseline_that_is_none(self, toy):
        with pytest.raises(StoreError, match="'arcface' came"):
            calibration(toy, baseline="arcface", resamples=4)

    def test_a_cross_validated_split(self, tmp_path, write_cache):
        base = {"head.classifier.kind": "ridge"}
        bench = bench_of(
            tmp_path,
            write_cache(tmp_path / "cache"),
            base=base,
            toggles={},
            ensembles={},
            split={"folds": 3, "select": 0, "calibrate": 0},
        )
        list(run_bench(bench))
        with pytest.raises(SettingsError, match="this split is cross-validated"):
            calibration(bench, resamples=4)


def test_without_calibration_rows_temperatures_are_cross_fitted_and_that_is_said(tmp_path, write_cache):
    cache = write_cache(tmp_path / "cache")
    bench = bench_of(tmp_path, cache, toggles={}, ensembles={}, split={"calibrate": 0})
    list(run_bench(bench))
    (select,), (test,) = calibration(bench, resamples=20), calibration(bench, "test", resamples=20)
    assert "each fold of the judged rows, with whole groups" in select.notes[0]
    assert "fitted to the validation rows (select)" in test.notes[0]
    assert select.temperatures["plain"] == pytest.approx(test.temperatures["plain"])
    assert select.sides == ["before", "after"]
    (key, _) = select.rows["plain"]
    held = read_record(Path(bench.store), key).evaluations["test"].calibration["after"]["temperature"]
    assert held == pytest.approx(test.temperatures["plain"][0], rel=1e-6)


def test_heads_fitted_to_selection_rows_are_cross_fitted_on_them_as_their_records_are(tmp_path, write_cache):
    toggles = {"on select": {"posthoc.calibration.kind": "vector", "posthoc.rows": "select"}}
    bench = bench_of(tmp_path, write_cache(tmp_path / "cache"), toggles=toggles, ensembles={}, seeds=(0,))
    list(run_bench(bench))
    (select,), (test,) = calibration(bench, resamples=20), calibration(bench, "test", resamples=20)
    held = read_record(tmp_path / "s", select.rows["on select"][0]).evaluations
    for report, role in ((select, "select"), (test, "test")):
        assert report.line("as_is", "on select", "nll")["value"] == pytest.approx(held[role].metrics["nll"], abs=1e-6)


def test_the_order_of_the_rows_moves_nothing_but_their_places(toy, report):
    table = read_table(Path(toy.caches[0]))
    split = load_or_make_split(Path(toy.caches[0]), table, toy.split)
    order = np.random.default_rng(0).permutation(np.flatnonzero(split.roles == "select"))
    groups = np.unique(table.groups[order], return_inverse=True)[1]
    record = read_record(Path(toy.store), report.rows["vector"][0])
    first = said_by(record, Place(Path(toy.store), "c", table, split, "select", order, groups, None))
    rows = np.argsort(order)
    again = said_by(record, Place(Path(toy.store), "c", table, split, "select", order[rows], groups[rows], None))
    assert first.judged.keys() == again.judged.keys() == {"before", "after", "as_is"}
    for side, judged in first.judged.items():
        assert judged.labels.tolist() == table.labels[order].tolist()
        assert np.allclose(judged.log_p[rows], again.judged[side].log_p)


def test_the_basic_interval_holds_a_known_error_more_often_than_that_of_percentiles():
    """Confidences whose logits are 1.18 times too large: the ECE of endlessly many rows is 0.025."""
    rng = np.random.default_rng(0)
    hits = np.zeros(2)
    for _ in range(60):
        sure = rng.beta(4, 1.5, 400)
        right = rng.random(400) < 1 / (1 + ((1 - sure) / sure) ** 0.85)
        drawn = rng.multinomial(400, np.full(400, 1 / 400), 200).T.astype(float)
        value, moved = BinSums.of(sure, right).ece[0], BinSums.of(sure, right, weights=drawn).ece
        low, high = basic_interval(value, moved, "ece")
        plain = np.percentile(moved, [2.5, 97.5])
        hits += [low <= 0.0253 <= high, plain[0] <= 0.0253 <= plain[1]]
    assert hits[0] >= 40
    assert hits[1] <= 6


def test_a_run_that_gave_nan_leaves_its_row_without_figures():
    log_p = torch.tensor([[0.8, 0.2], [0.4, 0.6], [0.9, 0.1]], dtype=torch.float64).log()
    sound = Judged.of(log_p, torch.tensor([0, 1, 1]))
    broken = Judged.of(log_p * torch.nan, torch.tensor([0, 1, 1]))
    gathered, draws = Gathered(["a", "b"], 2, 20), Draws(np.arange(3), 20, 0)
    for row, seed, judged in (("a", 0, sound), ("a", 1, sound), ("b", 0, sound), ("b", 1, broken)):
        gathered.add(row, seed, Said({"before": judged}, {}, math.nan), draws, None)
    found = gathered.of("before")
    assert gathered.sides == ["before"]
    assert np.isfinite(found.values["ece"]).tolist() == [[True, True], [True, False]]
    assert np.isfinite(found.moved["ece"]).all(1).tolist() == [True, False]
    assert found.moved["ece"][0] == pytest.approx(measured(sound, next(iter(draws.weights(1)))[1])["ece"])


def test_runs_that_all_gave_nan_are_told_in_words(toy, monkeypatch):
    nothing = Said({}, {}, math.nan)
    monkeypatch.setattr("benchmarks.calibration.measured.said_by", lambda record, place: nothing)
    with pytest.raises(StoreError, match=r"every run of \['plain', .* gave NaN. Lower train.optim.lr"):
        calibration(toy, resamples=4)


def test_classes_are_those_that_are_predicted():
    log_p = torch.tensor(
        [[0.8, 0.2, 0.0], [0.6, 0.4, 0.0], [0.1, 0.9, 0.0], [0.3, 0.7, 0.0]], dtype=torch.float64
    ).log()
    judged = Judged.of(log_p, torch.tensor([0, 1, 1, 2]))
    said = Confident.joined([Confident.of(judged), Confident.of(judged)])
    found = class_calibration(said, judged.labels, ("a", "b", "c"), Draws(np.arange(4), 200, 0))
    assert [(one.name, one.support, one.predicted) for one in found] == [("a", 1, 2), ("b", 2, 2), ("c", 1, 0)]
    assert found[0].gap == pytest.approx((0.8 + 0.6 - 1) / 2)
    assert found[1].gap == pytest.approx((0.9 + 0.7 - 1) / 2)
    assert math.isnan(found[2].gap)
    assert found[0].low == pytest.approx(-0.2)
    assert found[0].high == pytest.approx(0.6)
    assert found[2].ece == pytest.approx(0.25)


def test_intervals_of_bins_draw_whole_groups():
    places, rights = [np.array([0, 0, 1, 1])], [np.array([1.0, 1.0, 0.0, 1.0])]
    low, high = binned_accuracy(places, rights, 3, Draws(np.array([0, 0, 1, 2]), 500, 0))
    assert (low[0], high[0]) == (1.0, 1.0)
    assert (low[1], high[1]) == (0.0, 1.0)
    assert math.isnan(low[2])


def test_quantiles_leave_out_what_has_no_value():
    low, high = quantiles(np.array([[0.0, np.nan, 1.0], [np.nan, np.nan, np.nan]]))
    assert (low[0], high[0]) == pytest.approx((0.025, 0.975))
    assert math.isnan(low[1])


def test_draws_give_the_same_resamples_to_everybody():
    draws = Draws(np.array([0, 0, 1, 2]), 40, 0)
    pieces = [weights for _, weights in draws.weights(2**19)]
    whole = np.concatenate(pieces, axis=1)
    assert len(pieces) == 3
    assert whole.shape == (4, 40)
    assert (whole[0] == whole[1]).all()
    assert set((whole[1] + whole[2] + whole[3]).tolist()) == {3.0}
    assert not np.array_equal(whole, np.concatenate([w for _, w in replace(draws, seed=1).weights(2**19)], axis=1))
