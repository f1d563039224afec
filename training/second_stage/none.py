"""No second stage."""

from typing import ClassVar, Literal

from frostbench.training.second_stage.protocol import SecondStage


class NoSecondStage(SecondStage):
    """No second stage: the head of the first stage is the result."""

    is_none: ClassVar[bool] = True
    keeps_class_weights: ClassVar[bool] = True
    kind: Literal["none"] = "none"
