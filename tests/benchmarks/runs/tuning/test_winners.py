"""Tuned benches: winners, and winners at the edge of the values tried."""

import json
import re
from pathlib import Path

import numpy as np
import pytest
from tuned_benches import LR, bench_of, change_metric, fail, of_kind, tuned_bench

from frostbench.benchmarks.comparison.compare import compare
from frostbench.benchmarks.runs.events import RunFailed
from frostbench.benchmarks.runs.runner import bench_rows, run_bench
from frostbench.benchmarks.runs.store import SEAL, StoreError, is_finished, read_record
from frostbench.benchmarks.runs.tuning import chosen_rows
from frostbench.benchmarks.runs.tuning_edges import edges
from frostbench.benchmarks.settings.parsing import SettingsError
from frostbench.benchmarks.settings.plan import expand


class TestWinners:
    def test_the_winner_is_the_best_mean_on_selection_rows(self, trained):
        (chosen,) = chosen_rows(tuned_bench(trained.folder))
        keys = bench_rows(tuned_bench(trained.folder))[0].rows
        assert {name: one.winner.name for name, one in chosen.tuned.items()} == {
            "plain": "lr=0.1",
            "smooth": "lr=0.05",
            "solved": "",
        }
        assert chosen.rows == {
            "plain": keys["plain @ lr=0.1"],
            "smooth": keys["smooth @ lr=0.05"],
            "solved": keys["solved"],
        }
        for tried in chosen.tuned["plain"].tried:
            records = [read_record(trained.folder / "s", key) for key in tried.keys]
            values = [record.evaluations["select"].metrics["macro_f1_fg"] for record in records]
            assert tried.value == pytest.approx(np.mean(values))
        good, bad = (one.value for one in reversed(chosen.tuned["plain"].tried))
        assert good > bad + 0.2

    def test_test_rows_choose_nothing(self, folder):
        before = chosen_rows(tuned_bench(folder))
        for path in (folder / "s" / "runs").glob("*/record.json"):
            record = json.loads(path.read_text())
            del record[SEAL]
            flipped = 1 - record["evaluations"]["test"]["metrics"]["macro_f1_fg"]
            record["evaluations"]["test"]["metrics"]["macro_f1_fg"] = flipped
            path.write_text(json.dumps(record))
        assert chosen_rows(tuned_bench(folder)) == before

    @pytest.mark.parametrize(("second", "wanted"), [(0.4, "lr=0.05"), (0.3, "lr=1e-06"), (None, "lr=0.05")])
    def test_of_equals_the_one_of_lower_nll_wins_and_then_the_first_listed(self, folder, second, wanted):
        tried = chosen_rows(tuned_bench(folder))[0].tuned["smooth"].tried
        for place, one in enumerate(tried):
            for key in one.keys:
                change_metric(folder, key, "macro_f1_fg", 0.5)
                change_metric(folder, key, "nll", (0.4, second)[place])
        (chosen,) = chosen_rows(tuned_bench(folder))
        found = chosen.tuned["smooth"]
        assert (found.winner.name, found.winner.value) == (wanted, 0.5)
        assert found.is_tied == (second == 0.4)

    @pytest.mark.parametrize(
        ("metric", "told"), [("macro_f1_fg", "no validation rows"), ("brier", "predictions are not numbers")]
    )
    def test_a_setting_lacking_a_value_cannot_win(self, folder, metric, told):
        keys = bench_rows(tuned_bench(folder))[0].rows
        change_metric(folder, keys["plain @ lr=0.1"][1], metric, None)
        tried = chosen_rows(tuned_bench(folder))[0].tuned["plain"]
        assert tried.winner.name == "lr=1e-06"
        assert tried.tried[1].value is None
        assert re.search(f"seed 1: .*{told}", tried.tried[1].problem)
        change_metric(folder, keys["plain @ lr=1e-06"][0], metric, None)
        with pytest.raises(
            StoreError, match=f"none of the 2 settings of row 'plain' has one \\(seed 0: .*{told}.*Tune over other"
        ):
            chosen_rows(tuned_bench(folder))
        assert list(chosen_rows(tuned_bench(folder), ["smooth"])[0].rows) == ["smooth"]

    def test_the_only_setting_of_a_row_that_has_failed_is_named(self, folder, monkeypatch):
        bench = tuned_bench(folder, store=str(folder / "other"))
        fail(monkeypatch, lambda spec: spec.head.classifier.kind == "ridge")
        list(run_bench(bench))
        with pytest.raises(StoreError, match=r"but the only setting of row 'solved' has none .*it diverged"):
            chosen_rows(bench)

    def test_a_failed_setting_cannot_win_and_one_that_was_not_tried_is_missing(self, trained, tmp_path, monkeypatch):
        bench = tuned_bench(trained.folder, store=str(tmp_path / "s"))
        with pytest.raises(StoreError, match=r"lacks 2 of 2 runs of row 'plain @ lr=1e-06'.*Run the bench first"):
            chosen_rows(bench)
        fail(monkeypatch, lambda spec: spec.train.optim.lr == 0.1 and spec.seed == 1)
        assert len(of_kind(run_bench(bench), RunFailed)) == 1
        (chosen,) = chosen_rows(bench)
        assert chosen.tuned["plain"].winner.name == "lr=1e-06"
        assert chosen.tuned["plain"].tried[1].problem == "seed 1: it diverged. Lower train.optim.lr."
        found = compare(tmp_path / "s", chosen.rows, resamples=20, tuned=chosen.tuned)
        assert (
            "Settings that could not win (1): plain @ lr=0.1 (seed 1: it diverged. Lower train.optim.lr.)."
            in found.notes
        )
        monkeypatch.undo()
        list(run_bench(bench))
        assert chosen_rows(bench)[0].tuned["plain"].winner.name == "lr=0.1"

    def test_a_row_without_a_rival_needs_no_value(self, trained, tmp_path):
        bench = bench_of(
            trained.folder,
            store=str(tmp_path / "s"),
            base={"head.classifier.kind": "ridge"},
            tune={"plain": {}},
            split={"select": 0},
            seeds=(0,),
        )
        list(run_bench(bench))
        (chosen,) = chosen_rows(bench)
        assert chosen.tuned["plain"].winner.value is None
        assert is_finished(tmp_path / "s", chosen.rows["plain"][0])

    def test_without_tuning_the_rows_are_those_of_the_bench(self, trained):
        bench = bench_of(trained.folder, toggles={"a": {LR: 0.5}, "b": {LR: 0.25}})
        (chosen,) = chosen_rows(bench)
        assert (chosen.rows, chosen.tuned) == (bench_rows(bench)[0].rows, {})
        assert list(chosen_rows(bench, ["b"])[0].rows) == ["b"]
        with pytest.raises(SettingsError, match=r"one of \['plain', 'a', 'b'\], got 'c'"):
            chosen_rows(bench, ["c"])


RATE = "Learning rate (train.optim.lr)"
SMOOTHING = "Label smoothing ε (train.loss.smoothing.epsilon)"


class TestEdges:
    def edges(self, points, winner, **base):
        rows = expand(bench_of(Path(), base=base, tune={"plain": points}))
        paths = [path for row in rows for path in row.changes]
        return edges(paths, [row.specs[0] for row in rows], rows[winner].specs[0])

    def test_smallest_and_largest_values_are_edges_and_those_between_are_not(self):
        rates = {LR: [0.01, 0.1, 0.03]}
        found = [self.edges(rates, winner) for winner in range(3)]
        assert found == [(f"{RATE} = 0.01 (smallest of 3)",), (f"{RATE} = 0.1 (largest of 3)",), ()]

    def test_a_bound_of_the_option_is_no_edge(self):
        shares = {"train.loss.smoothing.epsilon": [0.0, 0.1, 0.2]}
        assert [self.edges(shares, winner) for winner in range(3)] == [(), (), (f"{SMOOTHING} = 0.2 (largest of 3)",)]

    def test_a_setting_that_leaves_an_option_has_the_row_s_value(self):
        points = [{LR: 0.1}, {"train.loss.smoothing.epsilon": 0.1}, {LR: 0.001}]
        found = self.edges(points, 1, **{LR: 0.01})
        assert found == (f"{SMOOTHING} = 0.1 (largest of 2)",)

    def test_words_and_numbers_of_another_kind_are_no_edges(self):
        points = [{LR: 0.01}, {LR: 0.02}, {"train.optim": {"kind": "sgd", "lr": 5}}]
        assert self.edges(points, 1) == (f"{RATE} = 0.02 (largest of 2)",)
        assert self.edges(points, 2) == ()
        assert self.edges({"head.classifier.kind": ["ridge", "lda"]}, 0) == ()


def test_settings_win_by_the_metric_that_the_bench_names(trained):
    """The bad learning rate has the larger loss; it would win if larger values were better."""
    bench = tuned_bench(trained.folder, tune_by="nll")
    (chosen,) = chosen_rows(bench)
    tried = {one.name: one for one in chosen.tuned["plain"].tried}
    for one in tried.values():
        losses = [read_record(Path(bench.store), key).evaluations["select"].metrics["nll"] for key in one.keys]
        assert one.value == pytest.approx(sum(losses) / 2)
    assert chosen.tuned["plain"].winner.value == min(one.value for one in tried.values())
    assert tried["lr=1e-06"].value > tried["lr=0.1"].value
    notes = compare(Path(bench.store), chosen.rows, "plain", "select", tuned=chosen.tuned).notes
    assert any("by validation NLL, averaged over 2 seeds" in note for note in notes)
