import pytest
import torch

from frostbench.training.data.part import Data, Part


def gaussians(counts, dim, seed, spread=2.5):
    generator = torch.Generator().manual_seed(seed)
    centres = 2 * torch.randn(len(counts), dim, generator=torch.Generator().manual_seed(0))
    labels = torch.arange(len(counts)).repeat_interleave(torch.tensor(counts))
    x = centres[labels] + spread * torch.randn(len(labels), dim, generator=generator)
    return Part({"avg": x}, labels)


@pytest.fixture
def long_tail():
    """Four classes of 120, 40, 15 and 5 training rows in 8 dimensions."""
    names = ("ash", "beech", "cedar", "elm")
    even = [30, 30, 30, 30]
    return Data(gaussians([120, 40, 15, 5], 8, 1), gaussians(even, 8, 2), gaussians(even, 8, 3), names)
