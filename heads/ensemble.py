"""Ensemble: several trained heads that predict with the mean of their probabilities."""

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
    which is never surer than the mean of its members' confidences.

    A class that a member was not trained on has probability 0 from that member, and so at most the share of the others.
    Where members have thresholds or shifts, the mean of their log-thresholds and shifts decides.

    Attributes:
        members: two heads or more; their order does not matter.
        facts: what else is worth keeping: runs, metrics, versions.

    Raises:
        ValueError: there are fewer than two members, they have other classes, or other recipes of a column they share.
    """

    members: tuple[TrainedHead, ...]
    facts: Mapping[str, Any] = field(default_factory=dict, repr=False)

    def __post_init__(self) -> None:
        if len(self.members) < 2:
            raise ValueError(
                f"an ensemble has two members or more, however: {len(self.members)} came. Use a head alone as it is."
            )
        for number, member in enumerate(self.members[1:], start=2):
            self._check_like_first(number, member)

    def _check_like_first(self, number: int, member: TrainedHead) -> None:
        if member.class_names != self.class_names:
            own, first = set(member.class_names), set(self.class_names)
            told = f"lacks {sorted(first - own)[:8]} and has {sorted(own - first)[:8]} besides"
            raise ValueError(
                f"members of an ensemble have the same classes in the same order, however: member {number} "
                f"{told if own != first else 'has another order'} than the first. Train them on one class list."
            )
        others = {name: how for other in self.members[: number - 1] for name, how in other.views.items()}
        apart = sorted(name for name, how in member.views.items() if others.get(name, how) != how)
        if apart:
            raise ValueError(
                f"members of an ensemble see one and the same view by a name, however: {apart} of member {number} are "
                "made otherwise than those of members before it. Make the view sets under other names."
            )
        for name in member.columns:
            wanted, found = _hash(self.recipes.get(name)), _hash(member.recipes.get(name))
            shared = [other for other in self.members[: number - 1] if name in other.columns]
            if shared and found != wanted:
                raise ValueError(
                    f"members of an ensemble read one and the same column by a name, however: column {name!r} of "
                    f"member {number} is of recipe {found} and that of members before it {wanted}. Extract them with "
                    "one recipe, or give the columns other names."
                )

    @property
    def class_names(self) -> tuple[str, ...]:
        """C names, in the order of the probabilities."""
        return self.members[0].class_names

    @property
    def columns(self) -> tuple[str, ...]:
        """Vector columns that any member reads, each once, in the order of the members."""
        return tuple(dict.fromkeys(name for member in self.members for name in member.columns))

    @property
    def reads(self) -> tuple[str, ...]:
        """Names of all vectors that any member reads, its columns and those of its views, each once."""
        return tuple(dict.fromkeys(name for member in self.members for name in member.reads))

    @property
    def views(self) -> dict[str, Mapping[str, Any]]:
        """How the views that any member averages over are made, by name."""
        return {name: how for member in self.members for name, how in member.views.items()}

    def without_views(self) -> "Ensemble":
        """The same ensemble, which looks at the image alone."""
        return replace(self, members=tuple(member.without_views() for member in self.members))

    @property
    def recipes(self) -> dict[str, Mapping[str, Any]]:
        """Identity of each column, as in TrainedHead."""
        found: dict[str, Mapping[str, Any]] = {}
        for member in self.members:
            found |= {name: recipe for name, recipe in member.recipes.items() if name not in found}
        return found

    @property
    def counts(self) -> Tensor:
        """[C] training rows of each class, of the member with most of them."""
        return torch.stack([member.counts for member in self.members]).amax(0)

    def logits(self, columns: Mapping[str, Tensor]) -> Tensor:
        """Log [N, C] of the mean of the members' probabilities before any calibration; it serves as logits."""
        return _log_mean([member.logits(columns).double().log_softmax(1) for member in self.members])

    def log_probabilities(self, columns: Mapping[str, Tensor], prior: Prior | None = None) -> Tensor:
        """Log [N, C] of the mean of the members' probabilities, in float64; -inf for classes that none was trained on.

        Args:
            columns: named vectors [N, D]; each member takes its own.
            prior: class prior, by name or [C], that each member predicts under; None keeps the one that each carries.

        Raises:
            ValueError: the vectors are not those that a member reads, a row is not finite, or the prior is none for a
                member (see `TrainedHead.prior_shift`).
        """
        return _log_mean([member.log_probabilities(columns, prior).double() for member in self.members])

    def decide(self, log_p: Tensor) -> Tensor:
        """Predicted classes [N] of log-probabilities [N, C], by the mean of what the members add to theirs.

        A member without thresholds or shifts adds 0.
        """
        found = [member.layers.bias for member in self.members if member.layers.bias is not None]
        bias = torch.stack(found).sum(0) / len(self.members) if found else None
        return (log_p if bias is None else log_p.double() + bias).argmax(1)

    def without_decisions(self) -> "Ensemble":
        """The same ensemble, which predicts the class with the largest probability."""
        return replace(self, members=tuple(member.without_decisions() for member in self.members))

    def under(self, prior: Prior | None) -> "Ensemble":
        """The ensemble with each member moved to a class prior, by name or [C]; itself where it is None.

        Raises:
            ValueError: see `TrainedHead.under`.
        """
        return self if prior is None else replace(self, members=tuple(member.under(prior) for member in self.members))

    def uniform_prior(self) -> Tensor:
        """The class prior [C] that is equal over the classes that any member was trained on.

        A member that lacks some of them predicts under the equal prior over those it knows.
        """
        present = (self.counts > 0).double()
        return present / present.sum()

    def check_recipes(self, recipes: Mapping[str, Mapping[str, Any]]) -> None:
        """Refuse vectors that were made by another recipe.

        Raises:
            ValueError: a column's hash differs or is not known; the message names the fields that differ.
        """
        for member in self.members:
            member.check_recipes(recipes)


def _log_mean(log_p: list[Tensor]) -> Tensor:
    """Log of the mean of probabilities, from the log [N, C] of each."""
    return torch.stack(log_p).logsumexp(0) - math.log(len(log_p))


def _hash(recipe: Mapping[str, Any] | None) -> Any:
    return None if recipe is None else recipe.get("hash")


Predictive = TrainedHead | Ensemble
"""What predicts: a head, or several whose probabilities are averaged."""
