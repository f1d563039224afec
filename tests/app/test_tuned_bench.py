"""A bench that tunes its rows, on the command line."""

import json

import pandas as pd
import pytest
import yaml

from frostbench.app.actions.bench_output import Printer, format_winners
from frostbench.benchmarks.runs.events import RunNoted
from frostbench.benchmarks.runs.tuning import Tried, Tuned
from frostbench.benchmarks.settings.plan import BenchSpec
from frostbench.heads.bundle.export import load
from frostbench.training.run import RunSpec


@pytest.fixture
def tuned_file(cache, tmp_path):
    path = tmp_path / "tuned.yaml"
    path.write_text(
        f"""
name: tuned
caches: ['{cache}']
store: '{tmp_path / "results"}'
preset: plain
base:
  train.schedule: {{epochs: 4, min_steps: 0}}
toggles:
  smooth: {{train.loss.smoothing.epsilon: 0.1, posthoc.adjustment.tau: 0.1}}
  solved: {{head.classifier.kind: ridge}}
tune:
  plain: {{train.optim.lr: [1.0e-7, 0.02, 0.01]}}
  smooth: [{{train.optim.lr: 0.01}}, {{train.optim.lr: 1.0e-7}}, {{train.optim.lr: 1.0e-6}}]
  solved: {{}}
seeds: [0, 1]
"""
    )
    return path


def test_the_path_of_a_tuned_bench(frostbench, tuned_file, tmp_path):
    ran = frostbench("bench", "run", tuned_file)
    assert ran.status == 0, ran.err
    lines = ran.out.splitlines()
    assert [line.split(": macro F1")[0].strip() for line in lines[1:8]] == [
        "plain @ lr=1e-07",
        "plain @ lr=0.02",
        "plain @ lr=0.01",
        "smooth @ lr=0.01",
        "smooth @ lr=1e-07",
        "smooth @ lr=1e-06",
        "solved",
    ]
    assert all(", mean of 2 seeds" in line for line in lines[1:8])
    assert lines[8].startswith("tuned: 14 runs trained, 0 found")
    assert lines[10].endswith("by validation macro F1, mean of 2 seeds")
    assert [line.split()[:2] for line in lines[11:]] == [
        ["row", "settings"],
        ["plain", "3"],
        ["smooth", "3"],
        ["solved", "1"],
    ]
    assert lines[13].endswith("lr=0.01          Learning rate (train.optim.lr) = 0.01 (largest of 3)")
    assert lines[14].endswith("nothing to tune")
    # The note on label smoothing and adjustment is printed once, not once per setting.
    assert ran.err.count("label smoothing bounds the logit gaps") == 1

    compared = frostbench("compare", tuned_file, "--out", tmp_path / "compare")
    assert compared.status == 0, compared.err
    assert "Note: Each row is the best of 3 settings by validation macro F1, averaged over 2 seeds." in compared.out
    assert set(pd.read_csv(tmp_path / "compare" / "table.csv")["row"]) == {"plain", "smooth", "solved"}
    assert len(json.loads((tmp_path / "compare" / "table.json").read_text())["settings"]) == 7
    assert "Settings tried" in (tmp_path / "compare" / "report.html").read_text()

    exported = frostbench("export", tuned_file, "smooth", "--out", tmp_path / "head")
    assert exported.status == 0, exported.err
    assert "row 'smooth' with lr=0.01, seed" in exported.out
    assert load(tmp_path / "head").head.facts["run"]["train"]["optim"]["lr"] == 0.01

    again = frostbench("bench", "run", tuned_file)
    assert "tuned: 0 runs trained, 14 found" in again.out
    assert again.out.splitlines()[-4:] == lines[-4:]


def test_budgets_that_differ_are_refused_and_an_unfinished_bench_is_not_compared(frostbench, tuned_file):
    refused = frostbench("bench", "run", tuned_file, "--set", "tune.plain={train.optim.lr: [0.1]}")
    assert refused.status == 2
    assert "equally many settings, but 'plain' has 1, 'smooth' has 3" in refused.err
    early = frostbench("compare", tuned_file)
    assert early.status == 2
    assert "lacks 2 of 2 runs of row 'plain @ lr=1e-07'" in early.err


def test_a_failed_setting_is_printed_and_the_command_succeeds(frostbench, tuned_file, monkeypatch):
    import frostbench.benchmarks.runs.train_missing as train_missing
    from frostbench.training.engine.events import Failed, Finished

    real = train_missing.fit

    def failing(runs, data, stop, checkpoints, **rest):
        for event in real(runs, data, stop, checkpoints, **rest):
            is_so = isinstance(event, Finished) and runs[event.run].train.optim.lr == 0.02
            yield Failed(event.run, "it diverged. Lower train.optim.lr.") if is_so else event

    monkeypatch.setattr(train_missing, "fit", failing)
    ran = frostbench("bench", "run", tuned_file)
    assert ran.status == 0
    assert "plain @ lr=0.02: seed 0 FAILED, it diverged. Lower train.optim.lr.; seed 1 FAILED" in ran.out
    assert "12 runs trained, 0 found" in ran.out
    assert ran.out.splitlines()[-3].split()[:2] == ["plain", "3"]
    assert "lr=0.01" in ran.out.splitlines()[-3]


def test_a_note_on_runs_is_printed_once_per_row_seed_and_cache(capsys):
    bench = BenchSpec(preset="plain", tune={"plain": {"train.optim.lr": (0.003, 0.01)}})
    noted = [
        RunNoted(cache, f"plain @ lr={lr}", seed, "starts over")
        for cache in ("x", "y")
        for seed in (0, 1)
        for lr in (0.003, 0.01)
    ]
    printer = Printer(bench)
    for event in noted:
        printer.show(event)
    once = ["note: plain, seed 0: starts over", "note: plain, seed 1: starts over"]
    assert capsys.readouterr().err.splitlines() == once * 2

    printer = Printer(BenchSpec(preset="plain"))
    for event in (RunNoted("x", "plain", 0, "starts over"),) * 2:
        printer.show(event)
    assert capsys.readouterr().err.splitlines() == once[:1] * 2


def test_the_table_of_winners_is_aligned():
    few, many = (Tried(name, {}, RunSpec(), ("k",), 0.5, "") for name in ("", "lr=0.01, margin=0.3"))
    found = {"solved": Tuned((few,), few, ()), "arcface": Tuned((many,) * 12, many, ("lr=0.01 (largest of 4)",))}
    assert format_winners(found).splitlines() == [
        "row      settings  macro F1  winner               at the edge of the values tried",
        "solved          1    0.5000  nothing to tune",
        "arcface        12    0.5000  lr=0.01, margin=0.3  lr=0.01 (largest of 4)",
    ]


def test_successive_halving_prints_its_rounds_and_the_winner(frostbench, tuned_file):
    tree = yaml.safe_load(tuned_file.read_text())
    tree |= {"toggles": {}, "tune": {"plain": {"train.optim.lr": [1.0e-7, 0.02, 0.01]}}}
    tuned_file.write_text(yaml.safe_dump(tree))
    planned = frostbench("bench", "run", tuned_file, "--halving", 2, "--dry-run")
    assert [line for line in planned.out.splitlines() if line.startswith("round")] == [
        "round 1 of 2: 3 settings, 2 epochs",
        "round 2 of 2: 1 setting, 4 epochs",
    ]
    assert planned.out.splitlines()[-1].startswith("all rounds: at most about")
    ran = frostbench("bench", "run", tuned_file, "--halving", 2)
    assert ran.status == 0, ran.err
    assert "tuned: 8 runs trained, 0 found" in ran.out
    assert ran.out.splitlines()[-1].split()[:2] == ["plain", "1"]
    refused = frostbench("bench", "run", tuned_file, "--halving", 3)
    assert "needs at least 9 settings, got 3" in refused.err
    refused = frostbench("bench", "run", tuned_file, "--halving", 2, "--workers", 2)
    assert "Successive halving runs in one process" in refused.err
