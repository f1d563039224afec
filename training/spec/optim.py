"""Optimisers and schedules."""

import math
from typing import Annotated, Literal

from pydantic import Field

from frostbench.heads.spec import SWEPT, Spec


class AdamW(Spec):
    """Adam with decoupled weight decay.

    Loshchilov and Hutter, "Decoupled weight decay regularization", ICLR 2019.
    """

    kind: Literal["adamw"] = "adamw"
    lr: float = Field(default=3e-3, gt=0, le=10, json_schema_extra=SWEPT, title="Learning rate")
    """Peak learning rate."""
    weight_decay: float = Field(default=0.01, ge=0, le=10, json_schema_extra=SWEPT, title="Weight decay")
    """Decoupled decay of the weight matrices; biases and norms are never decayed."""


class Sgd(Spec):
    """Stochastic gradient descent with momentum."""

    kind: Literal["sgd"] = "sgd"
    lr: float = Field(default=0.1, gt=0, le=100, json_schema_extra=SWEPT, title="Learning rate")
    """Peak learning rate."""
    momentum: float = Field(default=0.9, ge=0, lt=1, json_schema_extra=SWEPT, title="Momentum")
    """Share of the last update that is kept in the next one."""
    weight_decay: float = Field(default=0.0, ge=0, le=10, json_schema_extra=SWEPT, title="Weight decay")
    """L2 decay of the weight matrices; biases and norms are never decayed."""


class Schedule(Spec):
    """Length, batch size and learning-rate schedule of a stage."""

    epochs: int = Field(default=50, ge=1, le=100_000, title="Epochs")
    """Passes over the training rows; more if the minimum of steps requires them."""
    min_steps: int = Field(default=1000, ge=0, le=10_000_000, title="Minimum steps")
    """Minimum number of steps, which raises the epochs on a small table; 0 keeps the epochs as they are."""
    batch_size: int = Field(default=64, ge=1, le=1_000_000, title="Batch size")
    """Rows in one step."""
    shape: Literal["cosine", "constant"] = Field(default="cosine", title="Learning-rate schedule")
    """Learning rate after the warm-up: decayed to 0 along a cosine, or constant."""
    warmup: float = Field(default=0.05, ge=0, lt=1, title="Warm-up share")
    """Share of all steps over which the learning rate rises linearly from 0."""

    def epochs_for(self, rows: int, size: int | None = None) -> int:
        """Return the number of epochs for this many training rows, raised if needed to reach min_steps.

        >>> Schedule(epochs=10, batch_size=50, min_steps=100).epochs_for(200)
        25
        """
        return max(self.epochs, math.ceil(self.min_steps / math.ceil(rows / (size or self.batch_size))))

    def factor(self, progress: float) -> float:
        """Return the learning-rate multiplier at a progress from 0 to 1.

        >>> [round(Schedule(warmup=0.2).factor(p), 3) for p in (0.1, 0.2, 0.6, 1.0)]
        [0.5, 1.0, 0.5, 0.0]
        """
        if progress < self.warmup:
            return progress / self.warmup
        past = (progress - self.warmup) / (1 - self.warmup)
        return 0.5 * (1 + math.cos(math.pi * past)) if self.shape == "cosine" else 1.0


OptimSpec = Annotated[AdamW | Sgd, Field(discriminator="kind")]
