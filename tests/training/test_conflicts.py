import pytest

from training.conflicts import RULES, check
from training.notes import notes_for
from training.run import RunSpec

ADJUSTED = {"train": {"loss": {"logit_adjustment": {"tau": 1}}}}
LOGREG = {"head": {"classifier": {"kind": "logreg"}}}
MLP = {"head": {"body": {"kind": "mlp"}}}
SUPCON = {"train": {"loss": {"supcon": {"weight": 0.35}}}}


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
    (merged(LOGREG, {"train": {"augment": {"noise": 0.1}}}), "train.augment and train.mixup have no effect"),
    (merged(LOGREG, {"train": {"mixup": {"alpha": 1}}}), "train.augment and train.mixup have no effect"),
    ({"train": {"mixup": {"where": "hidden"}}}, "mixup mixes nothing"),
    ({"train": {"mixup": {"alpha": 1, "where": "hidden"}}}, "has no hidden layer"),
    ({"train": {"mixup": {"alpha": 1}, "loss": {"hardmine": {"keep": 0.5}}}}, "hardmine ranks mixed samples"),
    ({"train": {"loss": {"supcon": {"temperature": 0.2}}}}, "supcon has weight 0"),
    ({"second": {"kind": "crt"}}, "keeps nothing of its first stage"),
    (merged(MLP, ADJUSTED, {"second": {"kind": "crt"}}), "acts on the first stage alone"),
    (
        merged(MLP, {"second": {"kind": "crt"}, "posthoc": {"adjustment": {"tau": 1}}}),
        "so posthoc.adjustment has no effect",
    ),
]
REFUSED = [
    ({"head": {"classifier": {"kind": "logreg"}, "body": {"kind": "mlp"}}}, "would stay untrained"),
    ({"head": {"classifier": {"kind": "logreg"}}, "train": {"loss": {"hardmine": {"keep": 0.5}}}}, "has no batches"),
    (SUPCON, "a head without a body has none"),
    (merged(LOGREG, SUPCON), "and logreg is solved on fixed vectors"),
    (merged(LOGREG, {"second": {"kind": "crt"}}), "logreg is solved: use head.classifier.kind=linear or second"),
]
SOUND = [
    {},
    ADJUSTED,
    merged(MLP, SUPCON),
    merged(MLP, {"second": {"kind": "crt"}}),
    {"second": {"kind": "crt", "init": "keep"}},
    merged(MLP, {"second": {"kind": "crt", "sampler": "square_root"}, "posthoc": {"adjustment": {"tau": 1}}}),
    {"train": {"augment": {"noise": 0.1}, "mixup": {"alpha": 0.2}}},
    merged(MLP, {"train": {"mixup": {"alpha": 1, "where": "hidden"}}}),
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


@pytest.mark.parametrize("tree", SOUND, ids=str)
def test_defaults_and_sound_combinations_say_nothing(tree):
    assert check(RunSpec.model_validate(tree)) == ()


CRT = merged(MLP, {"second": {"kind": "crt"}})


@pytest.mark.parametrize(
    ("tree", "words"),
    [
        (
            {"posthoc": {"adjustment": {"tau": 1}}, "train": {"loss": {"class_weight": {"kind": "inverse"}}}},
            "changes nothing",
        ),
        ({"train": {"loss": {"hardmine": {"keep": 0.5}}}}, "distorts probabilities"),
        (
            {"posthoc": {"adjustment": {"tau": 1}}, "train": {"loss": {"smoothing": {"epsilon": 0.1}}}},
            "bounds the logit",
        ),
        (merged(ADJUSTED, {"posthoc": {"adjustment": {"tau": 1}}}), "again after it"),
    ],
)
def test_a_second_stage_carries_nothing_of_the_first_loss(tree, words):
    def told(*trees):
        return [text for text in check(RunSpec.model_validate(merged(*trees))) if words in text]

    assert told(tree)
    assert not told(tree, CRT)


def test_epochs_that_min_steps_overrules_are_told_for_both_stages():
    run = RunSpec.model_validate(merged(CRT, {"train": {"schedule": {"epochs": 10}}}))
    assert [note.split(",")[0] for note in notes_for(run, 640)] == [
        "train.schedule.epochs=10 becomes 100",
        "second.epochs=10 becomes 100",
    ]
    assert notes_for(run, 640_000) == ()
