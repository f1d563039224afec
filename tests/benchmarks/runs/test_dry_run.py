import pytest
import torch
from short_benches import SHORT, bench_of

import frostbench.benchmarks.runs.timing as timing
from frostbench.benchmarks.runs.dry_run import plan_bench
from frostbench.benchmarks.runs.runner import run_bench
from frostbench.benchmarks.runs.timing import EPOCHS, seconds_of, shortened, subset
from frostbench.benchmarks.settings.parsing import bench_names, packaged_bench, parse
from frostbench.benchmarks.settings.plan import BenchSpec
from frostbench.training.data.part import Data, Part
from frostbench.training.run import RunSpec


def test_it_counts_runs_and_stacks_and_trains_nothing(cache):
    bench = bench_of(cache, toggles={"lda": {"preset": "lda"}, "slow": {"train.optim.lr": 0.001}})
    (plan,) = plan_bench(bench)
    assert (plan.runs, plan.found) == (6, 0)
    steps, lda = plan.stacks
    assert (steps.rows, steps.stacks, steps.heads) == (("baseline", "slow"), 2, 2)
    assert (lda.rows, lda.stacks, lda.heads, lda.epochs) == (("lda",), 2, 1, 0)
    assert steps.epochs == 3
    assert steps.bytes > 0
    assert plan.seconds == steps.seconds + lda.seconds > 0
    assert plan.rows["train"] + plan.rows["test"] < 272
    assert not (cache.parent / "runs").exists()


def test_finished_runs_are_not_planned(cache):
    bench = bench_of(cache)
    list(run_bench(bench))
    (plan,) = plan_bench(bench_of(cache, seeds=(0, 1, 2)))
    assert (plan.runs, plan.found, [stack.stacks for stack in plan.stacks]) == (3, 2, [1])
    (plan,) = plan_bench(bench)
    assert (plan.found, plan.stacks, plan.seconds) == (2, (), 0)


def test_a_bench_that_cannot_run_is_refused(cache):
    with pytest.raises(ValueError, match="row 'baseline'"):
        list(plan_bench(bench_of(cache, base={"columns": ["none"]})))


def test_folds_and_shots_are_planned(cache):
    (folded,) = plan_bench(bench_of(cache, split={"folds": 3}, base={"train.schedule.epochs": 2}))
    assert folded.seconds > 0
    (few,) = plan_bench(bench_of(cache, toggles={"one": {"shots": 1}}))
    assert [stack.rows for stack in few.stacks] == [("baseline",), ("one",)]


def test_rows_on_disk_are_timed_in_memory(cache, monkeypatch):
    monkeypatch.setattr(timing, "FEW", 1)
    monkeypatch.setattr(timing, "MANY", 2)
    bench = bench_of(cache, base=SHORT | {"train.sampler.block_rows": 32, "train.sampler.buffer_rows": 64})
    (plan,) = plan_bench(bench, stream="always")
    assert plan.on_disk == "stream=always was requested"
    assert plan.seconds > 0


@pytest.mark.parametrize("name", bench_names())
def test_every_shipped_bench_can_be_planned(cache, name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(timing, "FEW", 1)
    monkeypatch.setattr(timing, "MANY", 2)
    changes = {"caches": [str(cache)], "store": str(tmp_path / "s"), "seeds": [0]}
    if name == "ufg":
        changes["split"] = {}
    (plan,) = plan_bench(parse(BenchSpec, packaged_bench(name) | changes))
    assert plan.runs > 0
    assert sum(stack.stacks * stack.heads for stack in plan.stacks) == plan.runs


def test_runs_are_timed_on_a_few_epochs_of_a_few_rows():
    labels = torch.arange(300) % 7
    part = Part({"x": torch.randn(300, 4, generator=torch.Generator().manual_seed(0))}, labels)
    data = Data(part, part, part, tuple("abcdefg"))
    run = RunSpec.model_validate({"second": {"kind": "crt"}, "head": {"body": {"kind": "mlp", "hidden": [8]}}})
    short = shortened(run)
    assert short.epochs_for(10_000) == 2 * EPOCHS
    few = subset(data, 40)
    assert set(few.train.labels.tolist()) == set(labels.tolist())
    assert len(few.train) <= 40 + 7
    assert seconds_of([run], data) > 0
