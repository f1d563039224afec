"""Patience does not end training before what comes in late has acted."""

import pytest
from catalogue import BASE, data, merged

from training.engine import fit
from training.events import Epoch
from training.run import RunSpec

# Nothing is learnt at this rate, so the first epoch stays the best.
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
def test_it_is_counted_from_when_everything_acts(tree, epochs):
    run = RunSpec.model_validate(merged(BASE, STILL, {"train": tree}))
    assert sum(isinstance(event, Epoch) for event in fit([run], data())) == epochs
