"""Independent streams of random numbers."""

import torch

STREAMS = ("start", "order", "noise")
"""Purposes of random numbers. Each has its own stream, so that draws for one purpose do not affect another."""
STAGES = 8


def generator(seed: int, stream: str, stage: int, device: torch.device | str = "cpu") -> torch.Generator:
    """Return the generator of a seed for one purpose in one stage; stage 0 is everything before the first stage."""
    return torch.Generator(device).manual_seed((seed * STAGES + stage) * len(STREAMS) + STREAMS.index(stream))
