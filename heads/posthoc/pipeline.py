"""The fitted post-hoc layers of a head: from logits to probabilities, and from these to a class."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import torch
from torch import Tensor

from frostbench.heads.posthoc.calibrators.rows import Calibration, checked
from frostbench.heads.posthoc.decisions.shift import GivenShift, NoShift, WantedShift
from frostbench.heads.posthoc.decisions.thresholds import CoordinateAscent, NoThresholds
from frostbench.heads.posthoc.spec import PosthocSpec


@dataclass(frozen=True)
class Layers:
    """What was fitted after training.

    Attributes:
        spec: what was asked for.
        class_names: C names, which shifts name.
        background: indices of the classes that foreground F1 leaves out.
        numbers: of the calibrator; empty where there is none.
        bias: [C] float64 added to log-probabilities before the largest is taken; None where nothing is.
    """

    spec: PosthocSpec = field(default_factory=PosthocSpec)
    class_names: tuple[str, ...] = ()
    background: tuple[int, ...] = ()
    numbers: Mapping[str, Tensor] = field(default_factory=dict)
    bias: Tensor | None = None

    @classmethod
    def of(cls, spec: PosthocSpec, class_names: tuple[str, ...], background: tuple[int, ...] = ()) -> "Layers":
        """Layers with what is stated in them; what is fitted comes with `fitted_to`."""
        empty = cls(spec, class_names, background)
        return replace(empty, bias=empty._given_bias())

    def log_probabilities(self, logits: Tensor) -> Tensor:
        """Calibrated log-probabilities [N, C] of adjusted logits [N, C]."""
        return self.spec.calibration.apply(logits, self.numbers)

    def decide(self, log_p: Tensor) -> Tensor:
        """Predicted classes [N] of log-probabilities [N, C]: the largest of log p - log t + shift.

        >>> p = torch.tensor([[0.5, 0.3, 0.2]])
        >>> Layers(bias=-torch.tensor([0.6, 0.2, 0.3]).log()).decide(p.log())
        tensor([1])
        """
        return (log_p if self.bias is None else log_p.double() + self.bias).argmax(1)

    def without_decisions(self) -> "Layers":
        """The same probabilities, with the class of the largest as the prediction."""
        spec = self.spec.model_copy(update={"thresholds": NoThresholds(), "shift": NoShift()})
        return replace(self, spec=spec, bias=None)

    @property
    def temperature(self) -> float:
        """What logits are divided by; 1 where they are not calibrated, or in another way."""
        found = self.numbers.get("temperature")
        return 1.0 if found is None else float(found)

    def fitted_to(self, rows: Calibration, prior: Tensor | None = None) -> "Layers":
        """The layers fitted anew to rows, weighted as if they came from a class prior [C] where one is given.

        Raises:
            ValueError: there are no rows, a label has logit -inf, a logit is NaN, or a wanted recall or precision
                cannot be reached.
        """
        weight = None if prior is None else rows.weights(prior)
        checked(rows.logits, rows.labels, weight, "what follows training")
        whole = replace(self, numbers=self.spec.calibration.fit(rows.logits, rows.labels, weight))
        return replace(whole, bias=whole._bias(rows, rows.weights(prior)))

    def _bias(self, rows: Calibration, weight: Tensor) -> Tensor | None:
        """Shifts less log thresholds [C] by calibrated probabilities; None where decisions are left alone."""
        spec = self.spec
        if not spec.decides:
            return None
        log_p = self.log_probabilities(rows.logits).double()
        bias = torch.zeros(log_p.shape[1], dtype=torch.float64)
        if isinstance(spec.thresholds, CoordinateAscent):
            bias -= spec.thresholds.fit(log_p, rows.labels, weight, self.background)
        if isinstance(spec.shift, WantedShift):
            return bias + spec.shift.fit(log_p + bias, rows.labels, weight, self.class_names)
        given = self._given_bias()
        return bias if given is None else bias + given

    def _given_bias(self) -> Tensor | None:
        """Shifts [C] that were stated; None where none were."""
        if not isinstance(self.spec.shift, GivenShift):
            return None
        stated = self.spec.shift.logits
        return torch.tensor([stated.get(name, 0.0) for name in self.class_names], dtype=torch.float64)
