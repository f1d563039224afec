"""Trained heads: the result of training and the content of an export."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import Tensor

from frostbench.heads.bodies.attention_pool import Pool
from frostbench.heads.head import Head, HeadSpec
from frostbench.heads.posthoc.calibrators.rows import Calibration as Calibration
from frostbench.heads.posthoc.calibrators.warnings import calibration_warnings
from frostbench.heads.posthoc.pipeline import Layers
from frostbench.heads.shares import Prior, shares_of
from frostbench.heads.vectors import joined


@dataclass(frozen=True)
class Priors:
    """Class priors of a head: each [C] float64 with sum 1, and 0 for classes without training rows.

    Attributes:
        counts: [C] int64 training rows.
        raw: shares of the training rows, including synthetic ones.
        effective: the prior seen by the classifier's loss, after class weights and sampling.
        implied: the prior that the exported logits contain, after all logit adjustments.
    """

    counts: Tensor
    raw: Tensor
    effective: Tensor
    implied: Tensor

    @property
    def present(self) -> Tensor:
        """[C] bool: classes with training rows, which alone can be predicted."""
        return self.counts > 0


def view_column(column: str, view: str) -> str:
    """Return the name of a column for a view.

    >>> view_column("cls", "flip#0")
    'cls@flip#0'
    """
    return f"{column}@{view}"


def of_view(vectors: Mapping[str, Tensor], columns: Sequence[str], view: str) -> dict[str, Tensor]:
    """Return the columns of a view, under their plain names.

    Raises:
        ValueError: a column is missing.
    """
    missing = [column for column in columns if view_column(column, view) not in vectors]
    if missing:
        raise ValueError(
            f"This head averages its logits over views, but {missing} of view {view!r} are missing. Pass the vectors "
            "of its views as COLUMN@VIEW, or use the head without views."
        )
    return {column: vectors[view_column(column, view)] for column in columns}


@dataclass(frozen=True, repr=False)
class TrainedHead:
    """A fitted head with everything that inference needs.

    Attributes:
        spec: the spec of the head.
        head: the module, in evaluation mode.
        columns: names of the vector columns that it reads, concatenated in this order.
        class_names: C names, in the order of the logits.
        priors: class priors.
        shift: [C] float32 that is subtracted from the logits (post-hoc adjustment, another prior), or 0.
        layers: calibration and decisions for the head's own prior.
        calibration: rows that the layers are fitted to, or None.
        recipes: recipe of each vector column, with its hash under "hash"; empty until known.
        views: definitions of test-time views by name. Their vectors are read as columns COLUMN@NAME, and logits are
            averaged over the image and all views; empty without views.
        facts: further metadata: run spec, metrics, versions.
    """

    spec: HeadSpec
    head: Head
    columns: tuple[str, ...]
    class_names: tuple[str, ...]
    priors: Priors
    shift: Tensor
    layers: Layers = field(default_factory=Layers)
    calibration: Calibration | None = None
    recipes: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    views: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    facts: Mapping[str, Any] = field(default_factory=dict)

    def __repr__(self) -> str:
        kinds, width = f"{self.spec.classifier.kind} on {self.spec.body.kind}", len(self.head.preprocess.mean)
        reads = f"{', '.join(self.columns)} [{width}]"
        return f"<TrainedHead: {kinds}, reads {reads}, {len(self.class_names)} classes>"

    @property
    def reads(self) -> tuple[str, ...]:
        """Names of all vectors that it reads: its columns, and those of each view."""
        return (*self.columns, *(view_column(name, view) for view in self.views for name in self.columns))

    @property
    def counts(self) -> Tensor:
        """[C] training rows of each class."""
        return self.priors.counts

    @property
    def temperature(self) -> float:
        """Divisor of the logits; 1 without temperature scaling."""
        return self.layers.temperature

    @property
    def warnings(self) -> tuple[str, ...]:
        """Warnings about its probabilities."""
        return calibration_warnings(self.layers.spec, self.temperature, self.calibration)

    def features(self, columns: Mapping[str, Tensor]) -> Tensor:
        """Return the head's input, its columns concatenated to [N, D], or to tokens [N, T, D].

        Raises:
            ValueError: vectors are missing or not finite, or have another shape; see `frostbench.heads.vectors.joined`.
        """
        width = len(self.head.preprocess.mean)
        return joined(columns, self.columns, width, isinstance(self.head.body, Pool))

    @torch.inference_mode()
    def logits(self, columns: Mapping[str, Tensor]) -> Tensor:
        """Return the adjusted logits [N, C] before calibration; -inf for classes without training rows.

        If the head has views, logits are averaged over the image and its views.
        """
        raw: Tensor = self.head(self.features(columns))
        if self.views:
            of_views = [self.head(self.features(of_view(columns, self.columns, view))) for view in self.views]
            raw = torch.stack([raw, *of_views]).mean(0)
        return (raw - self.shift).masked_fill(~self.priors.present, -torch.inf)

    def log_probabilities(self, columns: Mapping[str, Tensor], prior: Prior | None = None) -> Tensor:
        """Return log-probabilities [N, C], after the head's calibration if it has one.

        Args:
            columns: named vectors [N, D].
            prior: class prior to predict for, by name or [C]; None keeps the head's own.

        Raises:
            ValueError: see `features` and `under`.
        """
        head = self.under(prior)
        return head.layers.log_probabilities(head.logits(columns))

    def decide(self, log_p: Tensor) -> Tensor:
        """Return predicted classes [N] of log-probabilities [N, C] for the head's own prior; see `Layers.decide`."""
        return self.layers.decide(log_p)

    def unsure(self, log_p: Tensor, predicted: Tensor) -> Tensor:
        """Return where the head abstains, bool [N]; see `Layers.unsure`."""
        return self.layers.unsure(log_p, predicted)

    def without_views(self) -> "TrainedHead":
        """Return the same head without test-time views."""
        return replace(self, views={})

    def without_decisions(self) -> "TrainedHead":
        """Return the same head that predicts the most probable class and never abstains."""
        return replace(self, layers=self.layers.without_decisions())

    def under(self, prior: Prior | None) -> "TrainedHead":
        """Return the head for another class prior, as shares by name or [C], or itself if prior is None.

        Calibration and decisions depend on the shifted logits, so they are refitted to the calibration rows, weighted
        to represent that prior. They stay as they are if there are no calibration rows of classes with a share.

        Raises:
            ValueError: the prior is invalid (see `prior_shift`), or a required recall or precision cannot be reached.
        """
        if prior is None:
            return self
        moved = self.prior_shift(prior)
        target = torch.where(self.priors.present, shares_of(prior, self.class_names), 0.0)
        target = target / target.sum()
        head = replace(self, shift=self.shift - moved, priors=replace(self.priors, implied=target), calibration=None)
        if self.calibration is None:
            return head
        rows = Calibration(self.calibration.logits + moved, self.calibration.labels).known()
        return head.fitted_to(rows, target) if len(rows.labels) > 0 else head

    def fitted_to(self, rows: Calibration, prior: Tensor | None = None) -> "TrainedHead":
        """Return the head with its layers refitted to, and storing, rows of its adjusted logits.

        Args:
            rows: calibration rows of trained classes.
            prior: class prior [C] that the rows are weighted to represent; None leaves them unweighted.

        Raises:
            ValueError: see `frostbench.heads.posthoc.pipeline.Layers.fitted_to`.
        """
        return replace(self, layers=self.layers.fitted_to(rows, prior), calibration=rows)

    def prior_shift(self, prior: Prior | None) -> Tensor:
        """Return the offset of the logits [C] for another class prior, as shares by name or [C]; 0 if prior is None.

        Raises:
            ValueError: the prior is invalid (see `frostbench.heads.shares.shares_of`), gives no trained class a share,
                or gives one to a class that an earlier prior excluded.
        """
        if prior is None:
            return torch.zeros_like(self.shift)
        present = self.priors.present
        target = torch.where(present, shares_of(prior, self.class_names), 0.0)
        if target.sum() <= 0:
            names = [name for name, kept in zip(self.class_names, present.tolist(), strict=True) if kept]
            raise ValueError(
                f"A class prior needs a share above 0 for at least one trained class, but none of {names[:8]} has one. "
                "Give one of them a share."
            )
        excluded = (target > 0) & (self.priors.implied == 0)
        if excluded.any():
            names = [name for name, out in zip(self.class_names, excluded.tolist(), strict=True) if out]
            raise ValueError(
                f"A class that an earlier prior excluded cannot return, but {names[:8]} had share 0 in this head's "
                "prior. Start from the original head."
            )
        shift = torch.where(target > 0, (target / target.sum()).log() - self.priors.implied.log(), -torch.inf)
        return torch.where(present, shift, 0.0).to(self.shift.dtype)

    def uniform_prior(self) -> Tensor:
        """Return the class prior [C] that is uniform over the trained classes."""
        present = self.priors.present.double()
        return present / present.sum()

    def check_recipes(self, recipes: Mapping[str, Mapping[str, Any]]) -> None:
        """Check that vectors have the recipes that the head was trained on.

        Raises:
            ValueError: a column's hash differs or is unknown; the message names the fields that differ.
        """
        for name in self.columns:
            own, other = self.recipes.get(name, {}), recipes.get(name, {})
            if not own.get("hash") or own.get("hash") != other.get("hash"):
                fields = sorted(k for k in own.keys() | other.keys() if own.get(k) != other.get(k) and k != "hash")
                differing = "; ".join(f"{k}: head {own.get(k)!r}, vectors {other.get(k)!r}" for k in fields)
                raise ValueError(
                    f"This head was trained on column {name!r} of recipe {own.get('hash')}, but the vectors have "
                    f"recipe {other.get('hash')} ({differing}). Extract them again with the head's recipe, or choose "
                    "the matching table."
                )
