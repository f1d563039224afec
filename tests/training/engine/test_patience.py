"""Patience does not end training before all schedules have taken effect."""

import pytest
from catalogue import BASE, MLP, data, merged

from frostbench.training.engine.events import Epoch
from frostbench.training.engine.fit import fit
from frostbench.training.run import RunSpec

# The learning rate is too low to learn anything, so the first epoch stays the best.
STILL = {
    "train": {"schedule": {"epochs": 20}, "optim": {"lr": 1e-12}, "early_stop": {"patience": 3, "metric": "accuracy"}}
}
INVERSE = {"class_weight": {"kind": "inverse"}}


@pytest.mark.parametrize(
    ("tree", "epochs"),
    [
        ({}, 4),
        ({"loss": INVERSE}, 4),
        ({"loss": INVERSE | {"weight_schedule": {"kind": "deferred", "start": 0.5}}}, 13),
        ({"loss": INVERSE | {"weight_schedule": {"kind": "ramp", "start": 0.1, "end": 0.25}}}, 8),
        ({"sampler": {"kind": "shuffled", "draw": "class_balanced"}}, 4),
        ({"sampler": {"kind": "shuffled", "draw": "progressive"}}, 20),
    ],
)
def test_it_is_counted_from_the_pass_at_which_all_schedules_are_in_effect(tree, epochs):
    run = RunSpec.model_validate(merged(BASE, STILL, {"train": tree}))
    assert sum(isinstance(event, Epoch) for event in fit([run], data())) == epochs


@pytest.mark.parametrize(
    ("schedule", "epochs"),
    [
        # 71 rows in batches of 24 are three steps per epoch, so 60 steps raise 10 epochs to 20, and 120 to 40.
        ({"epochs": 10, "min_steps": 60, "warmup": 0}, 1 + 6),
        ({"epochs": 10, "min_steps": 120, "warmup": 0}, 1 + 12),
        ({"epochs": 10, "min_steps": 75, "warmup": 0}, 1 + 8),
        ({"epochs": 20, "min_steps": 0, "warmup": 0.25}, 5 + 3),
        ({"epochs": 20, "min_steps": 0, "warmup": 0.99}, 20),
        ({"epochs": 10, "min_steps": 120, "warmup": 0.5}, 20 + 12),
    ],
)
def test_it_is_scaled_with_the_epochs_and_counted_from_the_end_of_the_warm_up(schedule, epochs):
    run = RunSpec.model_validate(merged(BASE, STILL, {"train": {"schedule": schedule}}))
    assert sum(isinstance(event, Epoch) for event in fit([run], data())) == epochs


@pytest.mark.parametrize(("least", "epochs"), [(0, 1 + 3), (60, 1 + 6)])
def test_a_second_stage_has_the_patience_of_its_own_epochs(least, epochs):
    """The warm-up is a twentieth of 10 or 20 passes."""
    second = {"second": {"kind": "crt", "epochs": 10, "lr": 1e-12, "init": "keep"}}
    still = {"train": {"schedule": {"epochs": 10, "min_steps": least, "warmup": 0.05}}}
    first = {"train": {"early_stop": {"epoch": 1}}}
    run = RunSpec.model_validate(merged(BASE, MLP, STILL, still, first, second))
    assert sum(isinstance(event, Epoch) for event in fit([run], data())) == 1 + epochs
