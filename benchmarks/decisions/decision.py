"""The decision that a person chooses for a trained run, as it is sent, stored and exported."""

import math
from collections.abc import Sequence
from typing import Annotated

import numpy as np
import numpy.typing as npt
from pydantic import Field, model_validator

from frostbench.heads.posthoc.decisions.rule import ClassName, Cost, DecisionRule, check_costs
from frostbench.heads.spec import Spec

Share = Annotated[float, Field(ge=0, le=1)]
CutOff = Annotated[float, Field(ge=1e-3, le=1e3)]
MOST_NAMED = 10_000


class Decision(Spec):
    """What is decided from the logits of a head, beyond what the head decides itself; neutral by default.

    Raises:
        pydantic.ValidationError: a field is out of bounds, a class prior is stated twice, or shares exceed 1.
    """

    temperature: float = Field(default=1.0, ge=0.05, le=20)
    """Divisor of the head's calibrated log-probabilities; 1 has no effect."""
    uniform: float = Field(default=0.0, ge=0, le=1)
    """Class prior between the head's own (0) and uniform (1): their normalised weighted geometric mean."""
    shares: dict[ClassName, Share] = Field(default_factory=dict, max_length=MOST_NAMED)
    """Class shares by name; the other classes divide the rest in proportion to the head's own prior."""
    cutoffs: dict[ClassName, CutOff] = Field(default_factory=dict, max_length=MOST_NAMED)
    """Divisors t of the probabilities of named classes before the largest p / t is chosen; 1 has no effect."""
    costs: tuple[Cost, ...] = Field(default=(), max_length=1000)
    """Costs of named confusions; others cost 1, and right answers 0."""
    abstain_below: float = Field(default=0.0, ge=0, le=1)
    """Probability of the predicted class below which there is no answer."""

    @model_validator(mode="after")
    def _check(self) -> "Decision":
        if self.shares and self.uniform:
            raise ValueError(
                f"A class prior is either part of the way to uniform or given by shares, got uniform={self.uniform:g} "
                f"and {len(self.shares)} shares. Set one of them to its neutral value."
            )
        if (total := sum(self.shares.values())) > 1 + 1e-9:
            raise ValueError(f"The shares of classes must sum to at most 1, got {total:g}. Lower some of them.")
        check_costs(self.costs)
        return self

    @property
    def rule(self) -> DecisionRule:
        """The part that a head's decision rule holds."""
        return DecisionRule(temperature=self.temperature, costs=self.costs, abstain_below=self.abstain_below)

    @property
    def has_prior(self) -> bool:
        """Whether a class prior other than the head's own is wanted."""
        return bool(self.shares) or self.uniform > 0

    def check_names(self, class_names: Sequence[str]) -> None:
        """Check that classes are known.

        Raises:
            ValueError: a share, cut-off or cost names an unknown class (see also `DecisionRule.check_names`).
        """
        for what, names in (("Shares", self.shares), ("Cut-offs", self.cutoffs)):
            if unknown := sorted(set(names) - set(class_names)):
                raise ValueError(
                    f"{what} must name classes of the head, but {unknown[:8]} are none. Its classes are "
                    f"{list(class_names[:8])}{' …' if len(class_names) > 8 else ''}."
                )
        self.rule.check_names(class_names)

    def target(self, own: npt.NDArray[np.float64], class_names: Sequence[str]) -> npt.NDArray[np.float64] | None:
        """Return the class prior [C] to predict for, with sum 1, given the head's own [C]; None for the own one.

        Classes with share 0 in the head's own prior keep share 0.

        Raises:
            ValueError: no class that the head can predict has a share.
        """
        if not self.has_prior:
            return None
        known = own > 0
        if self.uniform:
            found = np.where(known, own ** (1 - self.uniform), 0.0)
        else:
            named = np.array([name in self.shares for name in class_names])
            given = np.array([self.shares.get(name, 0.0) for name in class_names])
            others = np.where(named, 0.0, own)
            rest = max(0.0, 1 - given.sum()) / others.sum() if others.sum() > 0 else 0.0
            found = np.where(known, np.where(named, given, others * rest), 0.0)
        if not found.sum() > 0:
            raise ValueError(
                "A class prior needs a share above 0 for a class that the head can predict, but none has one. Give one "
                "of them a share."
            )
        return np.asarray(found / found.sum())

    def offsets(self, class_names: Sequence[str]) -> npt.NDArray[np.float64] | None:
        """Return minus the log cut-offs [C] that are added to log-probabilities, or None without cut-offs."""
        if not self.cutoffs:
            return None
        return np.array([-math.log(self.cutoffs.get(name, 1.0)) for name in class_names])
