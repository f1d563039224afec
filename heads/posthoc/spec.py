"""Specs of the post-hoc layers, which are fitted after training and exported with the head."""

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
from frostbench.heads.posthoc.decisions.rule import ClassName
from frostbench.heads.posthoc.decisions.shift import GivenShift, NoShift, WantedShift
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
"""Values of τ that rule=tuned chooses from."""


class PriorAdjustment(Spec):
    """Subtract tau * log(prior) from the logits of a trained head.

    Menon et al., "Long-tail learning via logit adjustment", ICLR 2021, eq. 9. The prior is the one that the
    trained logits still contain.
    """

    kind: Literal["prior_adjustment"] = "prior_adjustment"
    rule: Literal["fixed", "tuned"] = Field(default="fixed", title="Post-hoc logit adjustment: choice of τ")
    """How τ is chosen: as given (fixed), or among 0, 0.05 .. 1.5 by the early-stopping metric on validation rows."""
    tau: float = Field(default=0.0, ge=0, le=3, title="Post-hoc logit adjustment: strength τ")
    """Multiple of the log prior that is subtracted from the logits with rule=fixed; 1 targets the balanced error."""


class PosthocSpec(Spec):
    """Post-hoc layers on the logits after training, applied in this order."""

    adjustment: PriorAdjustment = Field(default=PriorAdjustment(), title="Post-hoc logit adjustment")
    """Removal of the class prior from the logits."""
    deploy_prior: dict[ClassName, Share] = Field(
        default_factory=dict, max_length=100_000, title="Class shares in deployment"
    )
    """Class shares in deployment, by name; probabilities are adapted to them, or kept if empty."""
    calibration: CalibrationSpec = Field(default=AutoTemperature(), title="Calibration")
    """Calibration of probabilities, after the prior adjustment; auto is a temperature if there are enough rows."""
    thresholds: ThresholdSpec = Field(default=NoThresholds(), title="Decision thresholds")
    """Decision thresholds per class; probabilities do not change."""
    shift: ShiftSpec = Field(default=NoShift(), title="Decision shift")
    """Shifts that favour some classes in decisions, after the thresholds; probabilities do not change."""
    rows: Literal["auto", "calibrate", "select", "both"] = Field(
        default="auto", title="Rows for calibration and decisions"
    )
    """Rows that calibration and decisions are fitted to; auto adds validation rows if there are few calibrate rows."""

    @property
    def reads_rows(self) -> bool:
        """Whether any layer is fitted to labelled rows if they exist."""
        return not isinstance(self.calibration, NoCalibration) or self.needs_rows

    @property
    def needs_rows(self) -> bool:
        """Whether any layer requires labelled rows."""
        is_tuned = isinstance(self.thresholds, CoordinateAscent) or isinstance(self.shift, WantedShift)
        return is_tuned or not isinstance(self.calibration, AutoTemperature | NoCalibration)

    @property
    def decides(self) -> bool:
        """Whether the predicted class may differ from the most probable one."""
        return not isinstance(self.thresholds, NoThresholds) or not isinstance(self.shift, NoShift)

    def named(self) -> dict[str, tuple[str, ...]]:
        """Return the options that name classes, each with its names."""
        names_of = {"posthoc.deploy_prior": tuple(self.deploy_prior)}
        if isinstance(self.shift, GivenShift):
            names_of["posthoc.shift.logits"] = tuple(self.shift.logits)
        if isinstance(self.shift, WantedShift):
            names_of["posthoc.shift.targets"] = tuple(self.shift.targets)
        return {option: names for option, names in names_of.items() if names}

    def deployed(self, class_names: Sequence[str], present: Tensor) -> Tensor | None:
        """Return the configured prior [C] float64 over the trained classes, which present [C] marks, or None.

        Raises:
            ValueError: a trained class has no share, or a share names an unknown class.
        """
        if not self.deploy_prior:
            return None
        trained = [name for name, known in zip(class_names, present.tolist(), strict=True) if known]
        missing = [name for name in trained if name not in self.deploy_prior]
        unknown = sorted(set(self.deploy_prior) - set(class_names))
        if missing or unknown:
            raise ValueError(
                f"A deployment prior must hold a share above 0 for each trained class, but {missing[:10]} are missing "
                f"and {unknown[:10]} are not classes of this table. Correct posthoc.deploy_prior."
            )
        shares = torch.tensor([self.deploy_prior.get(name, 0.0) for name in class_names], dtype=torch.float64)
        shares[~present] = 0
        return shares / shares.sum()
