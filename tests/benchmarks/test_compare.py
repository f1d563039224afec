import itertools
import json

import numpy as np
import pandas as pd
import pytest
import torch

from benchmarks.bootstrap import (
    HIGHER_IS_BETTER,
    Answers,
    Frame,
    class_f1,
    group_sums,
    grown,
    holm,
    interval,
    metrics_of,
    p_value,
    resampled_metrics,
    resamples,
    with_seed_spread,
)
from benchmarks.compare import compare
from benchmarks.plan import BenchSpec
from benchmarks.runner import run_bench
from benchmarks.settings import SettingsError
from benchmarks.store import StoreError, read_bench, read_record
from benchmarks.tables import save, to_text
from embedcache.splits import SplitSpec
from training.metrics import all_metrics, brier, confidence


def answers(predicted):
    n = len(predicted)
    return Answers(np.array(predicted), np.full(n, 0.5), np.full(n, -0.7), np.full(n, 0.5))


class TestBootstrap:
    def test_every_resample_of_three_groups(self):
        """The 27 equally likely resamples; figures computed independently, row by row."""
        labels, groups = np.array([1, 1, 2, 2, 1, 2]), np.array([0, 0, 1, 1, 2, 2])
        frame = Frame(labels, groups, np.array([0, 5, 5]))
        first, second = (group_sums(frame, answers(p)) for p in ([1, 2, 2, 2, 2, 2], [1, 1, 2, 1, 1, 2]))
        draws = np.array([np.bincount(d, minlength=3) for d in itertools.product(range(3), repeat=3)], dtype=float)
        ones = np.ones((1, 3))
        a, b = (metrics_of(frame, sums, ones)["macro_f1_fg"] for sums in (first, second))
        assert float(b[0] - a[0]) == pytest.approx(0.2035714286, abs=1e-10)
        a, b = (metrics_of(frame, sums, draws)["macro_f1_fg"] for sums in (first, second))
        assert float((b - a).mean()) == pytest.approx(0.2507736091, abs=1e-10)
        assert interval(b - a) == pytest.approx((-0.1305555556, 0.5676190476), abs=1e-10)
        assert float((b - a <= 0).mean()) == pytest.approx(0.1481481481, abs=1e-10)

    def test_a_row_of_ones_gives_the_metrics_of_training(self):
        generator = torch.Generator().manual_seed(3)
        labels = torch.randint(0, 5, (400,), generator=generator)
        log_p = (torch.randn(400, 7, generator=generator) + torch.nn.functional.one_hot(labels, 7)).log_softmax(1)
        log_p[:, 6] = -torch.inf
        labels[:3] = 6
        counts, background = torch.tensor([500, 100, 20, 19, 50, 3, 0]), (1, 6)
        expected = all_metrics(log_p, labels, counts, background)
        groups = np.arange(400) // 3
        frame = Frame(labels.numpy(), groups, counts.numpy(), background)
        own = log_p.double().gather(1, labels[:, None]).squeeze(1).numpy()
        sure = confidence(log_p, labels)[0].numpy()
        told = Answers(log_p.argmax(1).numpy(), sure, own, brier(log_p, labels).numpy())
        found = metrics_of(frame, group_sums(frame, told), np.ones((1, frame.n_groups)))
        assert set(found) == set(HIGHER_IS_BETTER)
        assert {name: float(value[0]) for name, value in found.items()} == pytest.approx(
            {name: expected[name] for name in found}, abs=1e-12
        )

    def test_a_multiplicity_is_the_same_as_repeating_rows(self):
        rng = np.random.default_rng(0)
        labels, groups, predicted = rng.integers(0, 3, 30), np.arange(30) // 3, rng.integers(0, 3, 30)
        drawn = rng.integers(0, 10, 10)
        rows = np.concatenate([np.flatnonzero(groups == g) for g in drawn])
        counts = np.array([200, 50, 5])
        frame = Frame(labels, groups, counts)
        weighted = metrics_of(
            frame, group_sums(frame, answers(predicted)), np.bincount(drawn, minlength=10)[None].astype(float)
        )
        repeated = Frame(labels[rows], np.repeat(np.arange(10), 3), counts)
        plain = metrics_of(repeated, group_sums(repeated, answers(predicted[rows])), np.ones((1, 10)))
        assert {k: float(v[0]) for k, v in weighted.items()} == pytest.approx(
            {k: float(v[0]) for k, v in plain.items()}
        )

    def test_f1_of_classes_averages_to_macro_f1(self):
        rng = np.random.default_rng(0)
        frame = Frame(rng.integers(0, 3, 30), np.arange(30) // 3, np.array([200, 50, 5]))
        sums = group_sums(frame, answers(rng.integers(0, 3, 30)))
        (draws,) = resamples(10, 20, 0)
        assert class_f1(frame, sums, draws).mean(0) == pytest.approx(metrics_of(frame, sums, draws)["macro_f1_fg"])

    def test_metrics_without_a_class_are_left_out(self):
        frame = Frame(np.array([0, 1]), np.array([0, 1]), np.array([500, 500]))
        found = metrics_of(frame, group_sums(frame, answers([0, 0])), np.ones((1, 2)))
        assert set(HIGHER_IS_BETTER) - set(found) == {"recall_medium", "recall_few"}

    def test_resamples_draw_as_many_groups_as_there_are_and_do_not_depend_on_the_pieces(self):
        whole = np.concatenate(list(resamples(50, 300, seed=1)))
        pieces = list(resamples(50, 300, seed=1, width=2**23))
        assert len(pieces) > 1
        assert np.array_equal(whole, np.concatenate(pieces))
        assert (whole.sum(1) == 50).all()
        assert whole.mean() == 1
        assert whole.var() == pytest.approx(1 - 1 / 50, abs=0.05)

    def test_p_values_at_their_ends(self):
        assert p_value(np.zeros(100)) == 1
        assert p_value(np.ones(100)) == 0.01
        assert p_value(np.array([-1.0] * 10 + [1.0] * 90)) == pytest.approx(0.2)

    def test_holm_is_monotone_and_at_most_one(self):
        assert holm([0.5, 0.9, 0.01]) == pytest.approx([1.0, 1.0, 0.03])
        assert holm([]) == []

    def test_one_group_and_one_seed_add_no_doubt(self):
        deltas = np.array([0.1, 0.3])
        assert grown(deltas, 0.2, 1) is deltas
        assert with_seed_spread(deltas, np.array([0.2]), np.random.default_rng(0)) is deltas

    def test_few_groups_widen_by_the_t_quantile(self):
        assert grown(np.array([0.0, 0.4]), 0.2, 20) == pytest.approx(0.2 + np.array([-0.2, 0.2]) * 1.09561, abs=1e-5)


def drawn_model(rng, labels, groups, seeds, seed_noise):
    """Answers of one method for each seed: rows of a group are easy or hard together, and seeds differ in skill."""
    hard = rng.normal(0, 0.7, groups.max() + 1)[groups]
    found = []
    for _ in range(seeds):
        z = 1 + rng.normal(0, seed_noise) + hard + rng.normal(0, 0.5, len(labels))
        predicted = np.where(z > 0, labels, rng.integers(0, 6, len(labels)))
        found.append(answers(predicted))
    return found


@pytest.mark.parametrize(("n_groups", "seeds", "seed_noise"), [(20, 1, 0.0), (60, 1, 0.0), (300, 3, 0.15)])
def test_equal_methods_are_rarely_told_apart(n_groups, seeds, seed_noise):
    """A against A at level 0.05: at most 5 % of 200 cases, and three standard errors (4.6 %).

    Over 4,000 cases of 60 groups the rates are 4.8 % for macro F1 and 5.0 % for accuracy.
    """
    rng, cases, wrong = np.random.default_rng(3), 200, {"macro_f1_fg": 0, "accuracy": 0}
    for _ in range(cases):
        labels = np.repeat(rng.choice(6, n_groups, p=[0.4, 0.25, 0.15, 0.1, 0.06, 0.04]), 2)
        frame = Frame(labels, np.repeat(np.arange(n_groups), 2), np.full(6, 50))
        runs = [r for _ in range(2) for r in drawn_model(rng, frame.labels, frame.groups, seeds, seed_noise)]
        sums = [group_sums(frame, run) for run in runs]
        moved = resampled_metrics(frame, sums, 200, int(rng.integers(2**31)))
        points = [metrics_of(frame, run, np.ones((1, n_groups))) for run in sums]
        for metric in wrong:
            deltas = np.mean([moved[seeds + i][metric] - moved[i][metric] for i in range(seeds)], axis=0)
            by_seed = np.array([points[seeds + i][metric][0] - points[i][metric][0] for i in range(seeds)])
            wide = grown(deltas, float(by_seed.mean()), n_groups)
            wrong[metric] += max(p_value(wide), p_value(with_seed_spread(wide, by_seed, rng))) < 0.05
    assert max(wrong.values()) / cases <= 0.05 + 0.046, wrong


@pytest.fixture(scope="module")
def store(tmp_path_factory, write_cache):
    folder = tmp_path_factory.mktemp("compared")
    cache = write_cache(folder / "cache")
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
    spec = {"caches": (str(cache),), "store": str(folder / "s"), "base": base}
    list(run_bench(BenchSpec(**spec, name="three", toggles=toggles)))
    list(run_bench(BenchSpec(**spec, name="resplit", split=SplitSpec(seed=43))))
    list(run_bench(BenchSpec(**spec, name="one", seeds=(0,), toggles={"untrained": toggles["untrained"]})))
    list(run_bench(BenchSpec(**spec, name="background", seeds=(0,), background=("ash",))))
    return folder / "s"


def rows_of(store, bench="three"):
    return read_bench(store, bench)[0].rows


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

    def test_an_untrained_row_is_worse_and_the_base_has_no_verdict(self, store):
        found = compare(store, rows_of(store))
        assert found.line("untrained", "accuracy")["verdict"] == "worse"
        assert found.line("untrained", "nll")["verdict"] == "worse"
        assert found.line("untrained", "nll")["delta"] > 0
        assert found.line("baseline", "accuracy")["verdict"] == ""

    def test_seen_from_the_untrained_row_the_base_is_better(self, store):
        forth, back = (compare(store, rows_of(store), base) for base in ("baseline", "untrained"))
        assert next(iter(back.rows)) == "untrained"
        line = back.line("baseline", "accuracy")
        assert line["verdict"] == "better"
        assert line["delta"] == pytest.approx(-forth.line("untrained", "accuracy")["delta"])
        assert (line["low"], line["high"]) == pytest.approx(
            (-forth.line("untrained", "accuracy")["high"], -forth.line("untrained", "accuracy")["low"])
        )

    def test_a_temperature_moves_no_decision(self, store):
        line = compare(store, rows_of(store)).line("calibrated", "macro_f1_fg")
        assert (line["delta"], line["low"], line["high"], line["seed_sd"], line["p_holm"]) == (0, 0, 0, 0, 1)
        assert line["verdict"] == "can't tell"

    def test_intervals_hold_their_delta_and_repeat(self, store):
        first, second = (compare(store, rows_of(store), resamples=400, seed=5) for _ in range(2))
        pd.testing.assert_frame_equal(first.table, second.table)
        moved = first.table[first.table["row"] == "no weights"]
        assert (moved["low"] <= moved["delta"]).mean() > 0.9
        assert (moved["delta"] <= moved["high"]).mean() > 0.9
        assert (first.table["p_holm"].dropna() >= first.table["p"].dropna()).all()

    def test_validation_rows_unless_test_is_asked_for(self, store):
        assert (compare(store, rows_of(store), resamples=20).n_rows, compare(store, rows_of(store)).role) == (
            44,
            "select",
        )
        test = compare(store, rows_of(store), role="test", resamples=20)
        assert (test.n_rows, test.n_groups, test.runs_seen) == (56, 28, 13)
        assert "TEST rows" in to_text(test)

    def test_one_seed_gives_no_verdict(self, store):
        found = compare(store, rows_of(store, "one"))
        assert found.line("untrained", "accuracy")["p_holm"] < 0.05
        assert found.line("untrained", "accuracy")["verdict"] == "can't tell"
        assert any("one seed" in note for note in found.notes)

    def test_small_classes_are_named(self, store):
        assert any("noise" in note and "fir" in note for note in compare(store, rows_of(store), resamples=20).notes)

    @pytest.mark.parametrize(
        ("other", "words"),
        [
            ("resplit", "must have the same split, however: 'other' has"),
            ("background", r"same seeds, however: 'other' has \[0\]"),
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

    def test_an_unknown_baseline_and_a_missing_run_are_told(self, store):
        with pytest.raises(StoreError, match="the baseline is one of the rows"):
            compare(store, rows_of(store), "nobody")
        with pytest.raises(StoreError, match="a run must be in the store"):
            compare(store, {"a": ("0123",)})


class TestTables:
    def test_the_text_says_what_was_compared_and_how_often(self, store):
        text = to_text(compare(store, rows_of(store), title="three", resamples=200))
        assert text.startswith("three: validation rows (select), baseline 'baseline'\n")
        assert "44 rows in 22 groups; seeds 0, 1, 2; 95 % intervals from 200 resamples of the groups" in text
        assert "33 comparisons (3 rows x 11 metrics); 13 runs of this store were evaluated on these rows" in text
        lines = text.splitlines()
        head = next(line for line in lines if line.startswith("row"))
        assert head.split() == ["row", "macro_f1_fg", "delta", "95", "%", "interval", "seed", "sd", "verdict"]
        calibrated = next(line for line in lines if line.startswith("calibrated"))
        assert "+0.0000  [+0.0000, +0.0000]   0.0000  can't tell" in calibrated

    def test_files_hold_the_table(self, store, tmp_path):
        found = compare(store, rows_of(store), resamples=50)
        for name in ("t.csv", "t.parquet", "t.json"):
            save(found, tmp_path / "deep" / name)
        for read in (pd.read_csv(tmp_path / "deep/t.csv"), pd.read_parquet(tmp_path / "deep/t.parquet")):
            assert read["delta"].to_numpy() == pytest.approx(found.table["delta"].to_numpy(), nan_ok=True)
            assert set(read["role"]) == {"select"}
        tree = json.loads((tmp_path / "deep/t.json").read_text())
        assert tree["n_groups"] == 22
        assert len(tree["table"]) == len(found.table)

    def test_another_ending_is_refused(self, store, tmp_path):
        with pytest.raises(SettingsError, match=r"saved as \.csv, \.parquet or \.json, however: t\.xlsx"):
            save(compare(store, rows_of(store), resamples=5), tmp_path / "t.xlsx")


def test_a_row_alone_is_shown_without_differences(store):
    found = compare(store, {"only": rows_of(store)["baseline"]}, resamples=20)
    assert "0 comparisons (0 rows x 11 metrics)" in to_text(found)
    assert found.table["delta"].isna().all()
