"""The fitted post-hoc layers of a head: from logits to probabilities to a class."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import torch
from torch import Tensor

from frostbench.heads.posthoc.calibrators.rows import Calibration, checked
from frostbench.heads.posthoc.decisions.rule import DecisionRule
from frostbench.heads.posthoc.decisions.shift import GivenShift, NoShift, WantedShift
from frostbench.heads.posthoc.decisions.thresholds import CoordinateAscent, NoThresholds
from frostbench.heads.posthoc.spec import PosthocSpec


@dataclass(frozen=True)
class Layers:
    """Post-hoc layers, fitted after training.

    Attributes:
        spec: the configured layers.
        class_names: C names, to which shifts refer.
        background: indices of classes that foreground F1 excludes.
        numbers: parameters of the calibrator, or empty.
        bias: [C] float64 that is added to log-probabilities before the largest is chosen, or None.
        rule: an extra temperature, costs of confusions, and abstention; neutral by default.
    """

    spec: PosthocSpec = field(default_factory=PosthocSpec)
    class_names: tuple[str, ...] = ()
    background: tuple[int, ...] = ()
    numbers: Mapping[str, Tensor] = field(default_factory=dict)
    bias: Tensor | None = None
    rule: DecisionRule = field(default_factory=DecisionRule)

    @classmethod
    def of(cls, spec: PosthocSpec, class_names: tuple[str, ...], background: tuple[int, ...] = ()) -> "Layers":
        """Build unfitted layers, whose only decision offsets are given shifts; `fitted_to` fits the others."""
        empty = cls(spec, class_names, background)
        return replace(empty, bias=empty._given_bias())

    def log_probabilities(self, logits: Tensor) -> Tensor:
        """Return calibrated log-probabilities [N, C] of adjusted logits [N, C]."""
        log_p = self.spec.calibration.apply(logits, self.numbers)
        extra = self.rule.temperature
        return log_p if extra == 1 else (log_p.double() / extra).log_softmax(1)

    def decide(self, log_p: Tensor) -> Tensor:
        """Return predicted classes [N] of log-probabilities [N, C]: the largest of log p - log t + shift.

        With costs, the class with the lowest expected cost is predicted instead (see `DecisionRule`).

        >>> p = torch.tensor([[0.5, 0.3, 0.2]])
        >>> Layers(bias=-torch.tensor([0.6, 0.2, 0.3]).log()).decide(p.log())
        tensor([1])
        """
        if self.rule.costs:
            bias = None if self.bias is None else self.bias.numpy()
            chosen = self.rule.choose(log_p.cpu().numpy(), bias, self.class_names)
            return torch.from_numpy(chosen).to(log_p.device)
        return (log_p if self.bias is None else log_p.double() + self.bias).argmax(1)

    def unsure(self, log_p: Tensor, predicted: Tensor) -> Tensor:
        """Return where the head abstains, bool [N], for log-probabilities [N, C] and predicted classes [N]."""
        return log_p.gather(1, predicted[:, None]).squeeze(1).exp() < self.rule.abstain_below

    def without_decisions(self) -> "Layers":
        """Return the same layers without thresholds, shifts, costs and abstention: the most probable class wins."""
        spec = self.spec.model_copy(update={"thresholds": NoThresholds(), "shift": NoShift()})
        return replace(self, spec=spec, bias=None, rule=DecisionRule(temperature=self.rule.temperature))

    @property
    def temperature(self) -> float:
        """Divisor of the logits; 1 without temperature scaling."""
        return float(self.numbers.get("temperature", 1.0))

    def fitted_to(self, rows: Calibration, prior: Tensor | None = None) -> "Layers":
        """Return the layers refitted to rows, weighted to represent a class prior [C] if given.

        Raises:
            ValueError: there are no rows, a label has logit -inf, a logit is NaN or +inf, thresholds have no row to
                average over, or a required recall or precision cannot be reached.
        """
        weight = None if prior is None else rows.weights(prior)
        checked(rows.logits, rows.labels, weight, "calibration and decisions")
        calibrated = replace(self, numbers=self.spec.calibration.fit(rows.logits, rows.labels, weight))
        return replace(calibrated, bias=calibrated._bias(rows, rows.weights(prior)))

    def _bias(self, rows: Calibration, weight: Tensor) -> Tensor | None:
        """Fit shifts minus log thresholds [C] to calibrated probabilities; None without decision layers."""
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
        """Return the given shifts [C], or None."""
        if not isinstance(self.spec.shift, GivenShift):
            return None
        given = self.spec.shift.logits
        return torch.tensor([given.get(name, 0.0) for name in self.class_names], dtype=torch.float64)
