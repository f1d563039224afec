"""The zero-shot head: class weights from a text tower, without training rows."""

from collections.abc import Mapping
from typing import Any, ClassVar, Literal

import torch
from pydantic import Field, model_validator

from frostbench.heads.closed_form.fitted import FittedClassifier
from frostbench.heads.file_hash import with_file_hash
from frostbench.heads.fitting_rows import Rows
from frostbench.heads.spec import FILE
from frostbench.heads.stepped.cosine import CosineLayer, fitting, unit_rows
from frostbench.heads.stepped.text_weights import text_weights


class ZeroShot(FittedClassifier):
    """Logits are scale times the cosine between the row and the text embedding of each class's name.

    Radford et al., "Learning transferable visual models from natural language supervision" (CLIP), ICML 2021,
    section 3.1. The rows must be unchanged embeddings of the image tower, in its joint space with the text tower.
    """

    reads_rows: ClassVar[bool] = False
    kind: Literal["zero_shot"] = "zero_shot"
    file: str = Field(default="", max_length=1000, json_schema_extra=FILE, title="Zero-shot: weights file")
    """Path to the .npz file with the arrays weights [C, D] and class_names [C]."""
    sha256: str = Field(default="", max_length=64, title="Zero-shot: SHA-256 of the file")
    """SHA-256 of that file; if empty, it is computed from the file."""
    scale: float = Field(default=100.0, ge=1, le=200, title="Zero-shot: cosine scale")
    """Factor on the cosines: the inverse temperature with which the two towers were trained."""

    @model_validator(mode="before")
    @classmethod
    def _fill_in_the_hash(cls, tree: Any) -> Any:
        return with_file_hash(tree)

    @property
    def knows_prior(self) -> bool:
        """Whether its logits hold the class prior: no, since no rows are counted."""
        return False

    @property
    def weighs_classes(self) -> bool:
        """Whether class weights change it: no, since no rows are read."""
        return False

    @property
    def keeps_space(self) -> bool:
        """Whether it compares vectors with weights from a file."""
        return True

    def check_weights(self, class_names: tuple[str, ...], dim: int) -> None:
        """Check that the file has all classes and this width; see `Classifier`."""
        fitting(text_weights(self.file, self.sha256, class_names), dim, self.file)

    def fit(self, rows: Rows) -> CosineLayer:
        """Return the layer with the file's weights; only the class names and the width of the rows are used.

        Raises:
            ValueError: the file is missing or changed, lacks a class, or has another width than the rows.
        """
        weight = fitting(text_weights(self.file, self.sha256, rows.class_names), rows.x.shape[1], self.file)
        return CosineLayer(unit_rows(weight).unsqueeze(1).to(rows.x.device), self.scale)

    def blank(self, dim: int, classes: int, shapes: Mapping[str, torch.Size]) -> CosineLayer:
        """Return a layer to load numbers into."""
        return CosineLayer(torch.zeros(classes, 1, dim), self.scale)
