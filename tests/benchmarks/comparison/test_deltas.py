import math
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from frostbench.benchmarks.comparison.deltas import chance_verdicts, table_of, verdict_of
from frostbench.benchmarks.comparison.frame import Frame, Predictions
from frostbench.benchmarks.comparison.metrics import HIGHER_IS_BETTER
from frostbench.benchmarks.comparison.paired import Paired
from frostbench.benchmarks.comparison.resampled import resample


def predictions_of(predicted):
    n = len(predicted)
    return Predictions(np.array(predicted), np.full(n, 0.5), np.full(n, 0.5), np.full(n, -0.7), np.full(n, 0.5))


def deltas_of(paired, resamples, seed):
    return table_of(paired, resample(paired, resamples, seed))


def drawn_model(rng, labels, groups, seeds, seed_noise):
    """Simulate a method for each seed: rows of a group are easy or hard together, and seeds differ in skill."""
    hard = rng.normal(0, 0.7, groups.max() + 1)[groups]
    found = []
    for _ in range(seeds):
        z = 1 + rng.normal(0, seed_noise) + hard + rng.normal(0, 0.5, len(labels))
        predicted = np.where(z > 0, labels, rng.integers(0, 6, len(labels)))
        found.append(predictions_of(predicted))
    return found


@pytest.mark.parametrize(("n_groups", "seeds", "seed_noise"), [(20, 1, 0.0), (60, 1, 0.0), (300, 3, 0.15)])
def test_equal_methods_rarely_differ(n_groups, seeds, seed_noise):
    """A against A at level 0.05: at most 5 % of 200 cases plus three standard errors (4.6 %)."""
    rng, cases, wrong = np.random.default_rng(3), 200, {"macro_f1_fg": 0, "accuracy": 0}
    for _ in range(cases):
        labels = np.repeat(rng.choice(6, n_groups, p=[0.4, 0.25, 0.15, 0.1, 0.06, 0.04]), 2)
        frame = Frame(labels, np.repeat(np.arange(n_groups), 2), np.full(6, 50))
        runs = [r for _ in range(2) for r in drawn_model(rng, frame.labels, frame.groups, seeds, seed_noise)]
        paired = paired_of(frame, {"a": runs[:seeds], "b": runs[seeds:]})
        table = deltas_of(paired, 200, int(rng.integers(2**31)))
        for metric in wrong:
            wrong[metric] += bool((table.loc[table["metric"] == metric, "p"] < 0.05).any())
    assert max(wrong.values()) / cases <= 0.05 + 0.046, wrong


def paired_of(frame, rows, reason="all_epochs"):
    """Return predictions in the form of rows loaded from a store."""
    records = {
        name: tuple(SimpleNamespace(seed=seed, reason=reason) for seed in range(len(runs)))
        for name, runs in rows.items()
    }
    ids = np.arange(len(frame.labels)).astype(str).astype(object)
    return Paired(frame, {name: tuple(runs) for name, runs in rows.items()}, records, ids)


def test_a_table_of_equal_rows_rarely_holds_a_verdict():
    """Eight equal rows, three seeds, 600 groups: verdicts in at most 5 % of 40 tables plus three standard errors."""
    rng, cases, wrong = np.random.default_rng(11), 40, {"macro_f1_fg": 0, "accuracy": 0}
    for _ in range(cases):
        labels = np.repeat(rng.choice(6, 600, p=[0.4, 0.25, 0.15, 0.1, 0.06, 0.04]), 2)
        frame = Frame(labels, np.repeat(np.arange(600), 2), np.full(6, 50))
        rows = {str(row): drawn_model(rng, frame.labels, frame.groups, 3, 0.15) for row in range(8)}
        table = deltas_of(paired_of(frame, rows), 250, int(rng.integers(2**31)))
        for metric in wrong:
            verdicts = table.loc[table["metric"] == metric, "verdict"]
            wrong[metric] += bool(verdicts.isin(["better", "worse"]).any())
    assert max(wrong.values()) / cases <= 0.05 + 0.103, wrong


def two_rows(n_groups, seeds, *, spoil=None):
    """A baseline that is right in half of the rows, and a row that is right in nine of ten; one row to a group."""
    rng = np.random.default_rng(2)
    labels = rng.integers(0, 3, n_groups)
    frame, rows = Frame(labels, np.arange(n_groups), np.full(3, 50)), {}
    for name, share in (("base", 0.5), ("new", 0.9)):
        right = [rng.uniform(size=n_groups) < share for _ in range(seeds)]
        rows[name] = [predictions_of(np.where(one, labels, (labels + 1) % 3)) for one in right]
    if spoil:
        rows["new"][-1] = replace(rows["new"][-1], **{spoil: np.full(n_groups, math.nan)})
    return frame, rows


class TestVerdicts:
    def cell(self, *, n_groups=300, seeds=5, metric="accuracy", spoil=None, reason="all_epochs"):
        table = deltas_of(paired_of(*two_rows(n_groups, seeds, spoil=spoil), reason), 1000, 0)
        (line,) = table[(table["row"] == "new") & (table["metric"] == metric)].to_dict("records")
        return line

    def test_a_clear_difference_gets_a_verdict(self):
        assert self.cell()["verdict"] == "better"

    def test_the_reason_for_no_verdict_is_named(self):
        assert self.cell(n_groups=19)["verdict"] == "can't tell (groups)"
        assert self.cell(seeds=1)["verdict"] == "can't tell (seeds)"
        assert self.cell(seeds=1, reason="solved")["verdict"] == "better"

    @pytest.mark.parametrize("spoil", ["confidence", "log_p", "brier"])
    def test_a_run_that_gave_nan_has_empty_figures_and_no_verdict(self, spoil):
        for metric in ("accuracy", "macro_f1_fg", "nll"):
            line = self.cell(spoil=spoil, metric=metric)
            assert line["verdict"] == "can't tell"
            assert all(math.isnan(line[name]) for name in ("value", "delta", "low", "high", "p", "p_holm"))

    def test_a_metric_that_one_run_lacks_is_left_empty_there(self):
        frame, rows = two_rows(100, 2)
        rows["new"] = [replace(run, log_p=np.full(100, -math.inf)) for run in rows["new"]]
        table = deltas_of(paired_of(frame, rows), 200, 0).set_index(["row", "metric"])
        assert table.loc[("base", "nll"), "value"] == pytest.approx(0.7)
        assert math.isnan(table.loc[("new", "nll"), "value"])
        assert table.loc[("new", "nll"), "verdict"] == "can't tell"
        assert table.loc[("new", "accuracy"), "delta"] > 0

    @pytest.mark.parametrize(
        ("change", "expected"),
        [
            ({}, "better"),
            ({"metric": "nll"}, "worse"),
            ({"delta": 0.0009, "low": 0.0008, "high": 0.001}, "can't tell (size)"),
            ({"delta": -0.0011, "low": -0.0012, "high": -0.001}, "worse"),
            ({"p_holm": 0.06}, "can't tell (rows)"),
            ({"low": -0.01, "p": 0.2, "p_holm": 0.9}, "can't tell"),
            ({"p": math.nan}, "can't tell"),
            ({"p_holm": math.nan}, "can't tell"),
            ({"delta": math.inf}, "can't tell"),
            ({"low": math.nan}, "can't tell"),
        ],
    )
    def test_verdicts_of_one_line(self, change, expected):
        line = {"metric": "accuracy", "delta": 0.1, "low": 0.05, "high": 0.15, "p": 0.01}
        line |= {"p_holm": 0.02} | change
        assert verdict_of(line, 100, True, HIGHER_IS_BETTER[line["metric"]]) == expected

    def test_groups_stand_before_seeds_and_these_before_rows(self):
        line = {"delta": 0.1, "low": 0.05, "high": 0.15, "p": 0.01, "p_holm": 0.2}
        assert verdict_of(line, 19, False, True) == "can't tell (groups)"
        assert verdict_of(line, 20, False, True) == "can't tell (seeds)"
        assert verdict_of(line, 20, True, True) == "can't tell (rows)"

    def test_interval_and_p_agree_on_every_line(self):
        rng = np.random.default_rng(5)
        frame = Frame(np.repeat(rng.integers(0, 6, 60), 2), np.repeat(np.arange(60), 2), np.full(6, 50))
        rows = {str(row): drawn_model(rng, frame.labels, frame.groups, 3, 0.05 + 0.4 * row) for row in range(6)}
        table = deltas_of(paired_of(frame, rows), 300, 0)
        known = table[table["p"].notna()]
        assert ((known["low"] > 0) | (known["high"] < 0)).equals(known["p"] < 0.05)
        assert (known["p"] < 0.05).any()
        assert (known["p"] > 0.05).any()


def only(table, row, metric):
    (line,) = table[(table["row"] == row) & (table["metric"] == metric)].to_dict("records")
    return line


class TestUncertainty:
    def seed_by_image(self, seeds):
        """Rows that differ by luck alone: each run is right on an image by a coin of its own."""
        rng = np.random.default_rng(8)
        labels = rng.integers(0, 3, 200)
        frame, rows = Frame(labels, np.arange(200), np.full(3, 50)), {}
        for name, share in (("base", 0.7), ("new", 0.7)):
            right = [rng.uniform(size=200) < share for _ in range(seeds)]
            rows[name] = [predictions_of(np.where(one, labels, (labels + 1) % 3)) for one in right]
        return deltas_of(paired_of(frame, rows), 2000, 0)

    def test_luck_by_image_is_counted_once(self):
        """Of 20 runs with 200 coins of .7 in each row, the accuracy differs by sqrt(2 · .21 / 4000) = .01025.

        The bootstrap and the seeds see all of it both; their sum would be 1.41 times that.
        """
        line = only(self.seed_by_image(20), "new", "accuracy")
        assert math.hypot(line["sd_groups"], line["sd_seeds"]) == pytest.approx(0.01025, rel=0.2)
        assert line["sd_seeds"] > 3 * line["sd_groups"]

    def test_rows_without_seeds_have_only_group_variance(self):
        """One paired t-test over images, each a group of its own."""
        frame, rows = two_rows(300, 1)
        rows = {name: runs * 3 for name, runs in rows.items()}
        line = only(deltas_of(paired_of(frame, rows, "solved"), 4000, 0), "new", "accuracy")
        right = [(runs[0].predicted == frame.labels).astype(float) for runs in rows.values()]
        wanted = np.std(right[1] - right[0], ddof=1) / math.sqrt(300)
        assert line["sd_seeds"] == 0
        assert line["sd_groups"] == pytest.approx(wanted, rel=0.05)
        assert line["high"] - line["delta"] == pytest.approx(1.9679 * wanted, rel=0.05)

    def test_a_class_of_few_groups_widens_its_metrics(self):
        """Recall of a class in 4 of 60 groups: the bootstrap sees .989 of its variance, with 3 degrees of freedom."""
        labels = np.repeat([0] * 56 + [1] * 4, 3)
        frame = Frame(labels, np.repeat(np.arange(60), 3), np.array([200, 5]))
        rng, rows = np.random.default_rng(0), {}
        for name in ("base", "new"):
            one = predictions_of(np.where(rng.uniform(size=180) < 0.6, labels, 1 - labels))
            rows[name] = [one, one]
        paired = paired_of(frame, rows, "solved")
        drawn = resample(paired, 2000, 0)
        line = only(table_of(paired, drawn), "new", "recall_few")
        sd = math.sqrt(drawn.spreads["recall_few"].mean_delta[1] / 0.9886)
        assert line["sd_groups"] == pytest.approx(sd, rel=1e-3)
        assert line["high"] - line["delta"] == pytest.approx(3.1824 * sd, rel=1e-3)


class TestWhatWouldSettleIt:
    def test_a_difference_lost_in_the_images_needs_more_groups(self):
        frame, rows = two_rows(30, 1)
        rows = {"base": rows["base"] * 3, "new": rows["base"][:1] * 3}
        wrong = np.flatnonzero(rows["base"][0].predicted != frame.labels)[:2]
        better = rows["base"][0].predicted.copy()
        better[wrong] = frame.labels[wrong]
        rows["new"] = [predictions_of(better)] * 3
        line = only(deltas_of(paired_of(frame, rows, "solved"), 2000, 0), "new", "accuracy")
        assert line["verdict"] == "can't tell"
        # Two of 30 images: .0667, sd .0463; 1.44 sd of 2.05 that 29 degrees of freedom ask for, so twice the groups.
        assert (line["more_groups"], math.isnan(line["more_seeds"])) == (2.0, True)

    def test_a_difference_lost_in_the_seeds_needs_more_seeds(self):
        rng = np.random.default_rng(3)
        labels = rng.integers(0, 3, 3000)
        frame, rows = Frame(labels, np.arange(3000), np.full(3, 50)), {}
        for name, shares in (("base", (0.70, 0.74, 0.78)), ("new", (0.77, 0.81, 0.73))):
            hard = rng.permutation(3000) / 3000
            rows[name] = [predictions_of(np.where(hard < share, labels, (labels + 1) % 3)) for share in shares]
        line = only(deltas_of(paired_of(frame, rows), 500, 0), "new", "accuracy")
        # 3 points, each side .04 over seeds: at .8 of the level 2.1 · .04 · sqrt(2 / n) < .03 from about 16 seeds on,
        # and later where the images of this draw add to it.
        assert line["verdict"] == "can't tell"
        assert math.isnan(line["more_groups"])
        assert 15 <= line["more_seeds"] <= 35

    def test_no_number_of_seeds_settles_what_fewer_than_20_groups_show(self):
        frame, runs = Frame(np.tile([0, 1], 50), np.repeat(np.arange(10), 10), np.full(2, 50)), {}
        for name, shares in (("base", (0.70, 0.74, 0.78)), ("new", (0.77, 0.81, 0.73))):
            hard = np.tile(np.linspace(0, 1, 10, endpoint=False), 10)
            labels = frame.labels
            runs[name] = [predictions_of(np.where(hard < share, labels, 1 - labels)) for share in shares]
        line = only(deltas_of(paired_of(frame, runs), 500, 0), "new", "accuracy")
        assert line["verdict"] == "can't tell"
        # 8 seeds would do for the difference, but of 10 groups there is no verdict: twice as many are the least.
        assert (line["more_groups"], line["more_seeds"]) == (2.5, 8.0)

    def test_no_estimate_for_a_verdict_or_no_difference(self):
        frame, rows = two_rows(300, 5)
        same = {"base": rows["base"], "new": rows["base"], "better": rows["new"]}
        table = deltas_of(paired_of(frame, same), 300, 0)
        for row in ("new", "better"):
            line = only(table, row, "accuracy")
            assert math.isnan(line["more_groups"])
            assert math.isnan(line["more_seeds"])
        assert only(table, "better", "accuracy")["verdict"] == "better"


def test_chance_gives_one_verdict_in_twenty_metrics():
    frame, rows = two_rows(300, 3)
    table = deltas_of(paired_of(frame, rows), 100, 0)
    judged = table.loc[table["row"] == "new", "p"].notna().sum()
    given = table["verdict"].isin(["better", "worse"]).sum()
    assert chance_verdicts(table) == (pytest.approx(0.05 * judged), given)
    assert judged >= 8
    assert given >= 3
    alone = deltas_of(paired_of(frame, {name: runs[:1] for name, runs in rows.items()}), 100, 0)
    assert chance_verdicts(alone) == (0, 0)
