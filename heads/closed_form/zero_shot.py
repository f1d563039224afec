"""The zero-shot head: class weights from a text tower, and no training rows at all."""

import math
from collections.abc import Mapping
from typing import Any, ClassVar, Literal

import torch
from pydantic import Field, model_validator
from torch import Tensor

from frostbench.heads.classifier import Classifier
from frostbench.heads.fitting_rows import Rows
from frostbench.heads.spec import FILE
from frostbench.heads.stepped.cosine import CosineLayer, fitting, unit_rows
from frostbench.heads.stepped.text_weights import text_weights, with_file_hash


class ZeroShot(Classifier):
    """Logits are scale times the cosine between the row and the text embedding of each class's name.

    Radford et al., "Learning transferable visual models from natural language supervision" (CLIP), ICML 2021,
    section 3.1. The rows must lie in the joint space of the text tower, as they come from the image tower.
    """

    is_closed_form: ClassVar[bool] = True
    minimises_loss: ClassVar[bool] = False
    reads_rows: ClassVar[bool] = False
    kind: Literal["zero_shot"] = "zero_shot"
    file: str = Field(default="", max_length=1000, json_schema_extra=FILE, title="Zero-shot: weights file")
    """The .npz file with the arrays weights [C, D] and class_names [C]."""
    sha256: str = Field(default="", max_length=64, title="Zero-shot: SHA-256 of the file")
    """SHA-256 of that file; left empty, it is taken from the file."""
    scale: float = Field(default=100.0, ge=1, le=200, title="Zero-shot: cosine scale")
    """Factor on the cosines: the inverse temperature of the two towers."""

    @model_validator(mode="before")
    @classmethod
    def _note_the_hash(cls, tree: Any) -> Any:
        return with_file_hash(tree)

    @property
    def knows_prior(self) -> bool:
        """Whether its logits hold the class prior: no row was counted."""
        return False

    @property
    def weighs_classes(self) -> bool:
        """Whether class weights change it: no row is read."""
        return False

    @property
    def keeps_space(self) -> bool:
        """Whether it compares vectors with weights from a file: always."""
        return True

    def check_weights(self, class_names: tuple[str, ...], dim: int) -> None:
        """Refuse classes or a width that the file does not have.

        Raises:
            ValueError: the file is missing, has changed, lacks a class, or has another width.
        """
        fitting(text_weights(self.file, self.sha256, class_names), dim, self.file)

    def fit(self, rows: Rows) -> CosineLayer:
        """The layer with the file's weights; of the rows only the class names and the width matter.

        Raises:
            ValueError: the file is missing, has changed, lacks a class, or has another width than the rows.
        """
        weight = fitting(text_weights(self.file, self.sha256, rows.class_names), rows.x.shape[1], self.file)
        return CosineLayer(unit_rows(weight).unsqueeze(1).to(rows.x.device), self.scale)

    def carried(self, log_prior: Tensor) -> Tensor:
        """The prior in the logits: uniform, since no row was counted."""
        return torch.full_like(log_prior, -math.log(len(log_prior)))

    def blank(self, dim: int, classes: int, shapes: Mapping[str, torch.Size]) -> CosineLayer:
        """A layer whose numbers are still to be loaded."""
        return CosineLayer(torch.zeros(classes, 1, dim), self.scale)
