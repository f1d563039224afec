"""Images of random pixels."""

import numpy as np
import torch

from frostbench.embedcache.backbones import Backbone


def pixels(height: int, width: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 256, (height, width, 3), dtype=np.uint8)


def batch_for(backbone: Backbone, n: int = 2) -> torch.Tensor:
    return torch.stack([backbone.prepare(pixels(90, 70, seed)) for seed in range(n)])
