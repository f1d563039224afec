"""Rules of what to do next, each with values that a person can check by hand."""

import json
import math
from dataclasses import replace

import pytest

from frostbench.app.workbench.runs.naming import Change
from frostbench.app.workbench.runs.next_steps import choice_rules, data_rules, evidence_rules
from frostbench.app.workbench.runs.next_steps.step import Facts, Side
from frostbench.app.workbench.runs.run_list import Setting, list_settings
from frostbench.benchmarks.runs.record import Evaluation
from frostbench.benchmarks.runs.store import read_record
from frostbench.benchmarks.speed.many_runs import write_many_runs


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """Two runs of 20 classes with 1,000 training, 200 validation and 200 test images."""
    store = tmp_path_factory.mktemp("steps") / "results"
    write_many_runs(store, 2)
    return [Side(one, tuple(read_record(store, key) for key in one.keys)) for one in list_settings([store])[0]]


@pytest.fixture
def facts(made):
    return Facts("plants", *made, settings=tuple(side.setting for side in made), suspects=0, copies=(0, 400))


def with_data(facts, **changes):
    """The facts with other data of B."""
    records = tuple(replace(record, data=replace(record.data, **changes)) for record in facts.b.records)
    return replace(facts, b=replace(facts.b, records=records))


def setting(name, f1, preset="baseline", changes=(), keys=("k",), **more):
    plain = {"id": name, "entry": name, "store": "s", "cache": "c", "data": "d", "seeds": (0,), "members": 0}
    values = {"macro_f1_fg": (f1,)}
    return Setting(**plain | more, name=name, preset=preset, changes=changes, keys=keys, values=values, seconds=0.4)


def test_near_copies_are_counted_among_held_out_images(facts):
    step = data_rules.near_copies(replace(facts, copies=(341, 1225)))
    assert step.title == "341 of 1,225 held-out images have a near-copy in training"
    assert step.text.startswith("That is 27.8 % in the default split")
    assert step.load == {"a": facts.a.setting.id, "b": facts.b.setting.id}
    assert step.set == {"split.duplicates": "0.98"}
    assert data_rules.near_copies(facts) is None
    assert data_rules.near_copies(replace(facts, copies=None)) is None


def test_labels_to_check_say_how_long_it_takes(facts):
    step = data_rules.labels_to_check(replace(facts, suspects=70, checked=3))
    assert step.title == "70 labels disagree with the images around them"
    assert (
        step.text == "That is 5.0 %: wrong, or only hard. The worst 30 take about 4 minutes. 3 labels checked so far."
    )
    assert step.href == "/data?cache=plants#labels"
    assert "The worst 1 take about 1 minute." in data_rules.labels_to_check(replace(facts, suspects=1)).text
    assert data_rules.labels_to_check(facts) is None


def test_data_that_was_not_compared_is_told_once(facts):
    step = data_rules.unchecked_data(replace(facts, suspects=None, copies=None))
    assert step.title == "1,400 images have not been compared with each other"
    assert data_rules.unchecked_data(facts) is None
    assert data_rules.unchecked_data(replace(facts, suspects=None, cache="")) is None


def test_missing_groups_are_told_with_the_number_of_images(facts):
    warned = with_data(facts, warnings=("No groups are given: images of the same object may be in both.",))
    assert data_rules.no_groups(warned).title == "No groups: 200 validation images count as independent"
    assert data_rules.no_groups(facts) is None


def test_classes_below_twenty_images_are_named_smallest_first(facts):
    counts = (19, 20, 3, *([50] * 15), 5, 18)
    step = data_rules.small_classes(with_data(facts, train_counts=counts, background=(4,)))
    assert step.title == "4 of 20 classes with fewer than 20 training images"
    assert step.text.startswith("class 002 (3), class 018 (5), class 019 (18) and 1 more: the scores of these classes")
    assert data_rules.small_classes(with_data(facts, train_counts=counts, background=(0, 2, 18, 19))) is None


def undecided(facts, seeds, **numbers):
    found = {"delta": 0.023, "low": -0.01, "high": 0.05, "verdict": "can't tell", "more_groups": math.nan}
    b = replace(facts.b, setting=replace(facts.b.setting, seeds=tuple(range(seeds))))
    return replace(facts, b=b, difference=found | {"more_seeds": math.nan, "has_groups": False} | numbers)


def test_an_undecided_difference_says_what_would_settle_it(facts):
    step = evidence_rules.more_seeds_or_images(undecided(facts, 3, more_seeds=9.0))
    assert step.title == "2.3 points of macro F1 between A and B, not proven"
    assert step.text == "If it is real, about 9 seeds would show it. There are 3 seeds now."
    assert step.set == {"seeds": "9"}
    images = evidence_rules.more_seeds_or_images(undecided(facts, 3, more_groups=2.5))
    assert images.text == "If it is real, about 2.5 times as many rows would show it. More seeds would not help."
    assert images.href == "/data"
    assert evidence_rules.more_seeds_or_images(undecided(facts, 3)) is None
    assert evidence_rules.more_seeds_or_images(undecided(facts, 3, more_seeds=9.0, verdict="better")) is None
    assert evidence_rules.more_seeds_or_images(facts) is None


def test_one_seed_proves_nothing(facts):
    step = evidence_rules.more_seeds_or_images(undecided(facts, 1, verdict="can't tell (seeds)"))
    assert step.title == "One seed cannot prove the 2.3 points of macro F1 between A and B"
    assert step.set == {"seeds": "3"}


def with_evaluations(facts, **evaluations):
    records = tuple(replace(record, evaluations=evaluations) for record in facts.b.records)
    return replace(facts, b=replace(facts.b, records=records), revealed=frozenset(facts.b.setting.keys))


def test_validation_and_test_disagree_only_beyond_chance_and_if_revealed(facts):
    """80 % and 65 % of 200 each: the standard error is sqrt(.16 / 200 + .2275 / 200) = .0440, so 3.4 of them."""

    def accuracies(select, test):
        return with_evaluations(
            facts, select=Evaluation({"accuracy": select}, {}, ()), test=Evaluation({"accuracy": test}, {}, ())
        )

    step = evidence_rules.validation_and_test(accuracies(0.8, 0.65))
    assert step.title.endswith(": 80.0 % right on validation, 65.0 % on test images")
    assert "3.4 standard errors" in step.text
    assert evidence_rules.validation_and_test(accuracies(0.8, 0.72)) is None
    assert evidence_rules.validation_and_test(replace(accuracies(0.8, 0.65), revealed=frozenset())) is None


def test_calibration_is_proposed_where_a_temperature_helps(facts):
    def ece(before, after, kind="none"):
        calibration = {"before": {"ece": before}, "after": {"ece": after}}
        found = with_evaluations(facts, select=Evaluation({}, {}, (), calibration))
        full = {"posthoc": {"calibration": {"kind": kind}}}
        return replace(found, b=replace(found.b, records=tuple(replace(r, full_spec=full) for r in found.b.records)))

    step = evidence_rules.calibrate(ece(0.12, 0.021))
    assert step.title == "Probabilities are off by 12.0 points on average"
    assert step.text.startswith("With a temperature it would be 2.1.")
    assert step.set == {"b.posthoc.calibration.kind": "temperature"}
    assert evidence_rules.calibrate(ece(0.12, 0.115)) is None
    assert evidence_rules.calibrate(ece(0.12, 0.021, "auto")) is None


def test_a_plain_closed_form_head_that_is_better_is_named(facts):
    ours, ridge = setting("ours", 0.912), setting("ridge", 0.931, "ridge")
    idle = setting("lda", 0.92, "lda", (Change("train.optim.lr", "Learning rate", "0.1", "0.2"),))
    tuned = setting("ridge, alpha 3", 0.95, "ridge", (Change("p", "Alpha", "1", "3"),))
    side = replace(facts.b, setting=ours)
    step = choice_rules.five_line_alternative(replace(facts, b=side, settings=(tuned, ridge, ours)))
    assert step.title == "ridge has 93.1 macro F1, ours 91.2"
    assert step.href == "/compare?store=s&a=ours&b=ridge"
    assert choice_rules.five_line_alternative(replace(facts, b=side, settings=(tuned, ours))) is None
    assert choice_rules.five_line_alternative(replace(facts, b=side, settings=(idle, ours))).title.startswith("lda has")
    worse = replace(facts, b=side, settings=(ours, setting("ridge", 0.9, "ridge")))
    assert choice_rules.five_line_alternative(worse) is None
    itself = replace(facts, b=replace(facts.b, setting=ridge), settings=(ridge, ours))
    assert choice_rules.five_line_alternative(itself).title == "ridge has 93.1 macro F1, ours 91.2"


def grid(facts, values, winner):
    specs = {str(value): {"train.optim.lr": value, "head.classifier.kind": "cosine"} for value in values}
    specs["other kind"] = {"train.optim.lr": 5.0, "head.classifier.kind": "linear"}
    best = setting("best", 0.9, keys=(str(winner),))
    return replace(facts, settings=(best, setting("other", 0.8, keys=("other kind",))), specs=specs)


def test_the_edge_of_a_grid_is_told(facts):
    step = choice_rules.edge_of_grid(grid(facts, (0.001, 0.01, 0.1), 0.1))
    assert step.title == "The best setting is at the edge: Learning rate (train.optim.lr) = 0.1 (largest of 3)"
    assert step.load == {"a": "best", "b": "best"}
    assert choice_rules.edge_of_grid(grid(facts, (0.001, 0.01, 0.1), 0.01)) is None
    assert choice_rules.edge_of_grid(grid(facts, (0.01, 0.1), 0.1)) is None


def test_several_options_are_counted_and_named(facts):
    a, b = facts.a.setting.keys[0], facts.b.setting.keys[0]
    one = {"train.optim.lr": 0.1, "train.ema": 0.5}
    step = choice_rules.several_options(replace(facts, specs={a: one, b: {"train.optim.lr": 0.2}}))
    assert step.title == "A and B differ in 2 options"
    assert step.set == {"train": "changes"}
    assert step.text == "Learning rate, Weight averaging: EMA decay. Try each alone to see which of them matters."
    kinds = {"head.body.kind": "mlp", "head.body.hidden": [9]}
    assert choice_rules.several_options(replace(facts, specs={a: {}, b: kinds})) is None
    assert choice_rules.several_options(replace(facts, specs={a: one, b: one | {"train.ema": 0.9}})) is None


def test_steps_are_json(facts):
    step = data_rules.near_copies(replace(facts, copies=(1, 3)))
    assert json.loads(json.dumps(vars(step)))["title"] == "1 of 3 held-out images has a near-copy in training"
