"""Level and power of verdicts in made-up tables: a quick `python -m frostbench.benchmarks.results verdicts`."""

import math
from dataclasses import replace

import numpy as np
import pytest

from frostbench.benchmarks.comparison.significance import SeedVariance, Uncertainty
from frostbench.benchmarks.results.levels import interval_of, simulate
from frostbench.benchmarks.results.nulls import BETTER, CLASSES, NULLS, Regime, draw
from frostbench.benchmarks.results.old_rule import satterthwaite_p
from frostbench.benchmarks.results.verdicts import MARKER, regenerate, write_page

TABLES = 80


def regime(name, of=NULLS):
    (one,) = [one for one in of if one.name == name]
    return one


@pytest.mark.parametrize("name", ["seeds, 3", "noisier base", "20 groups", "images alone", "no groups"])
def test_equal_methods_rarely_get_a_verdict(name):
    """In at most 5 % of tables, and three standard errors (7.3 % of 80 tables), on each of the twelve metrics."""
    found = simulate(regime(name), TABLES, 7)
    assert len(found.shares["new"]) == 12
    assert max(found.shares["new"].values()) <= 0.05 + 3 * math.sqrt(0.05 * 0.95 / TABLES), found.shares["new"]


def test_better_methods_get_more_verdicts_than_by_the_rule_before():
    """Where seeds are right on other images, that rule counted most of their spread twice."""
    found = simulate(regime("seeds by image", BETTER), TABLES, 7)
    for metric in ("accuracy", "nll"):
        assert found.rows["new"][metric] >= found.rows["old"][metric] + 0.05
    assert found.rows["new"]["accuracy"] > 0.35
    assert found.gains["accuracy"] > 0.02


def test_the_weighted_quantile_keeps_the_level_where_that_of_satterthwaite_does_not():
    """Normal differences of two rows with 2 seeds, the base five times as noisy; seven rows, so a level of .05 / 7."""
    rng, cases, level = np.random.default_rng(0), 20_000, 0.05 / 7
    values = rng.normal(size=(2, cases, 2)) * np.array([1.0, 0.2])[:, None, None]
    groups = 0.15 * rng.chisquare(99, cases) / 99
    deltas = values[1].mean(1) - values[0].mean(1) + math.sqrt(0.15) * rng.normal(size=cases)
    none = np.zeros(cases)
    uncertainty = Uncertainty.of(groups, 99, [SeedVariance.of(own, none, none) for own in values])
    assert (np.abs(deltas) > uncertainty.half_width(level)).mean() < level + 3 * math.sqrt(level / cases)
    assert (satterthwaite_p(deltas, uncertainty) < level).mean() > 2 * level


class TestOutcomes:
    def test_every_class_has_rows_and_groups_are_of_one_class(self):
        paired = draw(regime("20 groups"), np.random.default_rng(0))
        assert np.bincount(paired.frame.labels, minlength=CLASSES).min() > 0
        assert paired.frame.groups_by_class.sum() == 20
        assert [len(runs) for runs in paired.predictions.values()] == [5, 5]

    def test_what_is_right_is_what_is_likely(self):
        (run, *_), _ = draw(regime("both"), np.random.default_rng(0)).predictions.values()
        right = run.predicted == draw(regime("both"), np.random.default_rng(0)).frame.labels
        assert (np.exp(run.log_p[right]) >= 0.5).all()
        assert (np.exp(run.log_p[~right]) <= 0.5).all()
        assert (run.brier[right] <= 0.375).all()
        assert run.are_valid

    def test_runs_of_a_seed_move_together_where_they_should(self):
        accuracies = {}
        for together in (0.0, 0.99):
            one = Regime("x", "", seeds=60, seed_skill=0.5, seed_class=0.0, seed_row=0.0, together=together)
            paired = draw(one, np.random.default_rng(0))
            right = [
                [(r.predicted == paired.frame.labels).mean() for r in runs] for runs in paired.predictions.values()
            ]
            accuracies[together] = np.corrcoef(right)[0, 1]
        assert accuracies[0.99] > 0.9
        assert abs(accuracies[0.0]) < 0.4

    def test_a_noisier_base_spreads_more(self):
        paired = draw(replace(regime("noisier base"), seeds=40), np.random.default_rng(0))
        base, row = (np.std([run.log_p.mean() for run in runs]) for runs in paired.predictions.values())
        assert 3 < base / row < 8


def test_the_interval_of_a_share_of_nothing_begins_at_nothing():
    low, high = interval_of(0.0, 100)
    assert low == pytest.approx(0, abs=1e-12)
    assert high == pytest.approx(0.037, abs=1e-3)


def test_the_page_keeps_what_stands_above_the_marker(tmp_path):
    nulls, better = ([simulate(replace(one, seeds=2), 3, 0) for one in of[:2]] for of in (NULLS, BETTER))
    (tmp_path / "verdicts.md").write_text(f"# Verdicts\n\nWords.\n\n{MARKER}\nold\n")
    text = write_page(nulls, better, tmp_path).read_text()
    assert text.startswith("# Verdicts\n\nWords.\n\n" + MARKER)
    assert "\nold\n" not in text
    for one in (*NULLS, *BETTER):
        assert f"| {one.name} |" in text
    assert "| seeds, 5 | 3 | " in text


@pytest.mark.slow
def test_the_command_draws_every_regime(tmp_path):
    lines = list(regenerate(tmp_path, 2))
    assert len(lines) == len(NULLS) + len(BETTER) + 1
    assert lines[-1] == f"wrote {tmp_path / 'verdicts.md'}"
