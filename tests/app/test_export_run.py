"""`frostbench export STORE/RUN` and `frostbench predict` on the result."""

import json
from zipfile import ZipFile

import pandas as pd
import pytest
from decided_runs import decided_runs
from short_benches import SHORT
from typer.testing import CliRunner

from frostbench.app.cli import app
from frostbench.app.workbench.export.making import make_bundle
from frostbench.app.workbench.predict import engine
from frostbench.app.workbench.predict.choice import Choice
from frostbench.benchmarks.decisions.decision import Decision
from frostbench.benchmarks.decisions.kept import keep
from frostbench.benchmarks.runs.exporting import export_row
from frostbench.benchmarks.settings.parsing import SettingsError
from frostbench.benchmarks.settings.plan import BenchSpec


def run(*words):
    return CliRunner().invoke(app, [str(word) for word in words], catch_exceptions=False)


@pytest.fixture(scope="module")
def plain(cache, tmp_path_factory):
    store = tmp_path_factory.mktemp("exported") / "results"
    return store, decided_runs(cache, store, kinds={})["plain"][0]


def test_a_kept_decision_is_exported_and_predicted_with(plain, cache, tmp_path):
    store, key = plain
    keep(store, key, Decision(temperature=3.0, abstain_below=0.5))
    said = run("export", store / key, "--out", tmp_path / "bundle")
    assert "with the kept decision: temperature × 3, no answer below 0.5" in said.output
    run("predict", tmp_path / "bundle", cache, "--out", tmp_path / "tuned.csv")
    run("predict", tmp_path / "bundle", cache, "--out", tmp_path / "argmax.csv", "--decisions", "argmax")
    tuned, argmax = (pd.read_csv(tmp_path / f"{name}.csv") for name in ("tuned", "argmax"))
    assert (tuned["class"] == "unsure").tolist() == (tuned["probability"] < 0.5).tolist()
    assert 0 < (tuned["class"] == "unsure").sum() < len(tuned)
    assert not (argmax["class"] == "unsure").any()
    assert tuned["probability"].equals(argmax["probability"])


def test_what_is_no_run_and_what_does_not_apply_is_refused(plain, tmp_path):
    store, key = plain
    with pytest.raises(SettingsError, match="is no run and no row is named"):
        run("export", store / "nothing", "--out", tmp_path / "bundle")
    with pytest.raises(SettingsError, match=r"--seeds all, --refit cannot apply"):
        run("export", store / key, "--out", tmp_path / "bundle", "--refit", "--seeds", "all")


def test_the_download_of_the_page_has_the_kept_decision(plain, tmp_path):
    store, key = plain
    keep(store, key, Decision(temperature=2.0))
    made = make_bundle(store, [key], None, False, tmp_path, "cpu", ())
    with ZipFile(made) as packed:
        assert json.loads(packed.read("head/card.json"))["rule"]["temperature"] == 2.0
    assert list(tmp_path.iterdir()) == [made]
    keep(store, key, Decision(costs=({"label": "none of them", "predicted": "digit 0", "cost": 2},)))
    with pytest.raises(ValueError, match="Costs must name classes"):
        make_bundle(store, [key], None, False, tmp_path / "other", "cpu", ())
    assert not list((tmp_path / "other").iterdir())
    keep(store, key, Decision())


def test_the_tab_predict_applies_the_kept_decision(plain, photos):
    store, key = plain
    choice, files = Choice(store, key, None), [(path, path.name) for path in sorted((photos / "digit 8").iterdir())]
    (facts,) = engine.begin("usual", [choice], "cpu", ())
    assert facts["decision"] == ""
    engine.add("usual", files)
    (usual,) = engine.results("usual", 1.0, 0.0)["heads"]
    keep(store, key, Decision(temperature=3.0, abstain_below=0.5))
    (facts,) = engine.begin("decided", [choice], "cpu", ())
    assert facts["decision"] == "temperature × 3, no answer below 0.5"
    engine.add("decided", files)
    (decided,) = engine.results("decided", 1.0, 0.0)["heads"]
    assert decided["classes"] == usual["classes"]
    assert decided["unsure"] == [p < 0.5 for p in decided["probabilities"]]
    assert not any(usual["unsure"])
    assert max(decided["probabilities"]) < max(usual["probabilities"])
    keep(store, key, Decision())


def test_a_bench_row_says_that_its_run_has_a_kept_decision(plain, cache, tmp_path):
    store, key = plain
    keep(store, key, Decision(temperature=2.0))
    bench = BenchSpec(caches=(str(cache),), store=str(store), preset="plain", base=SHORT, seeds=(0,))
    words = export_row(bench, "plain", tmp_path / "row", refit=False)
    assert f"without the decision kept for run {key} (export {store / key} for it)" in words
    keep(store, key, Decision())
    assert "decision kept" not in export_row(bench, "plain", tmp_path / "other", refit=False)
