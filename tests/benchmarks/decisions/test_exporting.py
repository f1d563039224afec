"""A decision that was kept for a run: its file, and the bundle that it becomes."""

import json
import shutil

import numpy as np
import pytest

from frostbench.benchmarks.decisions.decision import Decision
from frostbench.benchmarks.decisions.exporting import describe, export_run, run_at
from frostbench.benchmarks.decisions.head_numbers import read_numbers
from frostbench.benchmarks.decisions.kept import keep, kept_decision
from frostbench.benchmarks.decisions.live import answers
from frostbench.benchmarks.decisions.stored_logits import read_logits
from frostbench.benchmarks.inference.predict import predict_table
from frostbench.benchmarks.runs.store import StoreError, read_outcomes, read_record, run_folder
from frostbench.embedcache.table import read_table
from frostbench.heads.bundle.export import load

DECISION = Decision(
    temperature=1.4,
    uniform=0.7,
    cutoffs={"ash": 1.8, "fir": 0.5},
    costs=({"label": "cedar", "predicted": "ash", "cost": 4},),
    abstain_below=0.35,
)


@pytest.fixture
def store(runs, tmp_path):
    return shutil.copytree(runs[1], tmp_path / "store")


def test_a_decision_is_kept_replaced_and_removed(runs, store):
    key = runs[2]["plain"]
    assert kept_decision(store, key) is None
    keep(store, key, DECISION)
    assert kept_decision(store, key) == DECISION
    keep(store, key, Decision(temperature=2))
    assert kept_decision(store, key) == Decision(temperature=2)
    assert not keep(store, key, Decision()).exists()
    assert kept_decision(store, key) is None
    assert read_record(store, key).key == key


def edited(tree):
    tree["decision"]["temperature"] = 3
    return json.dumps(tree)


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (edited, "it was changed after it was written"),
        (lambda tree: json.dumps([tree]), "it was changed after it was written"),
        (lambda _: "{", "must be as the page wrote it"),
        (lambda _: "[" * 100_000, "must be as the page wrote it"),
    ],
)
def test_a_spoiled_decision_is_refused(runs, store, spoil, message):
    path = keep(store, runs[2]["plain"], DECISION)
    path.write_text(spoil(json.loads(path.read_text())))
    with pytest.raises(StoreError, match=message):
        kept_decision(store, runs[2]["plain"])


def test_a_decision_of_another_run_is_refused(runs, store):
    path = keep(store, runs[2]["plain"], DECISION)
    shutil.copy(path, run_folder(store, runs[2]["none"]))
    with pytest.raises(StoreError, match="it is for run"):
        kept_decision(store, runs[2]["none"])
    with pytest.raises(StoreError, match="has no record"):
        keep(store, "nothing", DECISION)


@pytest.mark.parametrize("kind", ["plain", "given"])
def test_predictions_of_the_export_are_those_of_the_page(runs, store, tmp_path, kind):
    cache, _, keys = runs
    keep(store, keys[kind], DECISION)
    words = export_run(store, keys[kind], tmp_path / "bundle")
    assert "with the kept decision: temperature × 1.4, class prior 70% of the way to uniform" in words
    head, stored = read_numbers(run_folder(store, keys[kind]) / "head"), read_logits(store, keys[kind])
    outcomes = read_outcomes(store, keys[kind], "test")
    said = answers(stored, "test", outcomes["label"].to_numpy(), head, DECISION)
    table = predict_table(load(tmp_path / "bundle").head, read_table(cache)).set_index("image").loc[outcomes["id"]]
    names = np.array(head.class_names)
    assert table["class"].tolist() == np.where(said.unsure, "unsure", names[said.predicted]).tolist()
    assert said.unsure.any()
    assert not said.unsure.all()
    assert table["probability"].to_numpy() == pytest.approx(said.confidence, abs=1e-6)


def test_the_card_states_the_decision(runs, store, tmp_path):
    key = runs[2]["plain"]
    keep(store, key, DECISION)
    export_run(store, key, tmp_path / "bundle")
    card = json.loads((tmp_path / "bundle" / "card.json").read_text())
    assert card["rule"] == json.loads(DECISION.rule.model_dump_json())
    assert card["posthoc"]["shift"]["logits"] == pytest.approx({"ash": -np.log(1.8), "fir": np.log(2)})
    assert card["facts"]["decision"] == json.loads(DECISION.model_dump_json())
    own = read_numbers(run_folder(store, key) / "head").prior
    assert card["priors"]["implied"] == pytest.approx(DECISION.target(own, card["class_names"]).tolist())


def test_cut_offs_add_to_a_given_shift(runs, store, tmp_path):
    keep(store, runs[2]["given"], Decision(cutoffs={"beech": 0.5, "ash": 2}))
    export_run(store, runs[2]["given"], tmp_path / "bundle")
    card = json.loads((tmp_path / "bundle" / "card.json").read_text())
    assert card["posthoc"]["shift"]["logits"] == pytest.approx({"beech": 0.7 + np.log(2), "ash": -np.log(2)})


def test_without_a_decision_the_bundle_is_that_of_the_run(runs, store, tmp_path):
    key = runs[2]["plain"]
    assert "with its own decisions" in export_run(store, key, tmp_path / "bundle")
    for name in ("card.json", "head.safetensors"):
        assert (tmp_path / "bundle" / name).read_bytes() == (run_folder(store, key) / "head" / name).read_bytes()


def test_a_run_without_a_head_is_not_exported(runs, store, tmp_path):
    key = runs[2]["plain"]
    shutil.rmtree(run_folder(store, key) / "head")
    with pytest.raises(StoreError, match="keeps none"):
        export_run(store, key, tmp_path / "bundle")
    assert not (tmp_path / "bundle").exists()


def test_runs_are_named_by_store_and_key(runs, store):
    key = runs[2]["plain"]
    assert run_at(store / key) == run_at(store / "runs" / key) == (store, key)
    assert run_at(store / "nothing") is None
    assert run_at(store) is None


def test_a_neutral_decision_has_no_parts():
    assert describe(Decision()) == "none"
