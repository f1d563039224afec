"""Refit: a closed-form classifier such as logreg replaces the trained one."""

from typing import ClassVar, Literal

from pydantic import Field

from frostbench.heads.closed_form.nearest_mean import NearestMean
from frostbench.heads.head import Closed, ClosedSpec
from frostbench.heads.spec import Tier
from frostbench.training.rule import Rule
from frostbench.training.second_stage.protocol import SecondStage


class Refit(SecondStage):
    """Replace the trained classifier by one without gradient steps, fitted to the output of the frozen body.

    With ncm it is the nearest class mean of Kang et al., ICLR 2020, section 4.1; after a contrastive loss it is the
    two-stage training of Khosla et al., "Supervised contrastive learning", NeurIPS 2020.
    """

    tier: ClassVar[Tier] = "experimental"
    trains_classifier: ClassVar[bool] = True
    keeps_class_weights: ClassVar[bool] = True
    needs_all_rows: ClassVar[bool] = True
    needs_own_labels: ClassVar[bool] = True
    rules: ClassVar[tuple[Rule, ...]] = (
        Rule(
            "warn",
            lambda run: isinstance(run.second, Refit) and run.is_bare,
            "a head without a body keeps nothing of its first stage under refit: use head.body.kind=mlp, or use "
            "second.classifier as head.classifier",
        ),
    )
    kind: Literal["refit"] = "refit"
    classifier: ClosedSpec = Field(default=NearestMean(), title="Second stage: classifier")
    """Closed-form classifier, such as ncm or logreg, that replaces the trained one."""

    @property
    def replacement(self) -> Closed:
        """The classifier that replaces the trained one."""
        return self.classifier
