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
    (
        {"posthoc": {"adjustment": {"tau": 1}}, "train": {"loss": {"class_weight": {"kind": "inverse"}}}},
        "so posthoc.adjustment changes nothing",
    ),
    ({"train": {"loss": {"hardmine": {"warm": 0.5}}}}, "hardmine keeps every sample"),
    ({"train": {"loss": {"logit_adjustment": {"prior": "raw"}}}}, "logit adjustment has strength 0"),
    ({"train": {"loss": {"smoothing": {"spread": "prior"}}}}, "label smoothing moves nothing"),
    (
        {"train": {"loss": {"class_weight": {"kind": "effective", "beta_rule": "auto", "beta": 0.9}}}},
        "so the beta given has no effect",
    ),
]
REFUSED = [
    ({"head": {"classifier": {"kind": "logreg"}, "body": {"kind": "mlp"}}}, "would stay untrained"),
    ({"head": {"classifier": {"kind": "logreg"}}, "train": {"loss": {"hardmine": {"keep": 0.5}}}}, "has no batches"),
]


@pytest.mark.parametrize(("tree", "said"), WARNED)
def test_rare_combinations_are_told(tree, said):
    assert [s for s in check(RunSpec.model_validate(tree)) if said in s]


@pytest.mark.parametrize(("tree", "said"), REFUSED)
def test_combinations_without_meaning_are_refused(tree, said):
    with pytest.raises(ValueError, match=said):
        check(RunSpec.model_validate(tree))


def test_every_rule_has_a_case():
    said = [words for _, words in WARNED + REFUSED]
    assert [rule.sentence for rule in RULES if not any(words in rule.sentence for words in said)] == []


def test_defaults_and_sound_combinations_say_nothing():
    assert check(RunSpec()) == ()
    assert check(RunSpec.model_validate(ADJUSTED)) == ()
