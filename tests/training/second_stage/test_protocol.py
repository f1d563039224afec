"""The members of second stages are consistent, and no generic file names a method."""

import re
from pathlib import Path

import pytest
import torch

from frostbench import training
from frostbench.training.checks.rules.second import METHODS
from frostbench.training.second_stage.stepped import SteppedStage
from frostbench.training.spec.optim import Schedule

FIRST = Schedule(epochs=4)
STAGES = [pytest.param(method(), id=method.__name__) for method in METHODS]


@pytest.mark.parametrize("stage", STAGES)
def test_a_stage_is_none_or_takes_steps_or_replaces_or_rescales(stage):
    ways = (stage.is_none, stage.takes_steps, stage.replacement is not None, len(stage.strengths) > 0)
    assert sum(ways) == 1


@pytest.mark.parametrize("stage", STAGES)
def test_steps_have_a_schedule_epochs_and_a_width(stage):
    found = (isinstance(stage, SteppedStage), stage.schedule(FIRST) is not None, stage.epochs_for(FIRST, 640) > 0)
    assert {*found, stage.width(8, 3) > 0, stage.is_judged, stage.draws_alike} == {stage.takes_steps}


@pytest.mark.parametrize("stage", STAGES)
def test_a_fold_leaves_a_stage_without_steps_as_it_is(stage):
    changed = {stage.paced(FIRST, 640), stage.shortened(), stage.kept_at(3)} - {stage}
    assert bool(changed) == stage.takes_steps
    assert stage.given_epoch is None
    assert stage.refuses_folds == ""


@pytest.mark.parametrize("stage", [stage for stage in STAGES if stage.values[0].takes_steps])
def test_a_stage_of_steps_is_paced_cut_short_and_ended(stage):
    paced = stage.paced(FIRST, 640)
    assert paced.epochs == stage.epochs_for(FIRST, 640) > stage.epochs
    assert (stage.shortened().epochs, stage.shortened().metric) == (1, "last")
    assert stage.kept_at(3).given_epoch == 3
    assert not stage.kept_at(3).is_judged
    assert stage.kept_at(3).watched().given_epoch is None
    assert stage.kept_at(0).is_none
    limited = stage.model_copy(update={"max_head_loss": 0.1})
    assert (limited.floor(0.8), limited.floor(None), stage.floor(0.8)) == (pytest.approx(0.7), None, None)
    assert "make a split without folds" in limited.refuses_folds


@pytest.mark.parametrize("stage", STAGES)
def test_a_strength_is_chosen_once(stage):
    given = stage.with_strength(0.7)
    assert given.strengths == ((0.7,) if stage.is_tuned else stage.strengths)
    assert given.with_strength(0.2) == given
    weight = torch.tensor([[3.0, 4], [0, 0.5]])
    assert torch.equal(stage.rescaled(weight, 0.0), weight)


def test_no_generic_file_names_a_method():
    folder = Path(training.__file__).parent
    own = {*(folder / "second_stage").glob("*.py"), folder / "run.py"}
    words = re.compile(rf"\b({'|'.join(method.__name__ for method in METHODS)})\b")
    assert [path.name for path in folder.rglob("*.py") if path not in own and words.search(path.read_text())] == []
