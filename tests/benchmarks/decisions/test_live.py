"""Decisions from stored logits against the heads' own code, and against values computed by hand."""

import time

import numpy as np
import pytest
import torch

from frostbench.benchmarks.decisions.applying import with_decision
from frostbench.benchmarks.decisions.decision import Decision
from frostbench.benchmarks.decisions.figures import figures
from frostbench.benchmarks.decisions.head_numbers import HeadNumbers, read_numbers
from frostbench.benchmarks.decisions.live import NEUTRAL, answers, fit_temperature
from frostbench.benchmarks.decisions.stored_logits import StoredLogits, read_logits
from frostbench.benchmarks.runs.evaluate import predictions
from frostbench.benchmarks.runs.store import read_outcomes, run_folder
from frostbench.embedcache.table import read_table
from frostbench.heads.bundle.export import load_head
from frostbench.heads.posthoc.calibrators import temperature

COSTS = ({"label": "ash", "predicted": "beech", "cost": 6}, {"label": "fir", "predicted": "ash", "cost": 0.2})
SHARES = {"shares": {"fir": 0.4, "ash": 0.1}}
DECISIONS = {
    "neutral": {},
    "temperature": {"temperature": 2.5},
    "uniform": {"uniform": 1.0},
    "half": {"uniform": 0.5, "temperature": 0.7},
    "shares": SHARES,
    "cut-offs": {"cutoffs": {"ash": 3.0, "fir": 0.2}},
    "costs": {"costs": COSTS},
    "all": {"temperature": 1.3, "uniform": 0.8, "cutoffs": {"ash": 2.0}, "costs": COSTS, "abstain_below": 0.4},
}
OWN_PRIOR = ("neutral", "temperature", "costs")
CASES = [(kind, name) for kind in ("plain", "temperature", "none", "given", "crossfit") for name in DECISIONS]
CASES += [(kind, name) for kind in ("vector", "tuned") for name in (*OWN_PRIOR, "cut-offs")]
CASES += [("wanted", name) for name in OWN_PRIOR]


def loaded(store, key):
    return read_numbers(run_folder(store, key) / "head"), read_logits(store, key)


def by_the_head(runs, kind, decision, role):
    """Return log-probabilities, classes and abstentions of the exported head, in the order of the outcomes."""
    cache, store, keys = runs
    head = with_decision(load_head(run_folder(store, keys[kind]) / "head"), decision)
    table, ids = read_table(cache), read_outcomes(store, keys[kind], role)["id"].tolist()
    place = {name: row for row, name in enumerate(table.ids.tolist())}
    rows = [place[name] for name in ids]
    chosen = np.isin(table.ids, ids)
    said = predictions(head, table, chosen)
    order = np.searchsorted(np.flatnonzero(chosen), rows)
    log_p, predicted = said.log_p[order], said.predicted[order]
    return log_p, predicted, head.unsure(log_p, predicted)


@pytest.mark.parametrize("role", ["select", "test"])
@pytest.mark.parametrize(("kind", "name"), CASES)
def test_answers_are_those_of_the_exported_head(runs, kind, name, role):
    _, store, keys = runs
    decision = Decision.model_validate(DECISIONS[name])
    head, stored = loaded(store, keys[kind])
    labels = read_outcomes(store, keys[kind], role)["label"].to_numpy()
    found = answers(stored, role, labels, head, decision)
    log_p, predicted, unsure = by_the_head(runs, kind, decision, role)
    assert found.predicted.tolist() == predicted.tolist()
    assert found.unsure.tolist() == unsure.tolist()
    p = log_p.double().exp().numpy()
    assert np.abs(found.confidence - p[np.arange(len(p)), predicted.numpy()]).max() < 1e-6
    assert np.abs(np.exp(found.log_own) - p[np.arange(len(p)), labels]).max() < 1e-6


@pytest.mark.parametrize("kind", ["plain", "none", "vector", "tuned", "wanted"])
def test_without_a_decision_they_are_the_outcomes_of_the_run(runs, kind):
    _, store, keys = runs
    head, stored = loaded(store, keys[kind])
    outcomes = read_outcomes(store, keys[kind], "test")
    found = answers(stored, "test", outcomes["label"].to_numpy(), head, NEUTRAL)
    assert found.predicted.tolist() == outcomes["predicted"].tolist()
    assert found.confidence == pytest.approx(outcomes["confidence"].to_numpy(), abs=1e-6)
    assert found.log_own == pytest.approx(outcomes["log_p"].to_numpy(), abs=1e-5)
    assert not found.unsure.any()


@pytest.mark.parametrize("spread", [None, 1.0])
def test_the_temperature_is_that_of_the_calibrator(spread):
    generator = torch.Generator().manual_seed(3)
    logits = 4 * torch.randn(80, 5, generator=generator)
    logits[:, 4] = -torch.inf
    labels = torch.where(torch.rand(80, generator=generator) < 0.6, logits.argmax(1), torch.arange(80) % 4)
    weight = torch.rand(80, generator=generator).double() + 0.1
    wanted = temperature.fit_temperature(logits, labels, weight, spread)
    found = fit_temperature(logits.double().numpy(), labels.numpy(), weight.numpy(), spread)
    assert found == pytest.approx(wanted, abs=1e-6)
    assert found > 1.2


def numbers(**changes):
    own = {"class_names": ("a", "b"), "background": (), "counts": np.array([3, 1]), "prior": np.array([0.75, 0.25])}
    kinds = {"calibration": "none", "thresholds": "none", "shift": "none", "temperature": 1.0}
    return HeadNumbers(**(own | kinds | {"bias": None, "logits": None, "labels": None} | changes))


def said(decision, logits=((1.0, 0.0),), **changes):
    stored = StoredLogits("logits", {"select": np.array(logits, np.float32)})
    return answers(stored, "select", np.zeros(len(logits), int), numbers(**changes), Decision.model_validate(decision))


def test_a_prior_multiplies_odds_by_the_ratio_of_shares():
    # Odds of a: e at shares 3 : 1; at 1 : 1 they are e / 3, and at 1 : 4 e / 12.
    for decision, odds in (({}, np.e), ({"uniform": 1}, np.e / 3), ({"shares": {"b": 0.8}}, np.e / 12)):
        found = said(decision)
        assert np.exp(found.log_own[0]) == pytest.approx(odds / (1 + odds), abs=1e-6)
        assert found.predicted.tolist() == [0 if odds > 1 else 1]


def test_a_temperature_divides_the_logits():
    assert np.exp(said({"temperature": 4}, ((2.0, 0.0),)).log_own[0]) == pytest.approx(1 / (1 + np.exp(-0.5)), abs=1e-6)


def test_half_way_to_uniform_is_the_geometric_mean():
    target = Decision(uniform=0.5).target(np.array([0.8, 0.2, 0.0]), ("a", "b", "c"))
    assert target == pytest.approx(np.array([2 / 3, 1 / 3, 0]))


def test_classes_without_a_share_divide_the_rest():
    target = Decision(shares={"c": 0.5}).target(np.array([0.6, 0.2, 0.2]), ("a", "b", "c"))
    assert target == pytest.approx(np.array([0.375, 0.125, 0.5]))
    assert Decision(shares={"a": 0.3, "b": 0.1}).target(np.array([0.5, 0.5]), ("a", "b")) == pytest.approx([0.75, 0.25])
    with pytest.raises(ValueError, match="needs a share above 0 for a class that the head can predict"):
        Decision(shares={"b": 1.0}).target(np.array([1.0, 0.0]), ("a", "b"))


@pytest.mark.parametrize(
    ("decision", "message"),
    [
        ({"uniform": 0.5, "shares": {"a": 0.5}}, "either part of the way to uniform or given by shares"),
        ({"shares": {"a": 0.7, "b": 0.4}}, "must sum to at most 1, got 1.1"),
        ({"temperature": 0}, "greater than or equal to 0.05"),
        ({"cutoffs": {"a": 0}}, "greater than or equal to 0.001"),
        ({"costs": [{"label": "a", "predicted": "a", "cost": 1}]}, "cost for being right"),
    ],
)
def test_decisions_out_of_bounds_are_refused(decision, message):
    with pytest.raises(ValueError, match=message):
        Decision.model_validate(decision)


@pytest.mark.parametrize("field", [{"shares": {"z": 0.5}}, {"cutoffs": {"z": 2.0}}])
def test_unknown_classes_are_refused(field):
    with pytest.raises(ValueError, match=r"must name classes of the head, but \['z'\] are none"):
        said(field)


@pytest.mark.parametrize(("kind", "why"), [("vector", "vector"), ("tuned", "thresholds"), ("wanted", "shifts")])
def test_a_prior_that_needs_another_fit_is_refused_with_the_reason(runs, kind, why):
    _, store, keys = runs
    head, stored = loaded(store, keys[kind])
    labels = np.zeros(len(stored.rows["select"]), int)
    with pytest.raises(ValueError, match=f"The class prior of this head cannot be changed here.*{why}"):
        answers(stored, "select", labels, head, Decision(uniform=1))
    if kind == "wanted":
        with pytest.raises(ValueError, match=r"takes no cut-offs.*required recall"):
            answers(stored, "select", labels, head, Decision(cutoffs={"ash": 2}))
        whole = load_head(run_folder(store, keys[kind]) / "head")
        with pytest.raises(ValueError, match="fitted to a required recall or precision"):
            with_decision(whole, Decision(cutoffs={"ash": 2}))


def test_the_cross_fitted_run_has_other_probabilities_but_the_same_logits(runs):
    _, store, keys = runs
    head, stored = loaded(store, keys["crossfit"])
    outcomes = read_outcomes(store, keys["crossfit"], "select")
    found = answers(stored, "select", outcomes["label"].to_numpy(), head, NEUTRAL)
    assert found.predicted.tolist() == outcomes["predicted"].tolist()


def test_a_large_table_is_decided_at_once():
    generator = np.random.default_rng(0)
    names = tuple(f"class {i}" for i in range(200))
    logits = 3 * generator.normal(size=(20_000, 200)).astype(np.float32)
    labels = logits.argmax(1)
    head = numbers(class_names=names, counts=np.full(200, 9), prior=np.full(200, 1 / 200))
    stored = StoredLogits("logits", {"select": logits})
    costs = ({"label": "class 1", "predicted": "class 2", "cost": 5},)
    decision = Decision(temperature=1.5, costs=costs, cutoffs={"class 3": 2}, abstain_below=0.4)

    def seconds():
        began = time.perf_counter()
        found = answers(stored, "select", labels, head, decision)
        figures(found, labels, head, decision.rule)
        return time.perf_counter() - began

    # It takes 0.06 s on one quiet core; busy machines get some room.
    assert min(seconds() for _ in range(5)) < 0.3
