"""Synthetic training rows for classes that have few."""

from typing import Annotated, ClassVar, Literal

import torch
from pydantic import Field
from torch import Tensor

from frostbench.heads.spec import Spec, Tier

MOST_NEIGHBOURS = 5
"""Neighbours of a row that SMOTE chooses from, or all other rows of its class if there are fewer."""


class NoOversample(Spec):
    """No synthetic rows."""

    kind: Literal["none"] = "none"

    def extra_rows(self, x: Tensor, labels: Tensor, generator: torch.Generator) -> tuple[Tensor, Tensor]:
        """Return no rows [0, D] and no labels [0], for rows x [N, D] with labels [N]."""
        return x[:0], labels[:0]


class Smote(Spec):
    """Fill small classes up to the median class size with points between a row and one of its neighbours.

    Chawla et al., "SMOTE: synthetic minority over-sampling technique", JAIR 16, 2002, through imbalanced-learn. In a
    class of one row, this row is repeated. Losses and logit adjustment use the class shares with the extra rows.
    """

    tier: ClassVar[Tier] = "experimental"
    kind: Literal["smote"] = "smote"
    jitter: float = Field(default=0.05, ge=0, le=10, title="SMOTE: jitter of synthetic rows")
    """Standard deviation of noise on synthetic rows, relative to that of each channel over the training rows."""

    def extra_rows(self, x: Tensor, labels: Tensor, generator: torch.Generator) -> tuple[Tensor, Tensor]:
        """Return synthetic rows [M, D] and their labels [M], for training rows x [N, D] with labels [N].

        Raises:
            ModuleNotFoundError: imbalanced-learn is not installed.
        """
        _smote_class()
        wanted = wanted_rows(labels)
        counts = torch.bincount(labels)
        made, owners = [x[:0].double()], [labels[:0]]
        for neighbours in range(MOST_NEIGHBOURS + 1):
            group = (wanted > 0) & ((counts - 1).clamp(max=MOST_NEIGHBOURS) == neighbours)
            if group.any():
                here = torch.where(group, wanted, 0)
                if neighbours == 0:
                    rows, owner = _repeated(x, labels, here)
                else:
                    rows, owner = _interpolated(x, labels, here, neighbours, generator)
                made.append(rows)
                owners.append(owner)
        rows, owner = torch.cat(made), torch.cat(owners)
        spread = self.jitter * x.double().std(0, correction=0)
        return (rows + spread * _normal(rows.shape, x, generator)).to(x.dtype), owner


class GaussianOversample(Spec):
    """Fill small classes up to the median class size with draws from a Gaussian around their mean.

    Its covariance is that of the class, shrunk towards the pooled within-class covariance as in Friedman, "Regularized
    discriminant analysis", JASA 84, 1989; for n rows the pooled one has the share k / (k + n). Losses and logit
    adjustment use the class shares with the extra rows.
    """

    tier: ClassVar[Tier] = "experimental"
    kind: Literal["gaussian"] = "gaussian"
    shrinkage: float = Field(default=10.0, ge=0, le=1e6, title="Gaussian oversampling: covariance shrinkage")
    """The pooled covariance has share k / (k + n) for a class of n rows; this sets k, and 0 uses the class alone."""

    def extra_rows(self, x: Tensor, labels: Tensor, generator: torch.Generator) -> tuple[Tensor, Tensor]:
        """Return synthetic rows [M, D] and their labels [M], for training rows x [N, D] with labels [N]."""
        wanted, counts = wanted_rows(labels), torch.bincount(labels)
        if wanted.sum() == 0:
            return x[:0], labels[:0]
        exact = x.double()
        sums = exact.new_zeros(len(counts), x.shape[1]).index_add(0, labels, exact)
        means = sums / counts.clamp(min=1)[:, None]
        around = exact - means[labels]
        root = _covariance_root(around, len(labels) - int((counts > 0).sum()))
        made = []
        for label in wanted.nonzero().squeeze(1).tolist():
            size, rows = int(wanted[label]), around[labels == label]
            share = self.shrinkage / (self.shrinkage + len(rows))
            # Sums of rows about their mean, weighted by normal numbers, have the covariance of the class (ddof 0).
            own = _normal((size, len(rows)), x, generator) @ rows / len(rows) ** 0.5
            pooled = _normal((size, len(root)), x, generator) @ root
            made.append(means[label] + (1 - share) ** 0.5 * own + share**0.5 * pooled)
        owner = torch.arange(len(counts), device=labels.device).repeat_interleave(wanted)
        return torch.cat(made).to(x.dtype), owner


OversampleSpec = Annotated[NoOversample | Smote | GaussianOversample, Field(discriminator="kind")]


def wanted_rows(labels: Tensor) -> Tensor:
    """Return how many rows [C] each class lacks to reach the median size of classes with rows, from labels [N].

    >>> wanted_rows(torch.tensor([0, 0, 0, 0, 1, 1, 3])).tolist()
    [0, 0, 0, 1]
    """
    counts = torch.bincount(labels)
    present = counts > 0
    # The lower median, so that at most half of the classes get rows.
    return torch.where(present, counts[present].median() - counts, 0).clamp(min=0)


def _repeated(x: Tensor, labels: Tensor, wanted: Tensor) -> tuple[Tensor, Tensor]:
    """Repeat the only row of a class `wanted` [C] times, for the classes where this is above 0."""
    chosen = wanted[labels] > 0
    times = wanted[labels[chosen]]
    return x[chosen].double().repeat_interleave(times, 0), labels[chosen].repeat_interleave(times)


def _interpolated(
    x: Tensor, labels: Tensor, wanted: Tensor, neighbours: int, generator: torch.Generator
) -> tuple[Tensor, Tensor]:
    """Make `wanted` [C] SMOTE rows per class; classes that get any must have more rows than `neighbours`."""
    counts = torch.bincount(labels)
    # imbalanced-learn requires a class that does not grow, and warns if another would outgrow it.
    kept = (wanted[labels] > 0) | (labels == counts.argmax())
    strategy = {label: int((counts + wanted)[label]) for label in wanted.nonzero().squeeze(1).tolist()}
    seed = int(torch.randint(2**31 - 1, (), generator=generator, device=generator.device))
    smote = _smote_class()(sampling_strategy=strategy, k_neighbors=neighbours, random_state=seed)
    rows, owner = smote.fit_resample(x[kept].double().cpu().numpy(), labels[kept].cpu().numpy())
    before = int(kept.sum())
    return torch.from_numpy(rows[before:]).to(x.device), torch.from_numpy(owner[before:]).to(labels.device)


def _smote_class() -> type:
    try:
        from imblearn.over_sampling import SMOTE
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(
            "SMOTE oversampling needs imbalanced-learn, which is not installed. Run: pip install 'frostbench[smote]', "
            "or use train.oversample.kind=gaussian."
        ) from error
    smote: type = SMOTE
    return smote


def _covariance_root(around: Tensor, freedom: int) -> Tensor:
    """Return R [D, D] such that R^T R is the pooled covariance, from rows minus their class means [N, D]."""
    covariance = around.T @ around / freedom
    values, vectors = torch.linalg.eigh(covariance)
    root: Tensor = values.clamp(min=0).sqrt()[:, None] * vectors.T
    return root


def _normal(shape: tuple[int, ...], like: Tensor, generator: torch.Generator) -> Tensor:
    """Draw standard normal numbers in float64, on the device of `like`."""
    drawn = torch.randn(shape, generator=generator, device=generator.device, dtype=torch.float64)
    return drawn.to(like.device)
