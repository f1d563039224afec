"""Post-hoc layers: what follows the logits of a trained head, fitted after training and exported with it."""

from collections.abc import Sequence
from typing import Annotated, Literal

import torch
from pydantic import Field
from torch import Tensor

from frostbench.heads.posthoc.calibrators.auto import AutoTemperature
from frostbench.heads.posthoc.calibrators.isotonic import Isotonic
from frostbench.heads.posthoc.calibrators.matrix import Matrix
from frostbench.heads.posthoc.calibrators.none import NoCalibration as NoCalibration
from frostbench.heads.posthoc.calibrators.temperature import Temperature
from frostbench.heads.posthoc.calibrators.temperature import at_bound as at_bound
from frostbench.heads.posthoc.calibrators.temperature import fit_temperature as fit_temperature
from frostbench.heads.posthoc.calibrators.vector import Vector
from frostbench.heads.posthoc.decisions.shift import ClassName, GivenShift, NoShift, WantedShift
from frostbench.heads.posthoc.decisions.thresholds import CoordinateAscent, NoThresholds
from frostbench.heads.spec import Spec

CalibrationSpec = Annotated[
    AutoTemperature | NoCalibration | Temperature | Vector | Matrix | Isotonic,
    Field(discriminator="kind"),
]
ThresholdSpec = Annotated[NoThresholds | CoordinateAscent, Field(discriminator="kind")]
ShiftSpec = Annotated[NoShift | GivenShift | WantedShift, Field(discriminator="kind")]
Share = Annotated[float, Field(gt=0)]
TAUS = tuple(k / 20 for k in range(31))
"""Strengths that a tuned post-hoc adjustment chooses from."""


class PriorAdjustment(Spec):
    """Subtract tau * log(prior) from the logits of a trained head.

    Menon et al., "Long-tail learning via logit adjustment", ICLR 2021, eq. 9. The prior is the one that the
    trained logits still carry.
    """

    kind: Literal["prior_adjustment"] = "prior_adjustment"
    rule: Literal["fixed", "tuned"] = Field(default="fixed", title="Post-hoc logit adjustment: choice of τ")
    """Choice of τ: the given number, or found among 0, 0.05 .. 1.5 by train.early_stop.metric on selection rows."""
    tau: float = Field(default=0.0, ge=0, le=3, title="Post-hoc logit adjustment: strength τ")
    """Share of the log prior taken off the logits where the rule is fixed; 1 suits the balanced error."""


class PosthocSpec(Spec):
    """What is done to the logits after training, in this order."""

    adjustment: PriorAdjustment = Field(default=PriorAdjustment(), title="Post-hoc logit adjustment")
    """Shift of the class prior."""
    deploy_prior: dict[ClassName, Share] = Field(
        default_factory=dict, max_length=100_000, title="Class shares in deployment"
    )
    """Share of each class by name where the head will be used; probabilities are moved to it, and none leaves them."""
    calibration: CalibrationSpec = Field(default=AutoTemperature(), title="Calibration")
    """Calibration of probabilities, after the shift; auto is a temperature where there are rows to fit it to."""
    thresholds: ThresholdSpec = Field(default=NoThresholds(), title="Decision thresholds")
    """Whether each class has a threshold of its own in decisions; probabilities stay."""
    shift: ShiftSpec = Field(default=NoShift(), title="Decision shift")
    """Whether some classes are favoured in decisions, after the thresholds; probabilities stay."""
    rows: Literal["auto", "calibrate", "select", "both"] = Field(
        default="auto", title="Rows for calibration and decisions"
    )
    """Rows that calibration and decisions are fitted to; auto adds selection rows where calibrate has few."""

    @property
    def reads_rows(self) -> bool:
        """Whether something is fitted to labelled rows, if there are any."""
        return not isinstance(self.calibration, NoCalibration) or self.needs_rows

    @property
    def needs_rows(self) -> bool:
        """Whether something must be fitted to labelled rows."""
        is_decided = isinstance(self.thresholds, CoordinateAscent) or isinstance(self.shift, WantedShift)
        return is_decided or not isinstance(self.calibration, AutoTemperature | NoCalibration)

    @property
    def decides(self) -> bool:
        """Whether the predicted class may be another than that of the largest probability."""
        return not isinstance(self.thresholds, NoThresholds) or not isinstance(self.shift, NoShift)

    def named(self) -> dict[str, tuple[str, ...]]:
        """Options that name classes, each with their names."""
        found = {"posthoc.deploy_prior": tuple(self.deploy_prior)}
        if isinstance(self.shift, GivenShift):
            found["posthoc.shift.logits"] = tuple(self.shift.logits)
        if isinstance(self.shift, WantedShift):
            found["posthoc.shift.targets"] = tuple(self.shift.targets)
        return {option: names for option, names in found.items() if names}

    def deployed(self, class_names: Sequence[str], present: Tensor) -> Tensor | None:
        """The stated prior [C] float64 over the trained classes, which present [C] marks; None where none is stated.

        Raises:
            ValueError: a trained class has no share, or a share names no class.
        """
        if not self.deploy_prior:
            return None
        trained = [name for name, known in zip(class_names, present.tolist(), strict=True) if known]
        missing = [name for name in trained if name not in self.deploy_prior]
        unknown = sorted(set(self.deploy_prior) - set(class_names))
        if missing or unknown:
            raise ValueError(
                f"a prior for deployment holds a share above 0 for each trained class, however: {missing[:10]} are "
                f"missing and {unknown[:10]} are no classes of this table. Correct posthoc.deploy_prior."
            )
        shares = torch.tensor([self.deploy_prior.get(name, 0.0) for name in class_names], dtype=torch.float64)
        shares[~present] = 0
        return shares / shares.sum()
