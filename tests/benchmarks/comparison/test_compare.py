import json
import math
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from frostbench.benchmarks.comparison.compare import compare
from frostbench.benchmarks.comparison.notes import notes_of
from frostbench.benchmarks.comparison.paired import load
from frostbench.benchmarks.comparison.tables import save, to_text
from frostbench.benchmarks.fitted import Compared
from frostbench.benchmarks.report.report import write_report
from frostbench.benchmarks.runs.runner import bench_rows, run_bench
from frostbench.benchmarks.runs.store import StoreError, read_record
from frostbench.benchmarks.runs.tuning_notes import SETTLED
from frostbench.benchmarks.settings.plan import BenchSpec
from frostbench.embedcache.outputs.places import OutputError
from frostbench.embedcache.splits.making import SplitSpec
from frostbench.training.engine.events import Choices


def benches(folder):
    """The benches of the store in a folder, by name."""
    base = {
        "train.schedule.epochs": 15,
        "train.schedule.min_steps": 0,
        "train.schedule.batch_size": 32,
        "train.optim.lr": 0.03,
    }
    toggles = {
        "untrained": {"train.optim.lr": 1e-9},
        "calibrated": {"posthoc.calibration.kind": "temperature"},
        "no weights": {"train.loss.class_weight.kind": "none"},
    }
    spec = {"caches": (str(folder / "cache"),), "store": str(folder / "s"), "base": base}
    return {
        "three": BenchSpec(**spec, toggles=toggles),
        "resplit": BenchSpec(**spec, split=SplitSpec(seed=43)),
        "one": BenchSpec(**spec, seeds=(0,), toggles={"untrained": toggles["untrained"]}),
        "background": BenchSpec(**spec, seeds=(0,), background=("ash",)),
    }


@pytest.fixture(scope="module")
def store(tmp_path_factory, write_cache):
    folder = tmp_path_factory.mktemp("compared")
    write_cache(folder / "cache")
    for bench in benches(folder).values():
        list(run_bench(bench))
    return folder / "s"


def rows_of(store, bench="three"):
    return bench_rows(benches(store.parent)[bench])[0].rows


@pytest.fixture(scope="module")
def compared(store):
    """All rows of the largest bench, with as many resamples as there are unless told."""
    return compare(store, rows_of(store))


class TestCompare:
    def test_values_are_the_means_of_the_recorded_metrics(self, store):
        found = compare(store, rows_of(store), resamples=50)
        for row, keys in rows_of(store).items():
            metrics = [read_record(store, key).evaluations["select"].metrics for key in keys]
            for metric in found.metrics:
                values = np.array([m[metric] for m in metrics])
                line = found.line(row, metric)
                assert line["value"] == pytest.approx(values.mean(), abs=1e-6)
                if row == "baseline":
                    assert line["seed_sd"] == pytest.approx(values.std(ddof=1), abs=1e-6)

    def test_an_untrained_row_is_worse_and_the_base_has_no_verdict(self, compared):
        assert compared.line("untrained", "accuracy")["verdict"] == "worse"
        assert compared.line("untrained", "nll")["verdict"] == "worse"
        assert compared.line("untrained", "nll")["delta"] > 0
        assert compared.line("baseline", "accuracy")["verdict"] == ""

    def test_seen_from_the_untrained_row_the_base_is_better(self, store, compared):
        forth, back = compared, compare(store, rows_of(store), "untrained")
        assert next(iter(forth.rows)) == "baseline"
        assert next(iter(back.rows)) == "untrained"
        line = back.line("baseline", "accuracy")
        assert line["verdict"] == "better"
        assert line["delta"] == pytest.approx(-forth.line("untrained", "accuracy")["delta"])
        assert (line["low"], line["high"]) == pytest.approx(
            (-forth.line("untrained", "accuracy")["high"], -forth.line("untrained", "accuracy")["low"])
        )

    def test_a_temperature_moves_no_decision(self, compared):
        line = compared.line("calibrated", "macro_f1_fg")
        assert (line["delta"], line["low"], line["high"], line["seed_sd"], line["p_holm"]) == (0, 0, 0, 0, 1)
        assert line["verdict"] == "can't tell"

    def test_intervals_hold_their_delta_and_repeat(self, store):
        first, second = (compare(store, rows_of(store), resamples=400, seed=5) for _ in range(2))
        pd.testing.assert_frame_equal(first.table, second.table)
        moved = first.table[first.table["row"] == "no weights"]
        assert (moved["low"] <= moved["delta"]).mean() > 0.9
        assert (moved["delta"] <= moved["high"]).mean() > 0.9
        assert (first.table["p_holm"].dropna() >= first.table["p"].dropna()).all()

    def test_validation_rows_unless_test_is_requested(self, store, compared):
        assert (compare(store, rows_of(store), resamples=20).n_rows, compared.role) == (44, "select")
        test = compare(store, rows_of(store), role="test", resamples=20)
        assert (test.n_rows, test.n_groups, test.runs_seen) == (56, 28, 13)
        assert "TEST rows" in to_text(test)

    def test_one_seed_gives_no_verdict(self, store):
        found = compare(store, rows_of(store, "one"))
        assert found.line("untrained", "accuracy")["p_holm"] < 0.05
        assert found.line("untrained", "accuracy")["verdict"] == "can't tell (seeds)"
        assert any("one seed" in note for note in found.notes)
        told = to_text(found)
        assert "can't tell (seeds): the interval excludes 0, but there is only one seed" in told

    def test_few_resamples_make_a_p_coarser_but_no_larger(self, store, compared):
        """A p is that of a variance and not of a count, so 1/B is no bound to it."""
        assert compared.resamples == 2000
        few = compare(store, rows_of(store), resamples=60)
        assert few.line("untrained", "nll")["p"] < 1 / 60

    def test_a_damaged_record_elsewhere_is_named_and_not_counted(self, store):
        broken = store / "runs" / "broken" / "record.json"
        broken.parent.mkdir()
        try:
            broken.write_text("{}")
            found = compare(store, rows_of(store), resamples=100)
        finally:
            broken.unlink()
            broken.parent.rmdir()
        assert found.runs_seen == 13
        assert found.notes[-1] == "Records of the store that cannot be read and are not counted: broken."

    def test_small_classes_are_named(self, store):
        assert any("noise" in note and "fir" in note for note in compare(store, rows_of(store), resamples=20).notes)

    @pytest.mark.parametrize(
        ("other", "words"),
        [
            ("resplit", "must have the same split, but 'other' has"),
            ("background", r"same seeds, but 'other' has \[0\]"),
        ],
    )
    def test_runs_on_other_rows_are_refused(self, store, other, words):
        rows = rows_of(store) | {"other": rows_of(store, other)["baseline"]}
        with pytest.raises(StoreError, match=words):
            compare(store, rows)

    def test_another_background_is_refused(self, store):
        rows = {"a": rows_of(store, "one")["baseline"], "b": rows_of(store, "background")["baseline"]}
        with pytest.raises(StoreError, match="must have the same background"):
            compare(store, rows)

    def test_an_unknown_baseline_and_a_missing_run_are_refused(self, store):
        with pytest.raises(StoreError, match="The baseline must be one of the rows"):
            compare(store, rows_of(store), "nobody")
        with pytest.raises(StoreError, match="The run is not in the store"):
            compare(store, {"a": ("0123",)})


class TestNotes:
    def notes(self, store, change, role="select"):
        """Notes on the four rows, after a change of a row's records."""
        paired = load(store, rows_of(store), role)
        records = {name: tuple(change(name, run) for run in runs) for name, runs in paired.records.items()}
        return notes_of(replace(paired, records=records), role, ())

    def test_rows_that_chose_their_epoch_on_these_rows_are_named(self, store):
        def solved(name, run):
            return replace(run, gradient_norm=1e-9, reason="solved") if name == "no weights" else run

        (found,) = [note for note in self.notes(store, solved) if "chose their epoch" in note]
        assert "better than they are: 'baseline', 'untrained', 'calibrated'; 'no weights' did not" in found
        assert found.endswith(f"{SETTLED}.")
        assert not [n for n in self.notes(store, solved, "test") if "chose their epoch" in n]
        assert not [n for n in self.notes(store, lambda name, run: run) if "chose their epoch" in n]

    def test_different_budgets_are_reported(self, store):
        def longer(name, run):
            if name != "calibrated":
                return run
            train = run.full_spec["train"]
            return replace(run, full_spec=run.full_spec | {"train": train | {"schedule": {"epochs": 9}}})

        (found,) = [note for note in self.notes(store, longer) if "schedule or patience" in note]
        assert "'calibrated' against 'baseline'. Use equal schedules, or" in found
        assert not [n for n in self.notes(store, lambda name, run: run) if "schedule or patience" in n]

    def test_classes_that_the_split_treats_apart_are_named(self, store):
        def told(name, run):
            known = {"missing": {"train": (), "test": ("fir", "ash")}, "forced": ("elm & oak",), "small": ("cedar",)}
            return replace(run, data=replace(run.data, **known))

        found = self.notes(store, told)
        assert "Classes missing from test: fir, ash." in found
        assert not any("missing from train" in note for note in found)
        assert any("kept a group for training" in note and note.endswith("elm & oak.") for note in found)
        assert any("too few rows for every fold" in note and note.endswith("cedar.") for note in found)

    def test_a_reverted_second_stage_is_reported(self, store):
        def reverted(name, run):
            kept = (0 if name == "calibrated" and run.seed > 0 else 3,)
            return replace(run, chosen=Choices(run.chosen.epochs + kept))

        (found,) = [note for note in self.notes(store, reverted) if "second stage" in note]
        assert found == (
            "No epoch of the second stage of 'calibrated' met second.max_head_loss, so the head of the first stage was "
            "kept for seed 1, 2."
        )

    def test_a_row_without_effect_is_reported(self, store):
        rows = rows_of(store)
        paired = load(store, {"a": rows["baseline"], "b": rows["baseline"], "c": rows["calibrated"]}, "select")
        found = [note for note in notes_of(paired, "select", ()) if "no effect" in note]
        assert found == ["The predictions of 'b' are identical to those of 'a': its options had no effect."]

    def test_a_run_that_gave_nan_is_named(self, store):
        paired = load(store, rows_of(store), "select")
        first, *rest = paired.predictions["calibrated"]
        spoiled = replace(first, confidence=np.full_like(first.confidence, math.nan))
        changed = replace(paired, predictions=paired.predictions | {"calibrated": (spoiled, *rest)})
        assert "The figures of 'calibrated' are omitted because seed 0 gave NaN." in notes_of(changed, "select", ())

    @pytest.mark.parametrize(("groups", "told"), [(1, "There is only 1 group;"), (2, "There are only 2 groups;")])
    def test_few_groups_are_counted(self, store, groups, told):
        paired = load(store, rows_of(store), "select")
        frame = replace(paired.frame, groups=np.arange(len(paired.frame.labels)) % groups)
        assert f"{told} verdicts need at least 20." in notes_of(replace(paired, frame=frame), "select", ())

    def test_the_gain_from_more_seeds_is_reported(self, store):
        """Quantiles of t at 1 - 0.04 / 6 with 4 and 8 degrees of freedom, 4.2334 and 3.1631, times sqrt(2 / S)."""
        notes = compare(store, rows_of(store), resamples=100).notes
        told = "about 3.5 times the standard deviation of a run over seeds; with 5 seeds, 2.0 times."
        assert any(told in note for note in notes)


class TestTables:
    def test_the_text_says_what_was_compared_and_how_often(self, store):
        text = to_text(compare(store, rows_of(store), title="three", resamples=200))
        assert text.startswith("three: validation rows (select), baseline 'baseline'\n")
        assert "44 rows in 22 groups; seeds 0, 1, 2; 95 % intervals over groups (200 resamples) and seeds" in text
        assert "33 comparisons (3 rows x 11 metrics); 13 runs of this store were evaluated on these rows" in text
        assert "corrected for the number of rows within each metric (Holm), not for the number of metrics" in text
        lines = text.splitlines()
        head = next(line for line in lines if line.startswith("row"))
        assert head.split() == ["row", "macro_f1_fg", "delta", "95", "%", "interval", "seed", "sd", "verdict"]
        assert "Each 95 % interval is for a single difference" in text
        assert (
            "if all rows were equal, up to 0.6 of the 11 metrics would be expected to show a verdict by chance" in text
        )
        calibrated = next(line for line in lines if line.startswith("calibrated"))
        assert "+0.0000  [+0.0000, +0.0000]   0.0000  can't tell" in calibrated

    def test_single_things_are_named_in_the_singular(self, store, tmp_path):
        found = compare(store, {name: rows_of(store)[name] for name in ("baseline", "untrained")}, resamples=20)
        table = found.table[found.table["metric"] == "macro_f1_fg"]
        small = replace(found, table=table, n_rows=1, n_groups=1, seeds=(0,), runs_seen=1, resamples=1)
        text = to_text(small)
        assert "\n1 row in 1 group; seed 0; 95 % intervals over groups (1 resample) and seeds\n" in text
        assert "\n1 comparison (1 row x 1 metric); 1 run of this store was evaluated on these rows\n" in text
        assert " of the 1 metric would be expected" in text
        assert "; 1 group, 1 seed)" in Compared(small).verdict("untrained")
        assert repr(Compared(small)) == "<Compared: untrained against baseline on 1 row>"
        page = write_report([replace(small, resamples=20)], store, tmp_path / "report.html").read_text("utf-8")
        assert "<p>1 row in 1 group, seed 0." in page
        assert "1 in this table; 1 run of the store was evaluated on these rows" in page

    def test_files_hold_the_table(self, store, tmp_path):
        found = compare(store, rows_of(store), resamples=50)
        for name in ("t.csv", "t.parquet", "t.json"):
            save(found, tmp_path / "deep" / name)
        for read in (pd.read_csv(tmp_path / "deep/t.csv"), pd.read_parquet(tmp_path / "deep/t.parquet")):
            assert read["delta"].to_numpy() == pytest.approx(found.table["delta"].to_numpy(), nan_ok=True)
            assert set(read["role"]) == {"select"}
            assert read["chance_verdicts"].to_numpy() == pytest.approx(0.55)
            assert {"sd_groups", "sd_seeds", "more_groups", "more_seeds"} <= set(read)
        tree = json.loads((tmp_path / "deep/t.json").read_text())
        assert tree["n_groups"] == 22
        assert tree["chance_verdicts"] == pytest.approx(0.55)
        assert tree["metrics_with_verdict"] == found.chance[1]
        assert len(tree["table"]) == len(found.table)

    def test_another_ending_is_refused(self, store, tmp_path):
        with pytest.raises(OutputError, match=r"a table must end in \.csv or \.json or \.parquet, got 't\.xlsx'"):
            save(compare(store, rows_of(store), resamples=5), tmp_path / "t.xlsx")


def test_a_row_alone_is_shown_without_differences(store):
    found = compare(store, {"only": rows_of(store)["baseline"]}, resamples=20)
    assert "0 comparisons (0 rows x 11 metrics)" in to_text(found)
    assert found.table["delta"].isna().all()
