"""Streams of random numbers."""

import torch

STREAMS = ("start", "order", "noise")
"""What random numbers are for; each has a stream of its own, so that none moves another."""
STAGES = 8


def generator(seed: int, stream: str, stage: int, device: torch.device | str = "cpu") -> torch.Generator:
    """The random numbers of a seed for one purpose in one stage, 0 for what comes before the first."""
    return torch.Generator(device).manual_seed((seed * STAGES + stage) * len(STREAMS) + STREAMS.index(stream))
