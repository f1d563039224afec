"""TrainedHead: what training returns and export saves."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import Tensor

from frostbench.heads.bodies.attention_pool import Pool
from frostbench.heads.head import Head, HeadSpec
from frostbench.heads.posthoc.calibrators.rows import Calibration as Calibration
from frostbench.heads.posthoc.calibrators.warnings import told_of_calibration
from frostbench.heads.posthoc.pipeline import Layers
from frostbench.heads.shares import Prior, shares_of
from frostbench.heads.vectors import joined


@dataclass(frozen=True)
class Priors:
    """Class priors of a head; each [C] float64 and sums to 1, 0 for classes without training rows.

    Attributes:
        counts: [C] int64 training rows.
        raw: shares of the training rows, with those that were made up for small classes.
        effective: the prior that the classifier's loss saw, after class weights and sampling.
        implied: the prior that the exported logits still carry, after every logit adjustment.
    """

    counts: Tensor
    raw: Tensor
    effective: Tensor
    implied: Tensor

    @property
    def present(self) -> Tensor:
        """[C] bool: classes with training rows, the only ones that are ever predicted."""
        return self.counts > 0


def view_column(column: str, view: str) -> str:
    """What a column is called of a view.

    >>> view_column("cls", "flip#0")
    'cls@flip#0'
    """
    return f"{column}@{view}"


def of_view(vectors: Mapping[str, Tensor], columns: Sequence[str], view: str) -> dict[str, Tensor]:
    """The columns of a view under their own names.

    Raises:
        ValueError: one is missing.
    """
    missing = [column for column in columns if view_column(column, view) not in vectors]
    if missing:
        raise ValueError(
            f"this head averages its logits over views, however: of view {view!r} {missing} came not. Pass the vectors "
            "of its views as COLUMN@VIEW, or use the head without views."
        )
    return {column: vectors[view_column(column, view)] for column in columns}


@dataclass(frozen=True, repr=False)
class TrainedHead:
    """A fitted head with everything that inference needs.

    Attributes:
        spec: what was built.
        head: the module, in evaluation mode.
        columns: names of the vector columns it reads, joined in this order.
        class_names: C names, in the order of the logits.
        priors: class priors.
        shift: [C] float32 subtracted from the logits (post-hoc adjustment, another prior), 0 where there is none.
        layers: calibration and decisions, under the head's own prior.
        calibration: rows that these are fitted to; None where nothing is.
        recipes: identity of each vector column, as data, with its hash under "hash"; empty until it is known.
        views: how further views of an image are made, as data by name: their vectors are read as columns COLUMN@NAME,
            and logits are averaged over the image and all of them; empty where the image stands alone.
        facts: what else is worth keeping: run spec, metrics, versions.
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
        """Names of all vectors that it reads of an image: its columns, and those of each view."""
        return (*self.columns, *(view_column(name, view) for view in self.views for name in self.columns))

    @property
    def counts(self) -> Tensor:
        """[C] training rows of each class."""
        return self.priors.counts

    @property
    def temperature(self) -> float:
        """What logits are divided by; 1 where they are not calibrated, or in another way."""
        return self.layers.temperature

    @property
    def warnings(self) -> tuple[str, ...]:
        """What a reader must know before trusting its probabilities."""
        return told_of_calibration(self.layers.spec, self.temperature, self.calibration)

    def features(self, columns: Mapping[str, Tensor]) -> Tensor:
        """The head's input, [N, D] or tokens [N, T, D]: its columns joined.

        Raises:
            ValueError: they are not the vectors that it reads (see `frostbench.heads.vectors.joined`), or a row is not
                finite.
        """
        width = len(self.head.preprocess.mean)
        return joined(columns, self.columns, width, isinstance(self.head.body, Pool))

    @torch.inference_mode()
    def logits(self, columns: Mapping[str, Tensor]) -> Tensor:
        """Adjusted logits [N, C] before any calibration; -inf for classes without training rows.

        The mean over the image and its views, where the head has any.
        """
        raw: Tensor = self.head(self.features(columns))
        if self.views:
            each = [self.head(self.features(of_view(columns, self.columns, view))) for view in self.views]
            raw = torch.stack([raw, *each]).mean(0)
        return (raw - self.shift).masked_fill(~self.priors.present, -torch.inf)

    def log_probabilities(self, columns: Mapping[str, Tensor], prior: Prior | None = None) -> Tensor:
        """Log-probabilities [N, C], calibrated where the head is.

        Args:
            columns: named vectors [N, D].
            prior: class prior, by name or [C], to predict under; None keeps the one the head carries.

        Raises:
            ValueError: see `features` and `under`.
        """
        head = self.under(prior)
        return head.layers.log_probabilities(head.logits(columns))

    def decide(self, log_p: Tensor) -> Tensor:
        """Predicted classes [N] of log-probabilities [N, C]: the largest, after thresholds and shifts where it has any.

        These are tuned for the prior that the head carries, so another one is decided on by `head.under(prior)`.
        """
        return self.layers.decide(log_p)

    def without_views(self) -> "TrainedHead":
        """The same head, which looks at the image alone."""
        return replace(self, views={})

    def without_decisions(self) -> "TrainedHead":
        """The same head, which predicts the class with the largest probability."""
        return replace(self, layers=self.layers.without_decisions())

    def under(self, prior: Prior | None) -> "TrainedHead":
        """The head for a class prior, shares by name or [C]; itself where it is None.

        A shift of the logits invalidates what was fitted to them, so calibration and decisions are fitted anew, on the
        calibration rows weighted as if they came from that prior. Where it leaves no calibration row any weight, they
        stay as they are, and so they do in a head without such rows.

        Raises:
            ValueError: the prior is none (see `prior_shift`), or a wanted recall or precision cannot be reached there.
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
        """The head with its layers fitted anew to rows of its adjusted logits, which it keeps.

        Args:
            rows: of trained classes.
            prior: class prior [C] that the rows are weighted to stand for; None takes them as they are.

        Raises:
            ValueError: see `frostbench.heads.posthoc.pipeline.Layers.fitted_to`.
        """
        return replace(self, layers=self.layers.fitted_to(rows, prior), calibration=rows)

    def prior_shift(self, prior: Prior | None) -> Tensor:
        """What is added to the logits [C] to predict under a class prior, shares by name or [C]; 0 where it is None.

        Raises:
            ValueError: the prior is none (see `frostbench.heads.shares.shares_of`), has nothing on the trained classes,
                or gives a share to a class that an earlier one ruled out.
        """
        if prior is None:
            return torch.zeros_like(self.shift)
        present = self.priors.present
        target = torch.where(present, shares_of(prior, self.class_names), 0.0)
        if target.sum() <= 0:
            names = [name for name, kept in zip(self.class_names, present.tolist(), strict=True) if kept]
            raise ValueError(
                f"a class prior has a share above 0 for some class that was trained, however: none of {names[:8]} has "
                "one. Give it to one of them."
            )
        lost = (target > 0) & (self.priors.implied == 0)
        if lost.any():
            names = [name for name, gone in zip(self.class_names, lost.tolist(), strict=True) if gone]
            raise ValueError(
                f"a class that a prior has ruled out cannot come back, however: {names[:8]} had share 0 in the prior "
                "of this head. Move the head from before."
            )
        shift = torch.where(target > 0, (target / target.sum()).log() - self.priors.implied.log(), -torch.inf)
        return torch.where(present, shift, 0.0).to(self.shift.dtype)

    def uniform_prior(self) -> Tensor:
        """The class prior [C] that is equal over the trained classes."""
        present = self.priors.present.double()
        return present / present.sum()

    def check_recipes(self, recipes: Mapping[str, Mapping[str, Any]]) -> None:
        """Refuse vectors that were made by another recipe.

        Raises:
            ValueError: a column's hash differs or is not known; the message names the fields that differ.
        """
        for name in self.columns:
            own, other = self.recipes.get(name, {}), recipes.get(name, {})
            if not own.get("hash") or own.get("hash") != other.get("hash"):
                fields = sorted(k for k in own.keys() | other.keys() if own.get(k) != other.get(k) and k != "hash")
                told = "; ".join(f"{k}: head {own.get(k)!r}, vectors {other.get(k)!r}" for k in fields)
                raise ValueError(
                    f"this head was trained on column {name!r} of recipe {own.get('hash')}, however: the vectors are "
                    f"of recipe {other.get('hash')} ({told}). Extract them again with the head's recipe, or choose "
                    "the matching table."
                )
