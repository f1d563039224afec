import math
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from pydantic import TypeAdapter

from frostbench.benchmarks.comparison.ab import BOTH_RIGHT, BOTH_WRONG, BREAKS, FIXES, pair
from frostbench.benchmarks.comparison.changes import Change
from frostbench.benchmarks.comparison.compare import compare
from frostbench.benchmarks.runs.record import RunRecord
from frostbench.benchmarks.runs.runner import bench_rows, run_bench
from frostbench.benchmarks.runs.store import StoreError, read_outcomes, read_record, run_folder
from frostbench.benchmarks.settings.plan import BenchSpec
from frostbench.benchmarks.speed.fake_runs import write_fake_runs

BASE = {
    "train.schedule": {"epochs": 12, "min_steps": 0, "batch_size": 32},
    "train.optim.lr": 0.03,
}


@pytest.fixture(scope="module")
def trained(tmp_path_factory, write_cache):
    """A store of two rows with three seeds, and their keys."""
    folder = tmp_path_factory.mktemp("sides")
    write_cache(folder / "cache")
    toggles = {"calibrated": {"posthoc.calibration.kind": "temperature", "train.loss.class_weight.kind": "none"}}
    bench = BenchSpec(
        caches=(str(folder / "cache"),),
        store=str(folder / "s"),
        base=BASE | {"posthoc.calibration.kind": "none"},
        toggles=toggles,
    )
    list(run_bench(bench))
    rows = bench_rows(bench)[0].rows
    return folder / "s", rows["baseline"], rows["calibrated"]


@pytest.fixture(scope="module")
def found(trained):
    return pair(*trained, resamples=300)


@pytest.fixture
def fakes(tmp_path):
    """Two made-up runs, and a way to change one: a store, its keys, and change(key, record, outcomes)."""
    keys = write_fake_runs(tmp_path, rows=400, classes=5)

    def change(key, record=None, outcomes=None, new_key=None):
        here = run_folder(tmp_path, new_key or key)
        known, judged = read_record(tmp_path, key), pd.read_parquet(run_folder(tmp_path, key) / "outcomes.parquet")
        here.mkdir(exist_ok=True)
        known = replace(record(known) if record else known, key=new_key or key)
        (here / "record.json").write_bytes(TypeAdapter(RunRecord).dump_json(known))
        (outcomes(judged) if outcomes else judged).to_parquet(here / "outcomes.parquet", index=False)

    return tmp_path, keys, change


class TestPair:
    def test_the_table_is_that_of_compare(self, trained, found):
        store, a, b = trained
        table = compare(store, {"A": a, "B": b}, resamples=300).table
        pd.testing.assert_frame_equal(found.comparison.table, table)
        assert (found.comparison.baseline, list(found.comparison.rows)) == ("A", ["A", "B"])

    def test_classes_and_flips_are_those_of_the_outcomes(self, trained, found):
        store, *sides = trained
        frames = [[read_outcomes(store, key, "select") for key in keys] for keys in sides]
        right = [np.stack([(f["label"] == f["predicted"]).to_numpy() for f in each]) for each in frames]
        assert found.flips.rows[FIXES] == pytest.approx((~right[0] & right[1]).sum(1).mean())
        assert found.flips.rows[BREAKS] == pytest.approx((right[0] & ~right[1]).sum(1).mean())
        assert sum(found.flips.rows.values()) == pytest.approx(44)
        first = frames[0][0]["id"]
        assert found.flips.ids[BOTH_WRONG] == tuple(first[~right[0][0] & ~right[1][0]])
        assert sum(len(found.flips.ids[name]) for name in (FIXES, BREAKS, BOTH_WRONG, BOTH_RIGHT)) == 44
        for c, row in enumerate(found.classes):
            own = frames[0][0]["label"] == c
            assert (row.index, row.support) == (c, own.sum())
            for side in (0, 1):
                evaluations = [read_record(store, key).evaluations["select"].per_class for key in sides[side]]
                assert row.f1[side] == pytest.approx(np.mean([e["f1"][c] for e in evaluations]))
                assert row.recall[side] == pytest.approx(np.mean([e["recall"][c] for e in evaluations]))
            assert row.low - 1e-6 <= row.delta <= row.high + 1e-6 or row.thin

    def test_the_change_in_confusion_is_the_difference_of_the_matrices(self, trained, found):
        store, *sides = trained
        change = np.zeros((6, 6))
        for sign, keys in zip((-1, 1), sides, strict=True):
            for key in keys:
                for label, predicted, rows in read_record(store, key).evaluations["select"].confusion:
                    change[label, predicted] += sign * rows / 3
        told = np.zeros((6, 6))
        for cell in found.confusion:
            told[cell.label, cell.predicted] = cell.rows
        assert told == pytest.approx(change)
        sizes = [abs(cell.rows) for cell in found.confusion]
        assert sizes == sorted(sizes, reverse=True)

    def test_reliability_options_costs_and_resolution(self, trained, found):
        store, _, b = trained
        first, second = found.sides
        assert first.before.confidence == pytest.approx(first.after.confidence, abs=1e-6)
        assert second.ece_before != pytest.approx(second.ece, abs=1e-3)
        assert sum(second.after.rows) == 3 * 44
        assert first.temperatures == (1, 1, 1)
        assert all(t != 1 for t in second.temperatures)
        assert {change.path: change.after for change in found.options} == {
            "posthoc.calibration.kind": "temperature",
            "train.loss.class_weight.kind": "none",
        }
        assert {change.title for change in found.options} == {"Calibration", "Class weights"}
        assert first.parameters == 8 * 6 + 6
        assert second.seconds == pytest.approx(np.mean([read_record(store, key).seconds for key in b]))
        line = found.comparison.line("B", "macro_f1_fg")
        assert found.resolution == pytest.approx((line["high"] - line["low"]) / 2)

    def test_a_side_has_one_calibration_error_which_is_that_of_the_table_and_of_its_runs(self, trained, found):
        store, *keys = trained
        for side, own in zip(found.sides, keys, strict=True):
            evaluations = [read_record(store, key).evaluations["select"] for key in own]
            each = [evaluation.metrics["ece"] for evaluation in evaluations]
            assert side.ece == pytest.approx(found.comparison.line(side.name, "ece")["value"], abs=1e-6)
            assert side.ece == pytest.approx(np.mean(each), abs=1e-6)
            # Pooled over seeds it would be another figure.
            assert side.ece > side.after.ece + 1e-3
        before = [read_record(store, key).evaluations["select"].calibration["before"]["ece"] for key in keys[1]]
        assert found.sides[1].ece_before == pytest.approx(np.mean(before), abs=1e-6)

    def test_shared_seeds_are_compared_and_the_others_reported(self, trained):
        store, a, b = trained
        found = pair(store, a[1:], (b[2], b[1], b[0]), resamples=50)
        assert found.comparison.seeds == (1, 2)
        assert found.sides[1].keys == (b[1], b[2])
        assert found.left_out == ("Only seeds that both sides have are compared; B also has seed 0.",)

    def test_one_run_on_both_sides_and_seeds_apart_are_refused(self, trained):
        store, a, b = trained
        with pytest.raises(StoreError, match="A and B are the same run"):
            pair(store, a, a)
        with pytest.raises(StoreError, match="must have a seed in common, but A has 0 and B has 1, 2"):
            pair(store, a[:1], b[1:])
        with pytest.raises(StoreError, match=r"one run per seed, but B has runs of the seeds \[0, 0\]"):
            pair(store, a[:1], (a[0], b[0]))


class TestComparable:
    def test_runs_of_other_caches_of_the_same_images_are_joined(self, fakes):
        store, (a, b), change = fakes
        apart = pair(store, [a], [b], resamples=50)

        def moved(record):
            return replace(record, data=replace(record.data, table="other", cache="elsewhere", columns=("cls",)))

        change(b, moved, lambda judged: judged.sample(frac=1, random_state=0))
        found = pair(store, [a], [b], resamples=50)
        pd.testing.assert_frame_equal(found.comparison.table, apart.comparison.table)
        assert found.comparison.runs_seen == 2
        columns = Change("columns", "fake", "cls", "Vector columns")
        assert found.options[:2] == (Change("cache", "fake", "elsewhere"), columns)

    @pytest.mark.parametrize(
        ("facts", "words"),
        [
            (
                {"split": "another"},
                "must have the same split, but 'B' has another .* use caches of the same images",
            ),
            ({"class_names": tuple("vwxyz")}, "must have the same classes, but 'B' has 5, including 'v'"),
            (
                {"background": (1,)},
                "must have the same background classes, but 'B' has 1, including 'class 001' .*none",
            ),
        ],
    )
    def test_differences_are_refused_with_a_remedy(self, fakes, facts, words):
        store, (a, b), change = fakes
        change(b, lambda record: replace(record, data=replace(record.data, **facts)))
        with pytest.raises(StoreError, match=words):
            pair(store, [a], [b])

    @pytest.mark.parametrize(
        ("outcomes", "words"),
        [
            (
                lambda f: f.assign(label=[4, *f["label"][1:]]),
                "the label in 'B' .* differs from that of the baseline for 1 of 400 .*'0000000'",
            ),
            (lambda f: f.assign(group="g"), "the group in 'B' .* differs from that of the baseline for 400 of 400"),
            (lambda f: f[1:], "lacks 1 of the baseline's 400 images and has 0 others"),
            (lambda f: f.assign(id=["x", *f["id"][1:]]), r"lacks 1 of the baseline's 400 images and has 1 other\."),
        ],
    )
    def test_other_images_labels_or_groups_are_refused(self, fakes, outcomes, words):
        store, (a, b), change = fakes
        change(b, None, outcomes)
        with pytest.raises(StoreError, match=words):
            pair(store, [a], [b])

    def test_training_on_other_labels_is_noted(self, fakes):
        store, (a, b), change = fakes
        change(b, lambda r: replace(r, data=replace(r.data, train_counts=(1, *r.data.train_counts[1:]))))
        assert any(
            "trained on different labels" in note for note in pair(store, [a], [b], resamples=50).comparison.notes
        )


class TestOddRuns:
    @pytest.mark.parametrize(
        ("facts", "words"),
        [
            ({"reason": "stopped", "epoch": 50}, "B, seed 0, was stopped at epoch 50."),
            ({"reason": "stopped", "epoch": 9}, "B, seed 0, was stopped at epoch 50; its best epoch, 9, was kept."),
            ({"reason": "diverged", "epoch": 9}, "B, seed 0, diverged at epoch 50; its best epoch, 9, was kept."),
        ],
    )
    def test_runs_that_ended_early_are_reported(self, fakes, facts, words):
        store, (a, b), change = fakes
        change(b, lambda record: replace(record, **facts))
        notes = pair(store, [a], [b], resamples=50).comparison.notes
        assert [note for note in notes if note.startswith("B, ")] == [words]

    def test_a_run_that_gave_nan_has_no_figures_but_flips(self, fakes):
        store, (a, b), change = fakes
        change(b, None, lambda judged: judged.assign(confidence=math.nan))
        found = pair(store, [a], [b], resamples=50)
        assert all(math.isnan(row.f1[1]) and math.isnan(row.low) for row in found.classes)
        assert not math.isnan(found.classes[0].f1[0])
        assert math.isnan(found.resolution)
        assert found.sides[1].after.rows == ()
        assert found.flips.rows[FIXES] > 0

    def test_a_run_without_a_head_has_no_size(self, fakes):
        store, (a, b), _ = fakes
        assert pair(store, [a], [b], resamples=50).sides[0].parameters is None

    def test_a_damaged_head_is_reported(self, fakes):
        store, (a, b), _ = fakes
        broken = run_folder(store, a) / "head" / "head.safetensors"
        broken.parent.mkdir()
        broken.write_bytes(b"x" * 20)
        with pytest.raises(StoreError, match=r"The run's head .* cannot be read"):
            pair(store, [a], [b], resamples=50)


def test_fake_runs_have_the_requested_size_and_the_second_is_better(tmp_path):
    a, b = write_fake_runs(tmp_path, rows=5000, classes=20)
    rows = read_outcomes(tmp_path, a, "select")
    assert (len(rows), rows["group"].nunique(), rows["label"].nunique()) == (5000, 5000, 20)
    found = pair(tmp_path, [a], [b], resamples=100).comparison
    first, second = (found.line(name, "accuracy")["value"] for name in "AB")
    assert 0.75 < first < second < 0.9
