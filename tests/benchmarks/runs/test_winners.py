"""Two rounds of a tuned bench: rows of the second are the winners of the first, with all seeds."""

from pathlib import Path

import pytest

from frostbench.benchmarks.results.winners import first_round, last_round
from frostbench.benchmarks.runs.runner import run_bench
from frostbench.benchmarks.runs.tuning import chosen_rows
from frostbench.benchmarks.settings.plan import BenchSpec, expand

SHORT = {"train.schedule.epochs": 2, "train.schedule.min_steps": 0, "train.schedule.batch_size": 32}


@pytest.fixture(scope="module")
def bench(tmp_path_factory, write_cache):
    folder = tmp_path_factory.mktemp("rounds")
    write_cache(folder / "cache")
    return BenchSpec(
        caches=(str(folder / "cache"),),
        store=str(folder / "store"),
        preset="plain",
        base=SHORT,
        toggles={"smooth": {"train.loss.smoothing.epsilon": 0.1}, "slow": {"train.optim.lr": 0.001}},
        tune={
            "plain": {"train.optim.weight_decay": (0.0, 3.0)},
            "smooth": {"train.loss.smoothing.epsilon": (0.2, 0.9)},
            "slow": {"train.optim.lr": (1e-6, 2e-3)},
        },
        tune_by="nll",
        seeds=(3, 4, 5),
    )


def test_the_first_round_tries_all_settings_with_two_seeds(bench):
    rows = expand(first_round(bench))
    assert [row.name.split(" @ ")[0] for row in rows] == ["plain", "plain", "smooth", "smooth", "slow", "slow"]
    assert {tuple(spec.seed for spec in row.specs) for row in rows} == {(3, 4)}


def test_the_last_round_holds_the_winners_with_all_seeds(bench):
    list(run_bench(first_round(bench)))
    (first,) = chosen_rows(first_round(bench))
    rows = {row.name: row.specs for row in expand(last_round(bench, first.tuned))}
    assert list(rows) == ["plain", "smooth", "slow"]
    for name, specs in rows.items():
        assert [spec.seed for spec in specs] == [3, 4, 5]
        assert specs[0] == first.tuned[name].winner.spec
    # The base row's decay is repeated, so that it does not apply to rows that did not choose it.
    decay = rows["plain"][0].train.optim.weight_decay
    assert decay == first.tuned["plain"].winner.changes["train.optim.weight_decay"]
    untouched = expand(bench)[2].specs[0].train.optim.weight_decay
    assert rows["smooth"][0].train.optim.weight_decay == rows["slow"][0].train.optim.weight_decay == untouched


def test_a_bench_that_tunes_nothing_stays_as_it_is(bench):
    plain = bench.model_copy(update={"tune": {}})
    assert last_round(plain, {}) == plain


def test_nothing_that_won_is_trained_again(bench):
    list(run_bench(first_round(bench)))
    (first,) = chosen_rows(first_round(bench))
    last = last_round(bench, first.tuned)
    list(run_bench(last))
    (final,) = chosen_rows(last)
    for name, keys in final.rows.items():
        assert keys[:2] == first.tuned[name].winner.keys
        assert (Path(bench.store) / "runs" / keys[2]).is_dir()
