"""What is said of corrections of the class frequencies that leave one another nothing to do."""

import math

import pytest
import torch

from frostbench.benchmarks.settings.parsing import parse, preset, with_changes
from frostbench.training.checks.corrections import correction_notes
from frostbench.training.run import RunSpec

LABELS = torch.arange(3).repeat_interleave(torch.tensor([900, 90, 10]))
"""100 to 1, so that the whole prior spans ln 90 between the largest and the smallest class."""

ADJUSTMENT = "train.loss.logit_adjustment moves no logit relative to another by more than"
WEIGHTS = "class weights of kind effective differ by at most a factor of"


def notes(changes, labels=LABELS, groups=None):
    return correction_notes(parse(RunSpec, with_changes({}, changes)), labels, 3, groups)


def test_effective_weights_leave_logit_adjustment_nothing():
    run = parse(RunSpec, with_changes(preset("baseline"), {"train.loss.logit_adjustment.tau": 1.0}))
    (note,) = correction_notes(run, LABELS, 3)
    # w ~ 1 / (1 - b^n), so that the effective prior is n / (1 - b^n), whose log spans this:
    exact = math.log(900 / (1 - 0.9999**900)) - math.log(10 / (1 - 0.9999**10))
    assert exact == pytest.approx(0.0442, abs=1e-4)
    assert note.startswith(f"{ADJUSTMENT} {exact:.2g} (4.5 ")
    assert note.endswith("use one of them, such as train.loss.class_weight.kind=none")


def test_adjustment_that_has_something_to_do_is_left_in_peace():
    assert notes({"train.loss.logit_adjustment.tau": 1.0}) == ()
    mild = {"train.loss.class_weight.kind": "sqrt_inverse", "train.loss.logit_adjustment.tau": 1.0}
    assert notes(mild) == ()
    raw = {"train.loss.class_weight.kind": "effective", "train.loss.logit_adjustment.prior": "raw"}
    assert notes(raw | {"train.loss.logit_adjustment.tau": 1.0}) == ()


def test_weights_and_a_sampler_that_cancel_the_prior_together():
    both = {"train.loss.class_weight.kind": "sqrt_inverse", "train.sampler.draw": "square_root"}
    (note,) = notes(both | {"train.loss.logit_adjustment.tau": 1.0})
    assert note.startswith(f"{ADJUSTMENT} 0 (4.5 without class weights and the sampler), because ")


def test_adjustment_after_training_is_judged_by_the_prior_that_is_left():
    fixed = {"train.loss.class_weight.kind": "effective", "posthoc.adjustment.tau": 0.5}
    (note,) = notes(fixed)
    assert note.startswith("posthoc.adjustment moves no logit relative to another by more than 0.022 (2.2 ")
    tuned = {"train.loss.class_weight.kind": "effective", "posthoc.adjustment.rule": "tuned"}
    (note,) = notes(tuned)
    assert note.startswith("posthoc.adjustment moves no logit relative to another by more than 0.066 (6.7 ")
    assert notes({"posthoc.adjustment.tau": 0.5}) == ()


def test_classes_of_one_size_leave_nothing_to_adjust():
    (note,) = notes({"train.loss.logit_adjustment.tau": 1.0}, torch.arange(3).repeat(20))
    assert note == f"{ADJUSTMENT} 0, because the classes have nearly the same size: there is nothing to correct"
    assert notes({"train.loss.class_weight.kind": "effective"}, torch.arange(3).repeat(20)) == ()


def test_class_weights_that_hardly_differ():
    weak = {"train.loss.class_weight": {"kind": "effective", "beta": 0.5}}
    (note,) = notes(weak)
    assert note.startswith(f"{WEIGHTS} 1, although class sizes differ by a factor of 90, so ")


def test_weights_that_count_groups_are_judged_by_groups():
    # Each class has ten groups, so that weights by groups leave the whole prior to the adjustment.
    groups = torch.cat([torch.arange(900) % 10, 10 + torch.arange(90) % 10, 20 + torch.arange(10)])
    asked = {"train.loss.class_weight.kind": "effective", "train.loss.logit_adjustment.tau": 1.0}
    assert len(notes(asked, groups=groups)) == 1
    (told,) = notes(asked | {"train.loss.count": "groups"}, groups=groups)
    assert told.startswith(f"{WEIGHTS} 1,")


def test_solved_heads_without_a_loss_say_nothing():
    assert notes({"head.classifier.kind": "lda"}) == ()
