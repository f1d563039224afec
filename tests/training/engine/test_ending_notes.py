"""Notes on a finished run: training that ended too early, and probabilities far from the accuracy."""

import pytest
import torch
from catalogue import BASE, data, merged

from frostbench.benchmarks.api import fit as fit_in_python
from frostbench.training.checks.notes import falling_notes, sureness_notes
from frostbench.training.engine.events import Epoch
from frostbench.training.engine.fit import fit
from frostbench.training.run import RunSpec

LONG = {"train": {"schedule": {"epochs": 40}}}


def losses(tree):
    run = RunSpec.model_validate(merged(BASE, LONG, tree))
    return run, [event.loss for event in fit([run], data()) if isinstance(event, Epoch)]


@pytest.mark.parametrize(("lr", "falls"), [(3e-3, True), (0.3, False)])
@pytest.mark.parametrize("shape", ["cosine", "constant"])
def test_a_loss_that_still_falls_is_noted_for_every_schedule(lr, falls, shape):
    tree = {"train": {"optim": {"lr": lr, "weight_decay": 0.1}, "schedule": {"shape": shape}}}
    run, found = losses(tree)
    assert bool(falling_notes(run, found, 40)) == falls


def test_heads_that_ended_early_or_took_no_steps_get_no_note():
    steep = [1 - k / 100 for k in range(50)]
    assert falling_notes(RunSpec(), steep, 50)
    assert falling_notes(RunSpec(), steep, 30) == ()
    solved = RunSpec.model_validate({"head": {"classifier": {"kind": "lda"}}})
    assert falling_notes(solved, [], 0) == falling_notes(solved, steep, 50) == ()


def test_confidence_far_from_accuracy_is_noted_in_both_directions_and_noise_is_not():
    right = torch.arange(400) % 4 > 0
    assert sureness_notes([0.75] * 400, right.tolist()) == sureness_notes([0.68] * 400, right.tolist()) == ()
    assert "badly overconfident" in sureness_notes([0.95] * 400, right.tolist())[0]
    assert "badly underconfident" in sureness_notes([0.4] * 400, right.tolist())[0]
    # Of eight rows a gap of .2 is noise.
    assert sureness_notes([0.95] * 8, [True] * 6 + [False] * 2) == ()
    assert sureness_notes([], []) == ()


def test_they_reach_a_fit_in_python():
    draw = torch.Generator().manual_seed(0)
    labels = torch.arange(5).repeat_interleave(60)
    x = 3 * torch.eye(5, 16)[labels] + 0.3 * torch.randn(300, 16, generator=draw)
    few = {"train.loss.smoothing.epsilon": 0.5, "posthoc.calibration.kind": "none"}
    head = fit_in_python(x.numpy(), labels.numpy(), few, preset="plain", split={"test": 0})
    (note,) = head.record.notes
    assert "badly underconfident" in note
    assert note in head.warnings
