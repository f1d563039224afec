"""Costs, abstention and the extra temperature: values computed by hand, neutral settings, and bundles."""

import json
from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from small_heads import some_head

from frostbench.heads.bundle.export import load, save
from frostbench.heads.bundle.files import sealed
from frostbench.heads.ensemble import Ensemble
from frostbench.heads.posthoc.decisions.rule import Cost, DecisionRule
from frostbench.heads.posthoc.pipeline import Layers
from frostbench.heads.posthoc.spec import NoCalibration, PosthocSpec

NAMES = ("cat", "dog", "toad")
P = np.array([[0.5, 0.3, 0.2], [0.2, 0.35, 0.45], [0.1, 0.8, 0.1]])


def rule(costs=(), **options):
    return DecisionRule(costs=tuple(Cost(label=a, predicted=b, cost=c) for a, b, c in costs), **options)


def brute_force(p, costs):
    """Return argmin_k sum_j p_j C[j, k] from the whole cost matrix."""
    matrix = 1 - np.eye(len(NAMES))
    for label, predicted, cost in costs:
        matrix[NAMES.index(label), NAMES.index(predicted)] = cost
    return (p @ matrix).argmin(1)


def test_without_costs_the_largest_score_wins():
    log_p = np.log(P)
    assert rule().choose(log_p, None, NAMES).tolist() == [0, 2, 1]
    assert rule().choose(log_p, -np.log(np.array([0.6, 0.2, 0.3])), NAMES).tolist() == [1, 1, 1]


def test_the_class_with_the_lowest_expected_cost_is_predicted():
    costs = [("toad", "cat", 5.0)]
    # Row 0: cat costs 0.3 + 5 * 0.2 = 1.3, dog 0.5 + 0.2 = 0.7, toad 0.5 + 0.3 = 0.8.
    assert rule(costs).choose(np.log(P), None, NAMES).tolist() == [1, 2, 1]
    assert rule([("dog", "toad", 0.0)]).choose(np.log(P[:1]), None, NAMES).tolist() == [0]
    assert rule([("cat", "toad", 0.0)]).choose(np.log(P[:1]), None, NAMES).tolist() == [2]


@given(st.lists(st.floats(0, 100), min_size=3, max_size=3), st.integers(0, 2**32 - 1))
def test_expected_costs_are_those_of_the_whole_matrix(values, seed):
    p = np.random.default_rng(seed).dirichlet([1, 1, 1], 20)
    costs = [("cat", "dog", values[0]), ("dog", "toad", values[1]), ("toad", "dog", values[2])]
    assert rule(costs).choose(np.log(p), None, NAMES).tolist() == brute_force(p, costs).tolist()


def test_cut_offs_weigh_the_probabilities_that_costs_see():
    bias = -np.log(np.array([1.0, 0.5, 1.0]))
    weighted = P / np.array([1.0, 0.5, 1.0])
    costs = [("cat", "dog", 3.0)]
    found = rule(costs).choose(np.log(P), bias, NAMES)
    assert found.tolist() == brute_force(weighted / weighted.sum(1, keepdims=True), costs).tolist()


def test_an_impossible_class_is_never_predicted_however_cheap():
    log_p = np.log(np.array([[0.6, 0.4, 1e-300]]))
    log_p[0, 2] = -np.inf
    assert rule([("cat", "toad", 0.0), ("dog", "toad", 0.0)]).choose(log_p, None, NAMES).tolist() == [0]


def test_costs_of_answers():
    labels, said = np.array([0, 0, 2, 1]), np.array([0, 1, 0, 2])
    assert rule([("toad", "cat", 5.0)]).cost_of(labels, said, NAMES).tolist() == [0, 1, 5, 1]


def test_a_prediction_below_the_probability_is_withheld():
    assert rule(abstain_below=0.5).abstains(np.array([0.5, 0.49])).tolist() == [False, True]
    assert not rule().abstains(np.array([0.0])).any()


@pytest.mark.parametrize(
    ("costs", "message"),
    [([("cat", "cat", 1.0)], "'cat'. have a cost for being right"), ([("cat", "dog", 1.0)] * 2, "are named twice")],
)
def test_impossible_costs_are_refused(costs, message):
    with pytest.raises(ValueError, match=message):
        rule(costs)


def test_names_are_checked():
    with pytest.raises(ValueError, match=r"\['newt'\] are none\. Its classes are \['cat'"):
        rule([("newt", "cat", 2.0)]).check_names(NAMES)
    with pytest.raises(ValueError, match="no class may have that name"):
        rule(abstain_below=0.5).check_names(("unsure", "sure"))
    rule().check_names(("unsure", "sure"))


def layers(found, bias=None):
    return Layers(PosthocSpec(calibration=NoCalibration()), NAMES, bias=bias, rule=found)


def test_layers_with_a_neutral_rule_are_those_without():
    logits = torch.randn(50, 3, generator=torch.Generator().manual_seed(0))
    plain, ruled = Layers(PosthocSpec(calibration=NoCalibration()), NAMES), layers(rule())
    log_p = ruled.log_probabilities(logits)
    assert torch.equal(log_p, plain.log_probabilities(logits))
    assert torch.equal(ruled.decide(log_p), plain.decide(log_p))
    assert not ruled.unsure(log_p, ruled.decide(log_p)).any()


def test_layers_apply_temperature_costs_and_abstention():
    ruled = layers(rule([("toad", "cat", 5.0)], temperature=2.0, abstain_below=0.4))
    log_p = ruled.log_probabilities(torch.tensor(P).log().float())
    softened = np.sqrt(P) / np.sqrt(P).sum(1, keepdims=True)
    assert np.allclose(log_p.exp().numpy(), softened, atol=1e-6)
    predicted = ruled.decide(log_p)
    assert predicted.tolist() == brute_force(softened, [("toad", "cat", 5.0)]).tolist() == [1, 2, 1]
    assert (
        ruled.unsure(log_p, predicted).tolist()
        == (softened[[0, 1, 2], [1, 2, 1]] < 0.4).tolist()
        == [True, True, False]
    )
    plain = ruled.without_decisions()
    assert plain.decide(log_p).tolist() == [0, 2, 1]
    assert not plain.unsure(log_p, plain.decide(log_p)).any()
    assert plain.rule.temperature == 2.0


@pytest.fixture
def head():
    """A trained head on arrays whose rule has all three parts."""
    plain = some_head()
    found = DecisionRule(temperature=1.5, costs=(Cost(label="a", predicted="b", cost=4.0),), abstain_below=0.6)
    return replace(plain, layers=replace(plain.layers, rule=found))


def test_a_bundle_keeps_the_rule(tmp_path, head):
    save(head, tmp_path / "bundle")
    assert load(tmp_path / "bundle").head.layers.rule == head.layers.rule
    card = json.loads((tmp_path / "bundle" / "card.json").read_text())
    assert (card["format_version"], card["rule"]["abstain_below"]) == (4, 0.6)


def test_a_bundle_of_format_3_has_no_rule(tmp_path):
    save(some_head(), tmp_path / "bundle")
    path = tmp_path / "bundle" / "card.json"
    tree = json.loads(path.read_text())
    del tree["rule"]
    path.write_text(json.dumps(sealed(tree | {"format_version": 3})))
    assert load(tmp_path / "bundle").head.layers.rule == DecisionRule()


def test_a_rule_for_other_classes_is_refused_on_loading(tmp_path, head):
    save(head, tmp_path / "bundle")
    path = tmp_path / "bundle" / "card.json"
    tree = json.loads(path.read_text())
    tree["rule"]["costs"][0]["label"] = "newt"
    path.write_text(json.dumps(sealed(tree)))
    with pytest.raises(ValueError, match=r"Costs must name classes of the head, but \['newt'\]"):
        load(tmp_path / "bundle")


def test_a_member_of_an_ensemble_has_no_costs(head):
    with pytest.raises(ValueError, match="Costs and abstention belong to a single head"):
        Ensemble((some_head(), head))
    assert not Ensemble((some_head(), some_head())).unsure(torch.zeros(2, 3), torch.tensor([0, 1])).any()
