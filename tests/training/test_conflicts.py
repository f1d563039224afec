import pytest

from training.conflicts import RULES, check
from training.run import RunSpec

ADJUSTED = {"train": {"loss": {"logit_adjustment": {"tau": 1}}}}


def merged(*trees):
    found = {}
    for tree in trees:
        for key, value in tree.items():
            found[key] = merged(found.get(key, {}), value) if isinstance(value, dict) else value
    return found


WARNED = [
    ({"head": {"classifier": {"kind": "logreg"}}, "train": {"optim": {"kind": "adamw", "lr": 0.1}}}, "train.optim and"),
    ({"head": {"classifier": {"kind": "logreg"}}, "train": {"early_stop": {"patience": 3}}}, "train.early_stop has no"),
    (
        merged(
            ADJUSTED, {"train": {"loss": {"logit_adjustment": {"prior": "raw"}, "class_weight": {"kind": "inverse"}}}}
        ),
        "both correct the prior",
    ),
    (merged(ADJUSTED, {"train": {"loss": {"class_weight": {"kind": "inverse"}}}}), "changes nothing"),
    (merged(ADJUSTED, {"train": {"loss": {"smoothing": {"epsilon": 0.1}}}}), "bounds the logit gaps"),
    (merged(ADJUSTED, {"posthoc": {"adjustment": {"tau": 1}}}), "in training and again after it"),
    ({"train": {"loss": {"hardmine": {"keep": 0.5}}}}, "hardmine distorts probabilities"),
]


@pytest.mark.parametrize(("tree", "said"), WARNED)
def test_rare_combinations_are_told(tree, said):
    assert [s for s in check(RunSpec.model_validate(tree)) if said in s]


def test_every_rule_has_a_case():
    refused = 2
    assert len(RULES) == len(WARNED) + refused


def test_defaults_and_sound_combinations_say_nothing():
    assert check(RunSpec()) == ()
    assert check(RunSpec.model_validate(ADJUSTED)) == ()
