"""Short runs on 24 rows, cross-validated, and the same by hand."""

from frostbench.training.crossval.crossval import CrossValidated, cross_validate
from frostbench.training.data.part import Data, Part
from frostbench.training.engine.events import Failed, Finished
from frostbench.training.engine.fit import fit
from frostbench.training.run import RunSpec

CLASSES, EACH, DIM, FOLDS = 4, 6, 6, 3
SHORT = {"schedule": {"epochs": 7, "min_steps": 0, "batch_size": 8}, "optim": {"kind": "adamw", "lr": 0.05}}


def run(**tree):
    return RunSpec.model_validate({"train": SHORT} | tree)


def ends(runs, data, folds):
    events = list(cross_validate(runs, data, folds))
    assert not [event for event in events if isinstance(event, Failed)]
    return {event.run: event for event in events if isinstance(event, CrossValidated)}


def parts(data, held):
    """Training data without a fold, which selects: written down anew, as an oracle."""
    x, labels = data.train.columns["avg"], data.train.labels
    inner, outer = Part({"avg": x[~held]}, labels[~held]), Part({"avg": x[held]}, labels[held])
    return Data(inner, outer, outer, data.class_names)


def one(spec, data):
    (end,) = [event for event in fit([spec], data) if isinstance(event, Finished)]
    return end
