"""Equal tuning budgets: what is trained, what wins, and what is said of it."""

import json
import re
import shutil
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import yaml

import benchmarks.runner as runner
from benchmarks.api import compare as compare_settings
from benchmarks.compare import compare
from benchmarks.events import RowStarted, RunDone, RunFailed, RunSkipped
from benchmarks.exporting import export_row
from benchmarks.notes import notes_of
from benchmarks.paired import load
from benchmarks.plan import BenchSpec, expand
from benchmarks.report import write_report
from benchmarks.runner import bench_rows, run_bench
from benchmarks.settings import SettingsError, parse
from benchmarks.store import StoreError, is_finished, read_record, run_folder
from benchmarks.tables import save, to_text
from benchmarks.tuning import Tried, chosen_rows, edges
from heads.export import load as load_bundle
from training.events import Failed, Finished
from training.run import RunSpec

DOC = (Path(__file__).parents[2] / "docs" / "tuning.md").read_text(encoding="utf-8")
SHORT = {"train.schedule.epochs": 8, "train.schedule.min_steps": 0, "train.schedule.batch_size": 32}
LR = "train.optim.lr"
RATES = {LR: (1e-6, 0.1)}


def bench_of(folder, **fields):
    known = {"caches": (str(folder / "cache"),), "store": str(folder / "s"), "preset": "plain", "base": SHORT}
    return BenchSpec(**(known | {"seeds": (0, 1)} | fields))


def tuned_bench(folder, **fields):
    """Three rows: two of two learning rates, of which one is hopeless, and one with nothing to tune."""
    toggles = {"smooth": {"train.loss.smoothing.epsilon": 0.1}, "solved": {"head.classifier.kind": "ridge"}}
    tune = {"plain": RATES, "smooth": [{LR: 0.05}, {"train": {"optim": {"lr": 1e-6}}}], "solved": {}}
    return bench_of(folder, **({"toggles": toggles, "tune": tune} | fields))


def of_kind(events, *kinds):
    return [event for event in events if isinstance(event, kinds)]


@pytest.fixture(scope="module")
def trained(tmp_path_factory, write_cache):
    """A folder with a cache and the runs of the tuned bench, and the events of its training."""
    folder = tmp_path_factory.mktemp("tuned")
    write_cache(folder / "cache")
    return SimpleNamespace(folder=folder, events=list(run_bench(tuned_bench(folder))))


@pytest.fixture
def folder(trained, tmp_path):
    """A copy of that folder, which may be changed."""
    shutil.copytree(trained.folder, tmp_path / "copy")
    return tmp_path / "copy"


class TestSettings:
    def names(self, **fields):
        return [row.name for row in expand(bench_of(Path(), **fields))]

    def test_a_grid_is_every_combination_and_a_list_its_points(self):
        found = self.names(
            toggles={"list": {"train.loss.smoothing.epsilon": 0.2}},
            tune={
                "plain": {LR: [0.01, 0.02], "train.optim.weight_decay": [0, 0.5]},
                "list": [{LR: 0.1}, {LR: 0.2, "posthoc.calibration.kind": "temperature"}, {}, {"columns": ["toy"]}],
            },
        )
        assert found[:4] == [
            "plain @ lr=0.01, weight_decay=0",
            "plain @ lr=0.01, weight_decay=0.5",
            "plain @ lr=0.02, weight_decay=0",
            "plain @ lr=0.02, weight_decay=0.5",
        ]
        assert found[4:] == [
            "list @ lr=0.1",
            "list @ lr=0.2, kind=temperature",
            "list @ as it is",
            "list @ columns=[toy]",
        ]

    def test_settings_lie_over_the_row_and_not_over_the_base(self):
        toggles = {"arc": {"preset": "arcface", "head.classifier.scale": 12}}
        tune = {"plain": {LR: [0.01, 0.02]}, "arc": {"head.classifier.margin": [0.1, 0.3]}}
        specs = [row.specs[1] for row in expand(bench_of(Path(), toggles=toggles, tune=tune))]
        assert [spec.train.optim.lr for spec in specs[:2]] == [0.01, 0.02]
        assert [(s.head.classifier.margin, s.head.classifier.scale, s.seed) for s in specs[2:]] == [
            (0.1, 12, 1),
            (0.3, 12, 1),
        ]

    def test_options_of_one_last_name_are_named_in_full(self):
        tau = {"train.loss.logit_adjustment.tau": [1], "posthoc.adjustment.tau": [0, 0.5]}
        found = self.names(tune={"plain": tau})
        assert found[1] == "plain @ train.loss.logit_adjustment.tau=1, posthoc.adjustment.tau=0.5"

    def test_rows_of_a_grid_are_tuned_by_their_name(self):
        tune = {name: {LR: [0.1, 0.2]} for name in ("plain", "epsilon=0.1")}
        assert len(self.names(grid={"train.loss.smoothing.epsilon": (0.1,)}, tune=tune)) == 4

    def test_two_rows_may_share_a_setting_and_numbers_that_look_alike_differ(self):
        one = {"plain": {LR: [0.01, 0.0100000001]}}
        assert self.names(tune=one) == ["plain @ lr=0.01", "plain @ lr=0.0100000001"]

    @pytest.mark.parametrize(
        ("tune", "words"),
        [
            ({"plain": RATES}, r"the baseline included, however: tune leaves out \['arc'\]"),
            ({"plain": RATES, "arc": {}, "acr": RATES}, r"\['plain', 'arc'\], however: \['acr'\] came"),
            (
                {"plain": {LR: [0.1, 0.2, 0.3]}, "arc": {"head.classifier.margin": [0.1, 0.2], LR: [0.1, 0.2]}},
                "equally many settings, however: 'plain' has 3, 'arc' has 4. Add or remove values; {} says",
            ),
            ({"plain": RATES, "arc": [{}]}, "'plain' has 2, 'arc' has 1"),
            ({"plain": {LR: [1, 1.0]}, "arc": RATES}, r"'plain @ lr=1' has the same options as 'plain @ lr=1'"),
            ({"plain": {LR: []}, "arc": RATES}, r"each option of a grid needs values, however: \['train.optim.lr'\]"),
            ({"plain": {"train.optim.lrr": [1]}, "arc": {LR: [1]}}, "row 'plain @ lrr=1': .*Did you mean train.optim"),
            ({"plain": {"seed": [1]}, "arc": {LR: [1]}}, "however: tune of 'plain' states seed=1"),
            (
                {"plain": {LR: [1]}, "arc": [{"background": ["fir"]}]},
                "are not tuned, however: tune of 'arc' states them",
            ),
        ],
    )
    def test_unequal_and_impossible_budgets_are_refused_in_words(self, tune, words):
        with pytest.raises(SettingsError, match=f"(?s){words}"):
            expand(bench_of(Path(), toggles={"arc": {"preset": "arcface"}}, tune=tune))

    def test_rows_with_the_same_settings_are_refused(self):
        tune = {"plain": RATES, "same": [{LR: 0.1}, {LR: 1e-6}]}
        with pytest.raises(SettingsError, match="'same' has the same options as 'plain'"):
            expand(bench_of(Path(), toggles={"same": {}}, tune=tune))

    def test_what_is_no_list_of_values_is_told(self):
        with pytest.raises(SettingsError, match=r"tune\.plain\.values\.train\.optim\.lr: .*however: 0\.1 came"):
            parse(BenchSpec, {"tune": {"plain": {LR: 0.1}}})
        with pytest.raises(SettingsError, match=r"tune\.plain\.list\.0: .*however: 0\.1 came"):
            parse(BenchSpec, {"tune": {"plain": [0.1]}})


class TestRunning:
    def test_every_setting_is_trained_with_every_seed(self, trained):
        done = of_kind(trained.events, RunDone)
        names = ["plain @ lr=1e-06", "plain @ lr=0.1", "smooth @ lr=0.05", "smooth @ lr=1e-06", "solved"]
        assert [event.row for event in of_kind(trained.events, RowStarted)] == names
        assert sorted((e.row, e.record.seed) for e in done) == sorted((name, seed) for name in names for seed in (0, 1))
        assert {e.record.together for e in done if e.row.startswith("plain")} == {2}
        rates = {e.row: e.record.full_spec["train"]["optim"]["lr"] for e in done}
        assert (rates["plain @ lr=0.1"], rates["smooth @ lr=0.05"]) == (0.1, 0.05)

    def test_a_run_of_two_rows_is_trained_once_and_both_find_it(self, trained, tmp_path):
        toggles = {"margin": {"train.loss.smoothing.epsilon": 0.1}}
        tune = {"plain": RATES, "margin": [{LR: 0.1}, {LR: 0.1, "train.loss.smoothing.epsilon": 0}]}
        bench = bench_of(trained.folder, store=str(tmp_path / "s"), toggles=toggles, tune=tune)
        events = list(run_bench(bench))
        shared = "margin @ lr=0.1, epsilon=0"
        assert shared not in [event.row for event in of_kind(events, RunDone)]
        found = of_kind(events, RunSkipped)
        keys = bench_rows(bench)[0].rows
        assert [(e.row, e.seed, e.key) for e in found] == [(shared, s, keys["plain @ lr=0.1"][s]) for s in (0, 1)]
        assert (events[-1].trained, events[-1].skipped) == (6, 2)
        assert len(list((tmp_path / "s" / "runs").iterdir())) == 6
        again = list(run_bench(bench))
        assert (again[-1].trained, again[-1].skipped) == (0, 8)

    def test_a_failed_run_of_two_rows_failed_in_both(self, trained, tmp_path, monkeypatch):
        toggles = {"smooth": {"train.loss.smoothing.epsilon": 0.1}}
        tune = {"plain": RATES, "smooth": [{LR: 0.1}, {LR: 0.1, "train.loss.smoothing.epsilon": 0}]}
        bench = bench_of(trained.folder, store=str(tmp_path / "s"), toggles=toggles, tune=tune, seeds=(0,))
        fail(monkeypatch, lambda spec: spec.train.optim.lr == 0.1 and spec.train.loss.smoothing.epsilon == 0)
        failed = of_kind(run_bench(bench), RunFailed)
        assert [event.row for event in failed] == ["plain @ lr=0.1", "smooth @ lr=0.1, epsilon=0"]


def fail(monkeypatch, which):
    """Let training give no head where a run is such."""
    real = runner.fit

    def failing(runs, data, stop, checkpoints):
        for event in real(runs, data, stop, checkpoints):
            is_so = isinstance(event, Finished) and which(runs[event.run])
            yield Failed(event.run, "it diverged. Lower train.optim.lr.") if is_so else event

    monkeypatch.setattr(runner, "fit", failing)


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
            flipped = 1 - record["evaluations"]["test"]["metrics"]["macro_f1_fg"]
            record["evaluations"]["test"]["metrics"]["macro_f1_fg"] = flipped
            path.write_text(json.dumps(record))
        assert chosen_rows(tuned_bench(folder)) == before

    def test_of_equals_the_first_listed_wins(self, folder):
        for key in sum((one.keys for one in chosen_rows(tuned_bench(folder))[0].tuned["smooth"].tried), ()):
            change_metric(folder, key, "macro_f1_fg", 0.5)
        (chosen,) = chosen_rows(tuned_bench(folder))
        assert (chosen.tuned["smooth"].winner.name, chosen.tuned["smooth"].winner.value) == ("lr=0.05", 0.5)

    @pytest.mark.parametrize(
        ("metric", "told"), [("macro_f1_fg", "no selection rows"), ("brier", "predictions are not numbers")]
    )
    def test_a_setting_lacking_a_value_cannot_win(self, folder, metric, told):
        keys = bench_rows(tuned_bench(folder))[0].rows
        change_metric(folder, keys["plain @ lr=0.1"][1], metric, None)
        tried = chosen_rows(tuned_bench(folder))[0].tuned["plain"]
        assert tried.winner.name == "lr=1e-06"
        assert tried.tried[1].value is None
        assert re.search(f"seed 1: .*{told}", tried.tried[1].problem)
        change_metric(folder, keys["plain @ lr=1e-06"][0], metric, None)
        with pytest.raises(StoreError, match=f"none of the 2 of row 'plain' did; seed 0: .*{told}.*Tune over other"):
            chosen_rows(tuned_bench(folder))
        assert list(chosen_rows(tuned_bench(folder), ["smooth"])[0].rows) == ["smooth"]

    def test_a_failed_setting_cannot_win_and_one_that_was_not_tried_is_missing(self, trained, tmp_path, monkeypatch):
        bench = tuned_bench(trained.folder, store=str(tmp_path / "s"))
        with pytest.raises(StoreError, match=r"lacks 2 of 2 of row 'plain @ lr=1e-06'.*Run the bench first"):
            chosen_rows(bench)
        fail(monkeypatch, lambda spec: spec.train.optim.lr == 0.1 and spec.seed == 1)
        assert len(of_kind(run_bench(bench), RunFailed)) == 1
        (chosen,) = chosen_rows(bench)
        assert chosen.tuned["plain"].winner.name == "lr=1e-06"
        assert chosen.tuned["plain"].tried[1].problem == "seed 1: it diverged. Lower train.optim.lr."
        found = compare(tmp_path / "s", chosen.rows, resamples=20, tuned=chosen.tuned)
        assert (
            "Settings that could not win: 1: plain @ lr=0.1 (seed 1: it diverged. Lower train.optim.lr.)."
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
        with pytest.raises(SettingsError, match=r"one of \['plain', 'a', 'b'\], however: 'c' came"):
            chosen_rows(bench, ["c"])


def change_metric(folder, key, metric, value):
    path = run_folder(folder / "s", key) / "record.json"
    record = json.loads(path.read_text())
    record["evaluations"]["select"]["metrics"][metric] = value
    path.write_text(json.dumps(record))


class TestEdges:
    def edges(self, points, winner, **base):
        rows = expand(bench_of(Path(), base=base, tune={"plain": points}))
        tried = [Tried(row.setting, row.changes, row.specs[0], (), 0.5, "") for row in rows]
        return edges(tried, tried[winner])

    def test_smallest_and_largest_values_are_edges_and_those_between_are_not(self):
        rates = {LR: [0.01, 0.1, 0.03]}
        found = [self.edges(rates, winner) for winner in range(3)]
        assert found == [("lr=0.01 (smallest of 3)",), ("lr=0.1 (largest of 3)",), ()]

    def test_a_bound_of_the_option_is_no_edge(self):
        shares = {"train.loss.smoothing.epsilon": [0.0, 0.1, 0.2]}
        assert [self.edges(shares, winner) for winner in range(3)] == [(), (), ("epsilon=0.2 (largest of 3)",)]

    def test_a_setting_that_leaves_an_option_has_the_row_s_value(self):
        points = [{LR: 0.1}, {"train.loss.smoothing.epsilon": 0.1}, {LR: 0.001}]
        found = self.edges(points, 1, **{LR: 0.01})
        assert found == ("epsilon=0.1 (largest of 2)",)

    def test_words_and_numbers_of_another_kind_are_no_edges(self):
        points = [{LR: 0.01}, {LR: 0.02}, {"train.optim": {"kind": "sgd", "lr": 5}}]
        assert self.edges(points, 1) == ("lr=0.02 (largest of 2)",)
        assert self.edges(points, 2) == ()
        assert self.edges({"head.classifier.kind": ["ridge", "lda"]}, 0) == ()


class TestComparing:
    def found(self, trained, role="select", bench=None):
        bench = bench or tuned_bench(trained.folder)
        (chosen,) = chosen_rows(bench)
        return compare(trained.folder / "s", chosen.rows, role=role, resamples=50, tuned=chosen.tuned)

    def test_the_figures_are_those_of_the_winners(self, trained):
        found = self.found(trained)
        (chosen,) = chosen_rows(tuned_bench(trained.folder))
        assert found.line("plain", "macro_f1_fg")["value"] == pytest.approx(
            chosen.tuned["plain"].winner.value, abs=1e-6
        )
        assert list(found.rows) == ["plain", "smooth", "solved"]

    def test_the_notes_say_budget_winners_edges_and_optimism(self, trained):
        notes = "\n".join(self.found(trained).notes)
        won = {name: one.winner.value for name, one in chosen_rows(tuned_bench(trained.folder))[0].tuned.items()}
        assert (
            "Each row is the best of 2 settings by validation macro F1, mean of 2 seeds. Won: 'plain' with lr=0.1 "
            f"({won['plain']:.4f}); 'smooth' with lr=0.05 ({won['smooth']:.4f})."
        ) in notes
        assert "had fewer settings to choose from: 'solved' (1 against 2)." in notes
        assert "may lie beyond: 'plain' lr=0.1 (largest of 2); 'smooth' lr=0.05 (largest of 2)." in notes
        assert "on the very validation rows that chose the settings, so they are optimistic" in notes
        assert "chose their epoch on the very rows" not in notes
        assert "Rows differ in schedule" not in notes

    def test_settings_that_are_equally_good_have_no_edge_and_are_told(self, folder):
        bench = tuned_bench(folder)
        for row in ("plain @ lr=1e-06", "plain @ lr=0.1"):
            for key in bench_rows(bench)[0].rows[row]:
                change_metric(folder, key, "macro_f1_fg", 0.25)
        notes = "\n".join(self.found(SimpleNamespace(folder=folder)).notes)
        assert (
            "All settings of these rows are equally good, so the first listed stands for them, and what they change "
            "may have no effect: 'plain'."
        ) in notes
        assert "'plain' lr=" not in notes
        assert "'smooth' lr=0.05 (largest of 2)" in notes

    def test_on_test_rows_nothing_is_called_optimistic(self, trained):
        notes = "\n".join(self.found(trained, "test").notes)
        assert "Each row is the best of 2 settings by validation macro F1" in notes
        assert "optimistic" not in notes

    def test_schedules_are_compared_with_all_that_a_row_may_choose_from(self, trained):
        """Winners of other schedules had the same schedules to choose from."""
        store, rows = trained.folder / "s", chosen_rows(tuned_bench(trained.folder))[0]
        paired = load(store, rows.rows, "select")
        long = RunSpec.model_validate(paired.records["plain"][0].full_spec | {"seed": 0})
        long = long.model_copy(update={"train": parse_epochs(long, 99)})
        both = {name: with_schedules(rows.tuned[name], long) for name in ("plain", "smooth")}
        alone = {"plain": both["plain"], "smooth": rows.tuned["smooth"]}
        told = ["\n".join(notes_of(paired, "select", 2000, (), tuned)) for tuned in (both, alone)]
        assert ["Rows differ in schedule or patience" in notes for notes in told] == [False, True]

    def test_the_report_and_the_saved_table_list_every_setting(self, trained, tmp_path):
        found = self.found(trained)
        html = write_report([found], trained.folder / "s", tmp_path / "report.html").read_text("utf-8")
        assert "Settings tried" in html
        assert "Each row is the best of 2 settings" in html
        for line in found.settings:
            assert f'<td class="left wrap">{line["setting"] or "nothing to tune"}</td>' in html
            assert f"<td>{line['value']:.4f}</td>" in html
        save(found, tmp_path / "table.json")
        kept = json.loads((tmp_path / "table.json").read_text())["settings"]
        assert [(line["row"], line["setting"], line["won"]) for line in kept] == [
            ("plain", "lr=1e-06", False),
            ("plain", "lr=0.1", True),
            ("smooth", "lr=0.05", True),
            ("smooth", "lr=1e-06", False),
            ("solved", "", True),
        ]
        assert kept[1]["runs"] == list(found.rows["plain"])

    def test_without_tuning_nothing_is_said_of_it(self, trained):
        rows = chosen_rows(tuned_bench(trained.folder))[0].rows
        found = compare(trained.folder / "s", rows, resamples=20)
        assert found.settings == ()
        assert not re.search(r"settings|lie beyond|Won:", to_text(found).split("Note: ", 1)[1])

    def test_the_winner_is_exported(self, trained, tmp_path):
        told = export_row(tuned_bench(trained.folder), "plain", tmp_path / "head")
        assert "row 'plain' with lr=0.1, seed " in told
        facts = load_bundle(tmp_path / "head").head.facts
        assert facts["run"]["train"]["optim"]["lr"] == 0.1
        assert facts["key"] in chosen_rows(tuned_bench(trained.folder))[0].rows["plain"]


def parse_epochs(spec, epochs):
    schedule = spec.train.schedule.model_copy(update={"epochs": epochs})
    return spec.train.model_copy(update={"schedule": schedule})


def with_schedules(tuned, other):
    """The same, as if one of the settings had another schedule."""
    return replace(tuned, tried=(tuned.tried[0], replace(tuned.tried[1], spec=other)))


class TestApi:
    @pytest.fixture
    def arrays(self):
        labels = np.repeat([0, 1, 2], [60, 40, 20])
        return 3 * np.eye(3, 5)[labels] + np.random.default_rng(3).normal(0, 1, (120, 5)), labels

    def test_rows_are_tuned_by_the_names_they_were_given(self, arrays):
        rows = {"mine": SHORT, "smooth": {"train.loss.smoothing.epsilon": 0.1}}
        tune = {"mine": {LR: [1e-6, 0.1]}, "smooth": [{LR: 0.1}, {LR: 1e-6}]}
        made = compare_settings(*arrays, rows, preset="plain", seeds=(0, 1), tune=tune).comparison
        assert [(line["row"], line["setting"]) for line in made.settings if line["won"]] == [
            ("mine", "lr=0.1"),
            ("smooth", "lr=0.1"),
        ]
        assert any("Won: 'mine' with lr=0.1" in note for note in made.notes)
        assert made.line("mine", "macro_f1_fg")["value"] > 0.8

    def test_a_row_that_is_left_out_is_told_by_the_names_they_were_given(self, arrays):
        with pytest.raises(SettingsError, match=r"tune leaves out \['mine'\]"):
            compare_settings(*arrays, {"mine": {}, "b": {LR: 1}}, tune={"b": {}})
        with pytest.raises(SettingsError, match=r"\['mine', 'b'\], however: \['plain'\] came"):
            compare_settings(*arrays, {"mine": {}, "b": {LR: 1}}, preset="plain", tune={"plain": {}, "b": {}})

    def test_a_setting_that_fails_loses_and_a_row_without_tuning_still_raises(self, arrays, monkeypatch):
        fail(monkeypatch, lambda spec: spec.train.optim.lr == 0.1)
        rows = {"mine": SHORT, "smooth": {"train.loss.smoothing.epsilon": 0.1}}
        tune = {name: {LR: [0.1, 0.02]} for name in rows}
        made = compare_settings(*arrays, rows, preset="plain", seeds=(0,), tune=tune).comparison
        assert [line["setting"] for line in made.settings if line["won"]] == ["lr=0.02", "lr=0.02"]
        with pytest.raises(ValueError, match="it diverged"):
            compare_settings(*arrays, {"mine": SHORT | {LR: 0.1}, "b": {LR: 0.02}}, preset="plain", seeds=(0,))


def test_the_bench_of_the_documentation_runs(trained, tmp_path):
    (text,) = re.findall(r"```yaml\n(.*?)```", DOC, re.DOTALL)
    own = {"caches": [str(trained.folder / "cache")], "store": str(tmp_path / "s"), "seeds": [0], "base": SHORT}
    bench = parse(BenchSpec, yaml.safe_load(text) | own)
    assert len(expand(bench)) == 6 + 6 + 6 + 1
    # Of no option that is tuned is it said that it has no effect.
    assert not [warning for row in expand(bench) for warning in row.warnings if "strength" in warning]
    list(run_bench(bench))
    (chosen,) = chosen_rows(bench)
    assert [len(one.tried) for one in chosen.tuned.values()] == [6, 6, 6, 1]
    assert chosen.tuned["ridge"].winner.name.startswith("strength=")


def test_settings_win_by_the_metric_that_the_bench_names(trained):
    """The hopeless rate has the larger loss, and would win if the larger value did."""
    bench = tuned_bench(trained.folder, tune_by="nll")
    (chosen,) = chosen_rows(bench)
    tried = {one.name: one for one in chosen.tuned["plain"].tried}
    for one in tried.values():
        losses = [read_record(Path(bench.store), key).evaluations["select"].metrics["nll"] for key in one.keys]
        assert one.value == pytest.approx(sum(losses) / 2)
    assert chosen.tuned["plain"].winner.value == min(one.value for one in tried.values())
    assert tried["lr=1e-06"].value > tried["lr=0.1"].value
    notes = compare(Path(bench.store), chosen.rows, "plain", "select", tuned=chosen.tuned).notes
    assert any("by validation NLL, mean of 2 seeds" in note for note in notes)


def test_a_metric_that_settings_cannot_win_by_is_refused():
    with pytest.raises(SettingsError, match="tune_by"):
        parse(BenchSpec, {"tune_by": "ece"})
