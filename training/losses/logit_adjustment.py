"""Logit adjustment in training."""

from collections.abc import Mapping, Sequence
from typing import Annotated, ClassVar, Literal

import torch
from pydantic import Field
from torch import Tensor

from frostbench.heads.spec import SWEPT
from frostbench.training.losses.method import LossMethod
from frostbench.training.rule import Rule

ClassName = Annotated[str, Field(min_length=1, max_length=1000)]
Share = Annotated[float, Field(gt=0)]


class LogitAdjustment(LossMethod):
    """Add tau * log(prior) to the training logits, so that the plain logits become balanced.

    Menon et al., "Long-tail learning via logit adjustment", ICLR 2021, eq. 10; tau 1 is the Balanced Softmax of
    Ren et al., NeurIPS 2020. Predictions do not use the offset. In a head with a free bias the optimum equals that of
    post-hoc logit adjustment.
    """

    group: ClassVar[str] = "Class balance"
    neutral: ClassVar[Mapping[str, float]] = {"tau": 0}
    rules: ClassVar[tuple[Rule, ...]] = (
        Rule(
            "no effect",
            lambda run: (
                run.train.loss.logit_adjustment.prior != "given"
                and bool(run.train.loss.logit_adjustment.given)
                and not run.is_fitted
            ),
            "logit adjustment uses another prior, so the given class shares have no effect: set "
            "train.loss.logit_adjustment.prior=given, or remove them",
        ),
    )
    kind: Literal["logit_adjustment"] = "logit_adjustment"
    tau: float = Field(default=0.0, ge=0, le=3, json_schema_extra=SWEPT, title="Logit adjustment: strength τ")
    """Strength of the prior shift; 0 disables it, 1 is consistent for the balanced error."""
    prior: Literal["effective", "raw", "given"] = Field(default="effective", title="Logit adjustment: class prior")
    """Prior: that of the loss (effective), raw class shares, which correct twice beside weights, or given shares."""
    given: dict[ClassName, Share] = Field(
        default_factory=dict, max_length=100_000, title="Logit adjustment: given class shares"
    )
    """Class shares by name for prior=given, for example those of the population behind the training rows."""

    def __call__(self, logits: Tensor, log_prior: Tensor) -> Tensor:
        """Return logits [N, C] shifted by tau * log_prior [C]."""
        if not isinstance(self.tau, Tensor) and self.tau == 0:
            return logits
        return logits + self.tau * log_prior

    def given_log_prior(self, class_names: Sequence[str], present: Tensor) -> Tensor | None:
        """Return the log of the given prior [C+] over the present classes in float64, or None if it is not used.

        Raises:
            ValueError: a class with training rows has no share, or a share names an unknown class.
        """
        if self.prior != "given" or self.tau == 0:
            return None
        names = [class_names[index] for index in present.tolist()]
        missing, unknown = [n for n in names if n not in self.given], sorted(set(self.given) - set(class_names))
        if missing or unknown:
            raise ValueError(
                f"a given prior needs a share above 0 for each class with training rows, but {missing[:10]} are "
                f"missing and {unknown[:10]} are not classes of this table. Correct train.loss.logit_adjustment.given."
            )
        shares = torch.tensor([self.given[name] for name in names], dtype=torch.float64, device=present.device)
        return (shares / shares.sum()).log()
