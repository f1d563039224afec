"""Preset auto chooses what cross-validation on the training rows says."""

import shlex

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.metrics import f1_score, log_loss
from sklearn.model_selection import StratifiedGroupKFold

import frostbench
import frostbench.benchmarks.auto.choose as choose_module
from frostbench.benchmarks.arrays import cache_of
from frostbench.benchmarks.auto.candidates import CANDIDATES, Candidate
from frostbench.benchmarks.auto.choose import choose, with_choice
from frostbench.benchmarks.auto.decision import best_of
from frostbench.benchmarks.auto.held_out import HeldOut, cross_validated
from frostbench.benchmarks.auto.result import Choice
from frostbench.benchmarks.comparison.frame import Frame, Predictions
from frostbench.benchmarks.runs.evaluate import table_to_data
from frostbench.benchmarks.settings.parsing import SettingsError, read_overrides
from frostbench.benchmarks.settings.plan import BenchSpec, expand
from frostbench.embedcache.outputs.places import OutputError
from frostbench.embedcache.splits.making import load_or_make_split
from frostbench.embedcache.splits.spec import SplitSpec
from frostbench.embedcache.table import read_table
from frostbench.training.crossval.crossval import CrossValidated, cross_validate
from frostbench.training.run import RunSpec

QUICK = {name: CANDIDATES[name] for name in ("lda", "ridge", "logreg, C=1")}

ALL = {"test": 0, "select": 0, "calibrate": 0}


@pytest.fixture(autouse=True)
def quick_candidates(monkeypatch):
    monkeypatch.setattr(choose_module, "CANDIDATES", QUICK)


@pytest.fixture
def bench(cache, tmp_path):
    return BenchSpec(caches=(str(cache),), store=str(tmp_path / "store"), seeds=(0,))


def clouds(spread=1.5, rows=300, dims=12, classes=4):
    generator = np.random.default_rng(0)
    labels = np.arange(rows) % classes
    x = 2.5 * np.eye(classes, dims)[labels] + spread * generator.normal(size=(rows, dims))
    return x.astype(np.float32), labels


def test_every_candidate_can_be_expanded():
    for candidate in CANDIDATES.values():
        (row,) = expand(BenchSpec(preset=candidate.preset, base=candidate.changes, seeds=(0,)))
        assert row.specs[0].posthoc.calibration.kind == "auto"


def test_results_are_those_of_grouped_cross_validation_on_the_training_rows(bench, cache):
    choice = choose(bench)
    table = read_table(cache)
    split = load_or_make_split(cache, table, bench.split)
    train = split.roles == "train"
    labels, groups = table.labels[train], pd.factorize(table.groups[train])[0]
    splitter = StratifiedGroupKFold(5, shuffle=True, random_state=43)
    folds = np.zeros(len(labels), dtype=np.int64)
    for number, (_, held) in enumerate(splitter.split(labels, labels, groups)):
        folds[held] = number
    (row,) = expand(bench.model_copy(update={"preset": "ridge", "base": QUICK["ridge"].changes}))
    events = cross_validate(row.specs, table_to_data(table, split), torch.from_numpy(folds[None]))
    (found,) = [event for event in events if isinstance(event, CrossValidated)]
    (tried,) = [one for one in choice.tried if one.name == "ridge"]
    predicted, p = found.predictions.predicted.numpy(), found.predictions.log_p.exp().double().numpy()
    assert tried.macro_f1 == pytest.approx(f1_score(labels, predicted, average="macro"), abs=1e-9)
    assert tried.nll == pytest.approx(log_loss(labels, p / p.sum(1, keepdims=True), labels=range(6)), abs=1e-6)


def test_rows_that_are_not_for_training_do_not_matter():
    x, labels = clouds()
    roles = np.array(["train", "train", "train", "select", "calibrate"])[np.arange(300) % 5]
    other = np.where((roles == "train")[:, None], x, -x)
    one, two = (frostbench.fit(each, labels, split=roles.tolist()).choice for each in (x, other))
    assert one == two


@pytest.mark.parametrize("factor", [1e-4, 2**-4, 2**4, 1e4])
def test_the_scale_of_the_vectors_does_not_matter(factor):
    x, labels = clouds()
    roles = np.array(["train", "train", "train", "select", "calibrate"])[np.arange(300) % 5].tolist()
    plain, scaled = (frostbench.fit(each, labels, split=roles) for each in (x, (x * np.float32(factor))))
    if factor in (2**-4, 2**4):  # rounding is the same
        assert scaled.choice == plain.choice
    assert [t.macro_f1 for t in scaled.choice.tried] == pytest.approx(
        [t.macro_f1 for t in plain.choice.tried], abs=0.01
    )
    assert [t.nll for t in scaled.choice.tried] == pytest.approx([t.nll for t in plain.choice.tried], abs=0.01)


def test_the_choice_is_trained_and_told(cache, tmp_path):
    fitted = frostbench.fit(cache, store=tmp_path / "store")
    candidate = QUICK[fitted.choice.name].preset
    assert fitted.record.full_spec["head"]["classifier"]["kind"] == candidate
    assert f"auto: {fitted.choice.reason}" in str(fitted)
    assert not any(warning.startswith("auto: ") for warning in fitted.warnings)
    assert str(fitted.choice).splitlines()[-1].strip().startswith(f"--preset {candidate}")
    named = frostbench.fit(cache, preset=candidate, spec=fitted.choice.candidate.changes, store=tmp_path / "store")
    assert (named.record.key, named.choice) == (fitted.record.key, None)


def test_the_printed_options_can_be_typed():
    changes = {"head.body.hidden": [512], "train.loss.class_weight.kind": "effective", "head.classifier.c": 0.1}
    options = Choice("mine", Candidate("mlp", changes), (), "of a reason").options
    assert options == (
        "--preset mlp --set 'head.body.hidden=[512]' --set train.loss.class_weight.kind=effective "
        "--set head.classifier.c=0.1"
    )
    words = shlex.split(options)
    assert read_overrides(words[3::2], RunSpec) == changes


def test_a_choice_is_kept_in_the_store(bench, monkeypatch, tmp_path):
    first = choose(bench)
    monkeypatch.setattr(choose_module, "cross_validated", lambda *_: pytest.fail("was made again"))
    assert choose(bench) == first
    assert with_choice(bench)[0].preset == first.candidate.preset
    (path,) = (tmp_path / "store" / "choices").iterdir()
    path.write_text("{")
    monkeypatch.undo()
    monkeypatch.setattr(choose_module, "CANDIDATES", QUICK)
    assert choose(bench) == first


def test_settings_apply_to_all_candidates_that_allow_them(bench):
    choice = choose(bench.model_copy(update={"base": {"head.classifier.c": 0.5}}))
    assert choice.name == "logreg, C=1"
    assert choice.reason.startswith("logreg, C=1 was the only candidate: macro F1 0.")
    assert {one.name for one in choice.tried if one.problem} == {"lda", "ridge"}
    chosen, _ = with_choice(bench.model_copy(update={"base": {"head.classifier.c": 0.5}}))
    assert chosen.base["head.classifier.c"] == 0.5


def test_equal_candidates_are_tried_once(bench, monkeypatch):
    twins = {"one": Candidate("ridge", {}), "two": Candidate("ridge", {"head.preprocess.center": True})}
    monkeypatch.setattr(choose_module, "CANDIDATES", twins)
    choice = choose(bench.model_copy(update={"base": {"head.preprocess.center": True}}))
    assert [one.name for one in choice.tried] == ["one"]


def test_settings_that_no_candidate_allows_are_refused(bench):
    with pytest.raises(SettingsError, match="needs a candidate that allows these settings and data, but"):
        choose(bench.model_copy(update={"base": {"no.such.option": 1}}))


def test_few_shots_are_refused(bench):
    with pytest.raises(SettingsError, match="auto chooses on all training rows, but shots leaves some out"):
        choose(bench.model_copy(update={"base": {"shots": 5}}))


def test_candidates_that_need_vectors_in_memory_are_left_out_if_these_stay_on_disk(bench, monkeypatch):
    on_disk = {name: CANDIDATES[name] for name in ("lda", "knn", "mlp")}
    monkeypatch.setattr(choose_module, "CANDIDATES", on_disk)
    with pytest.raises(SettingsError, match=r"lda: The training rows stay on disk, but .* Choose a preset"):
        choose(bench, stream="always")
    base = {"train.schedule.epochs": 2, "train.schedule.min_steps": 0, "train.sampler.buffer_rows": 65536}
    choice = choose(bench.model_copy(update={"base": base}), stream="always")
    assert choice.name == "mlp"
    assert {one.name for one in choice.tried if one.problem} == {"lda", "knn"}


def test_a_store_that_cannot_be_written_is_reported_before_anything_is_fitted(bench, tmp_path, monkeypatch):
    monkeypatch.setattr(choose_module, "cross_validated", lambda *_: pytest.fail("was fitted"))
    (tmp_path / "file").write_text("")
    with pytest.raises(OutputError, match="is not a folder"):
        choose(bench.model_copy(update={"store": str(tmp_path / "file")}))


def test_two_caches_are_refused(bench, cache):
    with pytest.raises(SettingsError, match="chosen for one cache, got 2 caches"):
        choose(bench.model_copy(update={"caches": (str(cache), "other")}))


def test_a_bench_needs_fixed_configurations(cache):
    with pytest.raises(SettingsError, match="auto is chosen for each table anew"):
        expand(BenchSpec(preset="auto"))
    with pytest.raises(SettingsError, match="auto is chosen"):
        frostbench.compare(cache, None, {"a": {}, "b": {"preset": "auto"}})


def test_fewer_groups_give_fewer_folds(tmp_path):
    x, labels = clouds(spread=0.3)
    cache = cache_of(x, labels, np.arange(300) // 75, None, None, tmp_path / "cache").folder
    bench = BenchSpec(caches=(str(cache),), store=str(tmp_path / "store"), seeds=(0,), split=ALL)
    assert " in 3-fold cross-validation on 300 training rows" in choose(bench).reason


def test_a_split_into_folds_is_said_to_reuse_the_rows(bench):
    choice = choose(bench.model_copy(update={"split": SplitSpec(folds=3)}))
    assert choice.reason.endswith("; metrics on held-out rows are of the same rows")
    assert with_choice(bench)[1].reason.endswith(" training rows")


def test_one_group_gives_the_first_candidate_and_the_reason(tmp_path):
    x, labels = clouds()
    cache = cache_of(x, labels, np.zeros(300), None, None, tmp_path / "cache").folder
    bench = BenchSpec(caches=(str(cache),), store=str(tmp_path / "store"), seeds=(0,), split=ALL)
    choice = choose(bench)
    assert choice.name == "lda"
    assert choice.reason.startswith("lda was taken without comparison, because the training rows cannot be cross-val")
    assert choice.warnings == (f"auto: {choice.reason}",)


def test_a_large_table_is_sampled_by_group(cache, bench):
    table = read_table(cache)
    split = load_or_make_split(cache, table, bench.split)
    runs = {"ridge": expand(bench.model_copy(update={"preset": "ridge"}))[0].specs[0]}
    found = cross_validated(runs, table, split, 2, most_rows=60)
    train = split.roles == "train"
    assert 40 <= len(found.frame.labels) <= 70
    shares = np.bincount(table.labels[train], minlength=6) / train.sum()
    assert np.bincount(found.frame.labels, minlength=6) / len(found.frame.labels) == pytest.approx(shares, abs=0.06)
    assert found.frame.n_groups <= 35


def test_progress_is_told(bench):
    told = []
    choose(bench, progress=lambda done, fits: told.append((done, fits)))
    assert told[-1][0] == told[-1][1] > len(QUICK)
    assert [done for done, _ in told] == sorted(done for done, _ in told)


class TestBest:
    frame = Frame(np.arange(300) % 3, np.arange(300), np.array([100, 100, 100]))

    def said(self, wrong, p):
        predicted = self.frame.labels.copy()
        predicted[:wrong] = (predicted[:wrong] + 1) % 3
        one = np.ones(300)
        return Predictions(predicted, one, one, np.full(300, np.log(p)), np.zeros(300))

    def chosen(self, **said):
        candidates = {name: Candidate("plain", {}) for name in said}
        return best_of(HeldOut(self.frame, said, {}), candidates, 5, 300, ())

    def test_the_lowest_nll_within_one_standard_error_wins(self):
        choice = self.chosen(top=self.said(30, 0.5), close=self.said(31, 0.6), far=self.said(90, 0.9))
        assert choice.name == "close"
        assert choice.reason == (
            "close has the lowest NLL (0.511) of the 2 candidates whose macro F1 (0.897) is within one standard error "
            "of the highest (top, 0.900) in 5-fold cross-validation on 300 training rows"
        )

    def test_a_clear_winner_wins_whatever_its_nll(self):
        choice = self.chosen(top=self.said(30, 0.5), far=self.said(90, 0.9))
        assert choice.name == "top"
        assert choice.reason.startswith("top has the highest macro F1 of 2 candidates, 0.900, in 5-fold")

    def test_the_first_of_equals_wins(self):
        assert self.chosen(simple=self.said(30, 0.5), other=self.said(30, 0.5)).name == "simple"

    def test_predictions_that_are_not_numbers_cannot_win(self):
        bad = self.said(0, 0.9)
        bad.brier[0] = np.nan
        choice = self.chosen(good=self.said(30, 0.5), bad=bad)
        assert choice.name == "good"
        assert [one.problem for one in choice.tried] == ["", "its predictions are not numbers"]
        with pytest.raises(
            ValueError, match="no candidate that could be trained; bad: its predictions are not numbers"
        ):
            self.chosen(bad=bad)
