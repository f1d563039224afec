"""`frostbench export STORE/RUN` and `frostbench predict` on the result."""

import pandas as pd
import pytest
from decided_runs import decided_runs
from typer.testing import CliRunner

from frostbench.app.cli import app
from frostbench.benchmarks.decisions.decision import Decision
from frostbench.benchmarks.decisions.kept import keep
from frostbench.benchmarks.settings.parsing import SettingsError


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
