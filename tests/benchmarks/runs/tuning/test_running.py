"""Tuned benches: which runs are trained."""

import re
from pathlib import Path

import yaml
from tuned_benches import LR, RATES, SHORT, bench_of, fail, of_kind

from frostbench.benchmarks.runs.events import RowStarted, RunDone, RunFailed, RunSkipped
from frostbench.benchmarks.runs.runner import bench_rows, run_bench
from frostbench.benchmarks.runs.tuning import chosen_rows
from frostbench.benchmarks.settings.parsing import parse
from frostbench.benchmarks.settings.plan import BenchSpec, expand

DOC = (Path(__file__).parents[4] / "docs" / "tuning.md").read_text(encoding="utf-8")


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


def test_the_bench_of_the_documentation_runs(trained, tmp_path):
    (text,) = re.findall(r"```yaml\n(.*?)```", DOC, re.DOTALL)
    own = {"caches": [str(trained.folder / "cache")], "store": str(tmp_path / "s"), "seeds": [0], "base": SHORT}
    bench = parse(BenchSpec, yaml.safe_load(text) | own)
    assert len(expand(bench)) == 6 + 6 + 6 + 1
    # No tuned option is reported to have no effect.
    assert not [warning for row in expand(bench) for warning in row.warnings if "strength" in warning]
    list(run_bench(bench))
    (chosen,) = chosen_rows(bench)
    assert [len(one.tried) for one in chosen.tuned.values()] == [6, 6, 6, 1]
    assert chosen.tuned["ridge"].winner.name.startswith("strength=")
