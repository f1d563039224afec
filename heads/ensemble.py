"""Ensembles: trained heads that predict with the mean of their probabilities."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import Tensor

from frostbench.heads.shares import Prior
from frostbench.heads.trained import TrainedHead


@dataclass(frozen=True)
class Ensemble:
    """Heads of the same classes, whose probabilities are averaged with equal weights.

    Lakshminarayanan et al., "Simple and scalable predictive uncertainty estimation using deep ensembles", NeurIPS 2017,
    section 2.4: p = mean over members of p_m. The members keep their own calibration; nothing is fitted to the mean,
    whose confidence never exceeds the mean of its members' confidences.

    A member gives probability 0 to a class that it was not trained on. If members have thresholds or shifts, decisions
    use the mean of their log-thresholds and shifts.

    Attributes:
        members: two or more heads, in any order.
        facts: further metadata: runs, metrics, versions.

    Raises:
        ValueError: there are fewer than two members, one has costs or abstains, or they differ in their classes, in a
            view of the same name or in the recipe of a shared column.
    """

    members: tuple[TrainedHead, ...]
    facts: Mapping[str, Any] = field(default_factory=dict, repr=False)

    def __post_init__(self) -> None:
        if len(self.members) < 2:
            raise ValueError(
                f"An ensemble needs at least two members, got {len(self.members)}. Use a single head directly."
            )
        if any(member.layers.rule.decides for member in self.members):
            raise ValueError(
                "Costs and abstention belong to a single head, but a member of an ensemble has some. Use "
                "`head.without_decisions()`, or the head alone."
            )
        for number, member in enumerate(self.members[1:], start=2):
            self._check_like_first(number, member)

    def _check_like_first(self, number: int, member: TrainedHead) -> None:
        if member.class_names != self.class_names:
            names, first = set(member.class_names), set(self.class_names)
            difference = f"lacks {sorted(first - names)[:8]} and also has {sorted(names - first)[:8]}"
            raise ValueError(
                "Members of an ensemble must have the same classes in the same order, but compared with the first, "
                f"member {number} {difference if names != first else 'has another order'}. Use one class list."
            )
        views = {name: how for other in self.members[: number - 1] for name, how in other.views.items()}
        different = sorted(name for name, how in member.views.items() if views.get(name, how) != how)
        if different:
            raise ValueError(
                f"Members of an ensemble must agree on views with the same name, but {different} of member {number} "
                "differ from those of earlier members. Create the view sets under other names."
            )
        for name in member.columns:
            earlier, recipe = (head.recipes.get(name, {}).get("hash") for head in (self, member))
            shared = [other for other in self.members[: number - 1] if name in other.columns]
            if shared and recipe != earlier:
                raise ValueError(
                    f"Members of an ensemble must agree on the recipe of a shared column, but column {name!r} has "
                    f"recipe {recipe} in member {number} and {earlier} in earlier members. Extract its vectors "
                    "with one recipe, or rename the columns."
                )

    @property
    def class_names(self) -> tuple[str, ...]:
        """C names, in the order of the probabilities."""
        return self.members[0].class_names

    @property
    def columns(self) -> tuple[str, ...]:
        """Vector columns that any member reads, without duplicates, in the order of the members."""
        return tuple(dict.fromkeys(name for member in self.members for name in member.columns))

    @property
    def reads(self) -> tuple[str, ...]:
        """Names of all vectors that any member reads, including those of its views, without duplicates."""
        return tuple(dict.fromkeys(name for member in self.members for name in member.reads))

    @property
    def views(self) -> dict[str, Mapping[str, Any]]:
        """Definitions of the views that any member averages over, by name."""
        return {name: how for member in self.members for name, how in member.views.items()}

    def without_views(self) -> "Ensemble":
        """Return the same ensemble without test-time views."""
        return replace(self, members=tuple(member.without_views() for member in self.members))

    @property
    def recipes(self) -> dict[str, Mapping[str, Any]]:
        """Recipe of each column, as in TrainedHead."""
        recipes: dict[str, Mapping[str, Any]] = {}
        for member in self.members:
            recipes |= {name: recipe for name, recipe in member.recipes.items() if name not in recipes}
        return recipes

    @property
    def counts(self) -> Tensor:
        """[C] training rows of each class, the maximum over members."""
        return torch.stack([member.counts for member in self.members]).amax(0)

    def logits(self, columns: Mapping[str, Tensor]) -> Tensor:
        """Return the log of the members' mean uncalibrated probabilities [N, C], which serves as logits."""
        return _log_mean([member.logits(columns).double().log_softmax(1) for member in self.members])

    def log_probabilities(self, columns: Mapping[str, Tensor], prior: Prior | None = None) -> Tensor:
        """Return the log of the members' mean probabilities [N, C] in float64; -inf for classes without training rows.

        Args:
            columns: named vectors [N, D]; each member reads its own.
            prior: class prior to predict for, by name or [C]; None keeps each member's own.

        Raises:
            ValueError: vectors of a member are missing or have another shape, a row is not finite, or the prior is
                invalid for a member (see `TrainedHead.prior_shift`).
        """
        return _log_mean([member.log_probabilities(columns, prior).double() for member in self.members])

    def decide(self, log_p: Tensor) -> Tensor:
        """Return predicted classes [N] of log-probabilities [N, C] plus the mean of the members' decision offsets.

        The offsets of a member without thresholds and shifts are 0.
        """
        biases = [member.layers.bias for member in self.members if member.layers.bias is not None]
        bias = torch.stack(biases).sum(0) / len(self.members) if biases else None
        return (log_p if bias is None else log_p.double() + bias).argmax(1)

    def unsure(self, log_p: Tensor, predicted: Tensor) -> Tensor:
        """Return where the ensemble abstains, bool [N]: nowhere."""
        return torch.zeros_like(predicted, dtype=torch.bool)

    def without_decisions(self) -> "Ensemble":
        """Return the same ensemble without thresholds and shifts: it predicts the most probable class."""
        return replace(self, members=tuple(member.without_decisions() for member in self.members))

    def under(self, prior: Prior | None) -> "Ensemble":
        """Return the ensemble with all members moved to a class prior, by name or [C], or itself if prior is None.

        Raises:
            ValueError: see `TrainedHead.under`.
        """
        return self if prior is None else replace(self, members=tuple(member.under(prior) for member in self.members))

    def uniform_prior(self) -> Tensor:
        """Return the class prior [C] that is uniform over all classes with training rows in any member.

        A member that lacks some of them predicts for a uniform prior over its own classes.
        """
        present = (self.counts > 0).double()
        return present / present.sum()

    def check_recipes(self, recipes: Mapping[str, Mapping[str, Any]]) -> None:
        """Check that vectors have the recipes that the members were trained on.

        Raises:
            ValueError: a column's hash differs or is unknown; the message names the fields that differ.
        """
        for member in self.members:
            member.check_recipes(recipes)


def _log_mean(log_p: list[Tensor]) -> Tensor:
    """Return the log of the mean probabilities [N, C], from each member's log-probabilities [N, C]."""
    return torch.stack(log_p).logsumexp(0) - math.log(len(log_p))


Predictive = TrainedHead | Ensemble
"""A head, or an ensemble whose probabilities are averaged."""
