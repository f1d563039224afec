"""What follows calibration and thresholds: an extra temperature, costs of confusions, and abstention; numpy only."""

from collections import Counter
from collections.abc import Sequence
from typing import Annotated, Any

import numpy as np
import numpy.typing as npt
from pydantic import Field, model_validator

from frostbench.heads.spec import Spec

Floats = npt.NDArray[np.floating[Any]]
Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]
ClassName = Annotated[str, Field(min_length=1, max_length=1000)]
UNSURE = "unsure"
"""What predictions say in place of a class where the head abstains."""


class Cost(Spec):
    """The cost of one confusion; confusions that are not named cost 1, and right answers 0."""

    label: ClassName
    """True class."""
    predicted: ClassName
    """Class that is predicted instead."""
    cost: float = Field(ge=0, le=1e6)
    """Cost, relative to a confusion that is not named."""


def check_costs(costs: Sequence[Cost]) -> None:
    """Check named costs.

    Raises:
        ValueError: a right answer has a cost, or a confusion is named twice.
    """
    pairs = [(one.label, one.predicted) for one in costs]
    right = sorted({label for label, predicted in pairs if label == predicted})
    twice = sorted(pair for pair, times in Counter(pairs).items() if times > 1)
    if right or twice:
        raise ValueError(
            f"A right answer costs 0 and each confusion has one cost, but {right[:8]} have a cost for being right and "
            f"{twice[:8]} are named twice. Remove these costs."
        )


class DecisionRule(Spec):
    """Temperature, costs and abstention, applied to calibrated log-probabilities.

    With costs, the class with the lowest expected cost is predicted: argmin_k sum_j p_j C[j, k] (Elkan, "The
    foundations of cost-sensitive learning", IJCAI 2001, eq. 1). Thresholds and shifts reweight p before. A prediction
    whose probability is below `abstain_below` is withheld (Chow, "On optimum recognition error and reject tradeoff",
    IEEE Transactions on Information Theory, 1970).

    Raises:
        pydantic.ValidationError: a right answer has a cost, or a confusion is named twice.
    """

    tier = "experimental"

    temperature: float = Field(default=1.0, ge=0.05, le=20)
    """Divisor of the calibrated log-probabilities, which are then normalised again; 1 has no effect."""
    costs: tuple[Cost, ...] = Field(default=(), max_length=1000)
    """Costs of named confusions."""
    abstain_below: float = Field(default=0.0, ge=0, le=1)
    """Probability of the predicted class below which the head abstains; 0 always answers."""

    @model_validator(mode="after")
    def _check_costs(self) -> "DecisionRule":
        check_costs(self.costs)
        return self

    def check_names(self, class_names: Sequence[str]) -> None:
        """Check the rule against the classes of a head.

        Raises:
            ValueError: a cost names an unknown class, or the head abstains and has a class called `unsure`.
        """
        named = {name for one in self.costs for name in (one.label, one.predicted)}
        if unknown := sorted(named - set(class_names)):
            raise ValueError(
                f"Costs must name classes of the head, but {unknown[:8]} are none. Its classes are "
                f"{list(class_names[:8])}{' …' if len(class_names) > 8 else ''}."
            )
        if self.abstain_below > 0 and UNSURE in class_names:
            raise ValueError(
                f"A head that abstains says {UNSURE!r}, so no class may have that name, but one has. Rename the class, "
                "or set abstain_below to 0."
            )

    @property
    def decides(self) -> bool:
        """Whether a prediction may differ from the largest score."""
        return bool(self.costs) or self.abstain_below > 0

    def choose(self, log_p: Floats, bias: Floats | None, class_names: Sequence[str]) -> Ints:
        """Return predicted classes [N] of log-probabilities [N, C].

        Args:
            log_p: log-probabilities [N, C].
            bias: shifts minus log thresholds [C] float64, or None.
            class_names: C names, to which costs refer.
        """
        scores = log_p if bias is None else log_p.astype(np.float64) + bias
        if not self.costs:
            return np.asarray(scores.argmax(1))
        index = {name: i for i, name in enumerate(class_names)}
        weight = np.exp((scores - scores.max(1, keepdims=True)).astype(log_p.dtype, copy=False))
        # sum_j w_j C[j, k] is the total weight without w_k, corrected for the named confusions.
        expected = weight.sum(1, keepdims=True) - weight
        for one in self.costs:
            expected[:, index[one.predicted]] += weight[:, index[one.label]] * (one.cost - 1)
        impossible = scores == -np.inf  # never predicted, however cheap it is
        if impossible.any():
            expected[impossible] = np.inf
        return np.asarray(expected.argmin(1))

    def abstains(self, probability: Floats) -> Bools:
        """Return where the head abstains, from the probability [N] of the predicted class."""
        return np.asarray(probability < self.abstain_below)

    def cost_of(self, labels: Ints, predicted: Ints, class_names: Sequence[str]) -> npt.NDArray[np.float64]:
        """Return the cost [N] of predicted classes [N] against labels [N]."""
        index = {name: i for i, name in enumerate(class_names)}
        costs: npt.NDArray[np.float64] = (labels != predicted).astype(np.float64)
        for one in self.costs:
            costs[(labels == index[one.label]) & (predicted == index[one.predicted])] = one.cost
        return costs
