"""Fixtures: 24 rows of four classes, and their folds."""

import pytest
import torch
from crossval_runs import CLASSES, DIM, EACH, FOLDS

from frostbench.training.data.part import Data, Part


@pytest.fixture
def data():
    generator = torch.Generator().manual_seed(3)
    centres = torch.randn(CLASSES, DIM, generator=generator)
    labels = torch.arange(CLASSES).repeat_interleave(EACH)
    x = centres[labels] + 1.2 * torch.randn(len(labels), DIM, generator=generator)
    nothing = Part({"avg": x[:0]}, labels[:0])
    return Data(Part({"avg": x}, labels), nothing, nothing, ("ash", "beech", "cedar", "elm"))


@pytest.fixture
def folds():
    """Return two repeats of three folds, each with two rows of a class."""
    row = torch.arange(CLASSES * EACH)
    return torch.stack([row % FOLDS, row // 2 % FOLDS])
