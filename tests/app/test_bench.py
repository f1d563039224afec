import json
import re
import subprocess
import sys
from types import SimpleNamespace

import pandas as pd
import pytest

from frostbench.app.actions.bench_output import format_run
from frostbench.app.demo_data import digits, solar_cells
from frostbench.heads.bundle.export import load


def test_the_path_of_a_bench(frostbench, bench_file, tmp_path):
    first = frostbench("bench", "run", bench_file)
    assert first.status == 0, first.err
    assert "digits: 6 runs trained, 0 found" in first.out
    assert "gradient " in first.out
    assert "digits: 0 runs trained, 6 found" in frostbench("bench", "run", bench_file).out

    compared = frostbench("compare", bench_file, "--baseline", "weighted", "--out", tmp_path / "compare")
    assert compared.status == 0, compared.err
    assert "baseline 'weighted'" in compared.out
    table = pd.read_csv(tmp_path / "compare" / "table.csv")
    assert set(table["row"]) == {"weighted", "plain", "solved"}
    assert "<svg" in (tmp_path / "compare" / "report.html").read_text()

    exported = frostbench("export", bench_file, "solved", "--out", tmp_path / "head")
    assert exported.status == 0, exported.err
    bundle = load(tmp_path / "head")
    assert bundle.head.class_names == ("digit 0", "digit 1", "digit 8")
    assert bundle.canary is not None
    again = frostbench("export", bench_file, "solved", "--out", tmp_path / "head")
    assert (again.status, "Choose another name" in again.err) == (2, True)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (
            ["bench", "run", "none.yaml"],
            "Cannot read the settings file none.yaml: No such file or directory. Check the path.",
        ),
        (["bench", "run", "BENCH", "--set", "sedes=[1]"], "Did you mean seeds?"),
        (["compare", "BENCH", "--baseline", "ful"], "got 'ful'"),
        (
            ["compare", "BENCH", "--set", "seeds=[0, 7]"],
            "lacks 1 of 2 runs of row 'plain', 1 of 2 runs of row 'weighted'",
        ),
        (["export", "BENCH", "plain", "--out", "x", "--set", "base.train.optim.lr=0.5"], "Run the bench first"),
        (["export", "BENCH", "ful", "--out", "x"], "must be one of ['plain', 'weighted', 'solved'], got 'ful'"),
        (["train", "nowhere"], "nowhere"),
        (["train", "CACHE", "--device", "gpu"], "gpu"),
        (["train", "CACHE", "--preset", "best"], "'best' is not one of the presets: "),
        (["train", "CACHE", "--set", "train.loss.hardmine.kep=1"], "Did you mean train.loss.hardmine.keep?"),
        (["train", "CACHE", "--set", "columns=[cls]"], "got ['cls'], but the table has ['avg']"),
    ],
)
def test_errors_are_explained(frostbench, bench_file, cache, tmp_path, monkeypatch, words, message):
    frostbench("bench", "run", bench_file)
    monkeypatch.chdir(tmp_path)
    result = frostbench(*({"BENCH": bench_file, "CACHE": cache}.get(word, word) for word in words))
    assert result.status == 2
    assert message in result.err


def test_options_are_listed(frostbench):
    result = frostbench("options")
    assert "train.loss.class_weight.kind = none  (none, inverse, sqrt_inverse, power, effective)" in result.out
    assert (
        "    Class weights. Weights of the classes in the loss, from class sizes; none weights all samples equally.\n"
        in result.out
    )
    assert result.out.startswith("presets: arcface, balanced_softmax, baseline, ")


def test_training_and_the_command_line_do_not_import_gradio():
    assert not imported(
        "gradio",
        by="frostbench.app.cli, "
        "frostbench.app.actions.benches, frostbench.app.actions.embedding, frostbench.app.actions.demo",
    )


def test_help_does_not_wait_for_torch():
    assert not imported("torch", by="frostbench.app.cli")
    assert imported("torch", by="frostbench.app.actions.benches")


def imported(name, by):
    code = f"import sys, {by}; print({name!r} in sys.modules)"
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout.strip() == "True"


def test_the_images_of_the_demo_are_as_described(tmp_path):
    solar = pd.read_csv(solar_cells(tmp_path).manifest)["label"].value_counts()
    assert (solar.sum(), len(solar), round(solar.max() / solar.min())) == (2624, 8, 18)
    made = digits(tmp_path)
    table = pd.read_csv(made.manifest)
    assert table["label"].value_counts().iloc[[0, -1]].tolist() == [120, 8]
    assert all((made.root / path).is_file() for path in table["path"])


def test_info_is_json(frostbench, cache):
    found = json.loads(frostbench("cache", "info", cache).out)
    assert found["classes"] == {"digit 0": 40, "digit 1": 40, "digit 8": 12}
    assert found["quarantine"]


def test_a_closed_form_head_is_trained_and_exported_without_validation_rows(frostbench, cache, tmp_path):
    (tmp_path / "bench.yaml").write_text(
        f"""
name: solved
caches: ['{cache}']
store: '{tmp_path / "results"}'
preset: plain
base: {{head.classifier.kind: logreg}}
seeds: [0, 1]
split: {{select: 0}}
"""
    )
    ran = frostbench("bench", "run", tmp_path / "bench.yaml")
    assert ran.status == 0, ran.err
    assert "macro F1 none" in ran.out
    exported = frostbench("export", tmp_path / "bench.yaml", "plain", "--out", tmp_path / "head")
    assert exported.status == 0, exported.err
    assert "seed 0 (the first seed, since there are no validation rows)" in exported.out


def test_folds_are_given_on_the_command_line(frostbench, cache, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    words = ("--preset", "plain", "--set", "head.classifier.kind=ridge", "--split", "folds=3", "--out", "head")
    ran = frostbench("train", cache, *words)
    assert ran.status == 0, ran.err
    assert "Cross-validated, 3 folds" in ran.err
    assert "select 0" in ran.out
    assert re.search("^on [0-9]+ held-out rows: macro F1 [01]", ran.out, re.MULTILINE)
    assert (tmp_path / "head" / "card.json").exists()
    refused = frostbench("train", cache, "--split", "folds=3", "--split", "select=0.3")
    assert refused.status == 2
    assert "Cross-validation has no validation and calibration rows" in refused.err


def test_train_reports_a_better_simple_head_and_refits_the_export(frostbench, cache, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    hardly = ("--preset", "plain", "--set", "train.schedule={epochs: 1, min_steps: 0}", "--set", "train.optim.lr=1e-6")
    ran = frostbench("train", cache, *hardly, "--out", "head")
    assert ran.status == 0, ran.err
    assert "note: a simple head does better in 5-fold cross-validation on the training rows: macro F1 " in ran.err
    assert "Try --preset " in ran.err
    assert ", refitted to " in ran.out
    again = frostbench("train", cache, *hardly, "--out", "plain", "--no-refit", "--no-compare-simple")
    assert "simple head" not in again.err
    assert "refitted" not in again.out
    before, after = (json.loads((tmp_path / name / "card.json").read_text()) for name in ("plain", "head"))
    assert after["facts"]["metrics_before"] == before["facts"]["metrics"]


def test_a_failed_run_ends_the_command_with_status_1(frostbench, bench_file, tmp_path, monkeypatch):
    import frostbench.benchmarks.runs.train_missing as train_missing
    from frostbench.training.engine.events import Failed, Finished

    real = train_missing.fit

    def failing(runs, data, stop, checkpoints, **rest):
        for event in real(runs, data, stop, checkpoints, **rest):
            is_last = isinstance(event, Finished) and (runs[event.run].is_solved, runs[event.run].seed) == (True, 1)
            yield Failed(event.run, "it diverged. Lower train.optim.lr.") if is_last else event

    monkeypatch.setattr(train_missing, "fit", failing)
    words = ("bench", "run", bench_file, "--set", f"store={tmp_path / 'other'}")
    ran = frostbench(*words)
    assert ran.status == 1
    assert "FAILED, it diverged. Lower train.optim.lr." in ran.out
    assert ", 1 failed" in ran.out.splitlines()[-1]
    monkeypatch.undo()
    again = frostbench(*words)
    assert again.status == 0
    assert "1 run trained" in again.out.splitlines()[-1]


def test_alerts_and_notes_of_a_run_are_printed():
    record = SimpleNamespace(
        selection_value=None,
        epoch=3,
        gradient_norm=None,
        reason="diverged",
        temperature=20.0,
        seed=1,
        seconds=2.0,
        together=4,
        members=(),
        notes=("a temperature of 20 lies at the bound of the search",),
    )
    result = format_run(SimpleNamespace(record=record, row="full"))
    assert "DIVERGED, kept the best epoch before that" in result
    assert "a temperature of 20 lies at the bound of the search" in result
    assert "2.0 s for 4 heads together" in result


def test_unreadable_records_are_counted(frostbench, cache, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    words = ("train", cache, "--preset", "plain", "--set", "head.classifier.kind=ridge", "--no-compare-simple")
    told = ("1 record cannot be read and is left out: a", "2 records cannot be read and are left out: a, b")
    for name, sentence in zip("ab", told, strict=True):
        (tmp_path / "results" / "runs" / name).mkdir(parents=True)
        (tmp_path / "results" / "runs" / name / "record.json").write_text("{")
        assert f"note: {sentence}" in frostbench(*words).err.splitlines()


def test_train_prints_a_handful_of_lines(frostbench, cache, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    ran = frostbench("train", cache, "--set", "train.schedule={epochs: 2, min_steps: 0}", "--no-compare-simple")
    assert ran.status == 0, ran.err
    sizes, run, store, figures = ran.out.splitlines()
    assert ": train " in sizes
    assert "macro F1" in run
    assert store == "train: 1 run trained, 0 found in results"
    assert figures.startswith("on ")
    assert " validation rows: macro F1 0." in figures
    assert figures.endswith("; the test rows were not used")


def test_a_note_about_several_rows_is_printed_once(frostbench, cache, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    bench = (
        f"{{name: b, caches: ['{cache}'], preset: plain, seeds: [0, 1], toggles: {{slow: {{train.optim.lr: 0.001}}}}, "
    )
    (tmp_path / "b.yaml").write_text(bench + "base: {train.schedule: {epochs: 2, min_steps: 0}}}")
    ran = frostbench("bench", "run", "b.yaml")
    assert ran.status == 0, ran.err
    notes = [line for line in ran.err.splitlines() if "the epoch with the lowest NLL on the " in line]
    assert [line.partition(": the epoch")[0] for line in notes] == ["note: plain, slow"]
