"""The LDAM head: a cosine classifier whose training margin is larger for rarer classes."""

from typing import Literal

from pydantic import Field
from torch import Tensor

from frostbench.heads.classifier import Number
from frostbench.heads.spec import SWEPT, empty
from frostbench.heads.stepped.margin import MarginClassifier, class_margins, number, with_own_changed


class Ldam(MarginClassifier):
    """A cosine classifier that lowers the cosine of the true class by max_margin (n_min / n_j)^(1/4) in training.

    Cao et al., "Learning imbalanced datasets with label-distribution-aware margin loss", NeurIPS 2019, eq. 13. The
    margins are differences of cosines; on unbounded logits they would be meaningless. The paper also uses deferred
    class weights.
    """

    kind: Literal["ldam"] = "ldam"
    max_margin: float = Field(
        default=0.5, ge=0, le=1, json_schema_extra=SWEPT, title="LDAM: margin of the rarest class"
    )
    """Margin of the rarest class; more frequent classes get smaller ones."""
    scale: float | None = Field(
        default=30.0, ge=1, le=200, json_schema_extra=SWEPT | empty("by number of classes"), title="LDAM scale"
    )
    """Factor on the cosines; if empty, it is chosen by the number of classes (10 to 30)."""
    init: Literal["random", "class_means"] = Field(default="random", title="LDAM: initial weights")
    """Initial weights: random directions, or the mean direction of each class's rows."""

    @property
    def is_marginless(self) -> bool:
        """Whether its margin is 0."""
        return self.max_margin == 0

    @property
    def favours_rare(self) -> bool:
        """Whether its margins, which grow with rarity, are above 0."""
        return self.max_margin > 0

    def margined(self, logits: Tensor, own: Tensor, counts: Tensor, scale: Number, progress: Number) -> Tensor:
        """Return the logits [N, C+] = scale cos, with the margin on each row's class in own [N]; see `Classifier`."""
        margins = class_margins(self.max_margin, counts, 0.25, logits)[own]
        return with_own_changed(logits, own, -number(scale, logits) * margins)
