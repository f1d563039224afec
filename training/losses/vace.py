"""VACE: a temperature for each class, from how far its rows scatter."""

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, ClassVar, Literal

import torch
from pydantic import Field
from torch import Tensor

from frostbench.heads.head import Core, kinds_that
from frostbench.heads.spec import SWEPT
from frostbench.training.losses.class_statistics import ClassStatistics, of_present
from frostbench.training.losses.method import LossMethod, LossPart, Need, Setup
from frostbench.training.losses.step import StepContext, Updates
from frostbench.training.rule import Rule

# A run holds the methods, and these their rules and what they measure of its rows.
if TYPE_CHECKING:
    from frostbench.training.data.train_rows import TrainRows
    from frostbench.training.run import RunSpec

ROWS_AT_ONCE = 4096
"""Rows of which the scatter is taken at a time: in float64, and less their means, they take much more memory."""


class Vace(LossMethod):
    """Divide each class's logit by a temperature that grows with the scatter of the class (variance-adaptive CE).

    tau_c = clip(a + b s_c, lowest, highest), where s_c is the variance of a class's vectors in units, before they are
    standardised, averaged over the channels; it is never trained. Training, predictions and probabilities all read
    z / tau. In a head that ends in a free linear layer this is cross entropy with the weights w_c / tau_c: without
    weight decay it has the same optimum, and with an L2 penalty it is cross entropy whose penalty on row c is
    multiplied by tau_c^2. So it is a regulariser by class there, and a change of what can be reached only in heads of
    fixed length, such as cosine heads.
    """

    group: ClassVar[str] = "Confidence"
    shapes_point: ClassVar[bool] = True
    neutral: ClassVar[Mapping[str, float]] = {"strength": 0}
    rules: ClassVar[tuple[Rule, ...]] = (
        Rule(
            "no effect",
            lambda run: _is_on(run) and run.is_fitted,
            f"{kinds_that(lambda kind: not kind.minimises_loss)} minimise no loss, so train.loss.vace has "
            "no effect on them: use head.classifier.kind=logreg",
        ),
        Rule(
            "refuse",
            lambda run: _is_on(run) and run.is_logreg and not run.train.loss.vace.is_fixed,
            "a running scatter needs batches and logreg has none: set train.loss.vace.scatter=input_exact, or use "
            "head.classifier.kind=linear",
        ),
        Rule(
            "refuse",
            lambda run: _is_control(run) and run.is_logreg,
            "on logreg, whose penalty is part of the objective, vace on the logits and on weight decay have one "
            "optimum: set train.loss.vace.acts_on=logits, or use head.classifier.kind=linear",
        ),
        Rule(
            "refuse",
            lambda run: (
                _is_control(run) and not run.is_solved and not (_has_linear(run) and run.train.loss.vace.is_fixed)
            ),
            "weight decay by class acts on the rows of a linear classifier and by fixed temperatures: use "
            "head.classifier.kind=linear with train.loss.vace.scatter=input_exact or frequency",
        ),
        Rule(
            "no effect",
            lambda run: _is_control(run) and run.train.optim.weight_decay == 0,
            "train.loss.vace.acts_on=decay multiplies weight decay, of which there is none: raise "
            "train.optim.weight_decay",
        ),
        Rule(
            "refuse",
            lambda run: _is_on(run) and not run.is_solved and not _has_linear(run) and run.second.kind != "none",
            "class temperatures are folded into a linear classifier before a second stage, which cosines do not allow: "
            "set second.kind=none, or use head.classifier.kind=linear",
        ),
        Rule(
            "warn",
            lambda run: (
                _is_on(run)
                and not run.is_solved
                and _has_linear(run)
                and run.train.optim.weight_decay == 0
                and not _is_control(run)
            ),
            "without weight decay a linear classifier undoes class temperatures, so vace has the optimum of cross "
            "entropy and changes the way there alone: raise train.optim.weight_decay, or use "
            "head.classifier.kind=cosine",
        ),
    )
    kind: Literal["vace"] = "vace"
    strength: float = Field(default=0.0, ge=0, le=10, json_schema_extra=SWEPT, title="VACE strength b")
    """Strength with which a class's scatter raises its temperature (b of the formula); 0 leaves cross entropy."""
    slope: Literal["normalised", "plain"] = Field(default="normalised", title="VACE: normalisation of the scatter")
    """Whether scatter counts relative to its mean over the classes, or as it is for vectors in units."""
    base: float = Field(default=1.0, ge=0.01, le=100, title="VACE: base temperature a")
    """Temperature of a class without scatter, or where center is set of one with the mean scatter (a)."""
    lowest: float = Field(default=0.5, gt=0, le=1, title="VACE: lowest temperature")
    """Least temperature that a class can have."""
    highest: float = Field(default=2.0, ge=1, le=100, title="VACE: highest temperature")
    """Largest temperature that a class can have."""
    center: bool = Field(default=False, title="VACE: subtract the mean scatter")
    """Subtract the mean scatter from each, so that the mean temperature is a and tight classes are below it."""
    scatter: Literal["input_exact", "input_ema", "penultimate_ema", "own_logit_ema", "frequency"] = Field(
        default="input_exact", title="VACE: measure of scatter"
    )
    """Source of scatter: cached vectors of a class (all, or by batch), classifier inputs, own logits, class sizes."""
    rate: float = Field(default=0.1, gt=0, le=1, title="VACE: batch weight in the running scatter")
    """Weight of each batch in a running scatter (the kinds with ema); 1 takes the batch alone."""
    shrinkage: float = Field(default=0.0, ge=0, le=10_000, title="VACE: shrinkage of the scatter (rows)")
    """Rows that the mean scatter counts as in that of each class, which steadies classes of few rows."""
    acts_on: Literal["logits", "decay"] = Field(default="logits", title="VACE: what temperatures act on")
    """Target of the temperatures: the logits, or as a control only the weight decay of each class's row."""
    decay_power: float = Field(default=2.0, ge=0, le=4, title="VACE: power of the decay factor")
    """Power of the temperature by which decay is multiplied: 2 equals VACE for SGD's decay, 1 roughly for AdamW's."""

    @property
    def is_fixed(self) -> bool:
        """Whether temperatures follow from the training rows alone and stay the same."""
        return self.scatter in ("input_exact", "frequency")

    @property
    def needs(self) -> frozenset[Need]:
        """One label for each row; and unmixed rows where they scatter in front of the classifier or behind it."""
        is_inside = self.scatter in ("penultimate_ema", "own_logit_ema")
        return frozenset({"one_label", "unmixed"}) if is_inside else frozenset({"one_label"})

    @property
    def least_temperature(self) -> float:
        """The least number by which it divides logits."""
        return self.lowest if self.strength > 0 else 1.0

    def first_temperatures(self, rows: "TrainRows", statistics: ClassStatistics) -> Tensor | None:
        """Return the temperatures [C] that logits start with; those of a running scatter are all the base."""
        if self.strength == 0 or self.acts_on != "logits":
            return None
        return (
            statistics.over_all(self.of_rows(rows, statistics))
            if self.is_fixed
            else torch.full(statistics.counts.shape, self.base)
        )

    @torch.no_grad()
    def of_rows(self, rows: "TrainRows", statistics: ClassStatistics) -> Tensor:
        """Return the fixed temperatures [C+]; rows that were made up have no part in them."""
        counts = statistics.counts[statistics.present]
        if self.scatter == "frequency":
            return self.temperatures(counts.double(), counts)
        (_, scale), own = rows.preprocess.in_units, statistics.position[rows.labels[: rows.table_rows]]
        scatter = scatter_of(lambda: (x * scale for x in rows.pieces(ROWS_AT_ONCE)), own, len(statistics.present))
        return self.temperatures(scatter, counts)

    def part(self, core: Core, classes: int, generator: torch.Generator) -> "RunningScatter | DecayByClass | None":
        """Build what runs with training, or acts on weight decay; None where temperatures are fixed from the start."""
        if self.strength == 0:
            return None
        if self.acts_on == "decay":
            return DecayByClass()
        return None if self.is_fixed else RunningScatter(classes)

    def temperatures(self, scatter: Tensor, counts: Tensor) -> Tensor:
        """Temperatures [C+] of classes with this scatter [C+], NaN where it is not known, and training rows [C+].

        A class of unknown scatter has the mean of the others; where none is known, every temperature is a.
        """
        known, one = scatter.isfinite(), torch.ones((), dtype=scatter.dtype, device=scatter.device)
        mean = torch.where(known, scatter, 0.0).sum() / known.sum().clamp(min=1)
        filled = torch.where(known, scatter, mean)
        if self.shrinkage > 0:
            rows = counts.to(scatter.dtype)
            filled = (rows * filled + self.shrinkage * mean) / (rows + self.shrinkage)
        above = filled - mean if self.center else filled
        unit = torch.where(mean > 0, mean, one) if self.slope == "normalised" else one
        return (self.base + self.strength * above / unit).clamp(self.lowest, self.highest)

    def moved(self, scatter: Tensor, batch: Tensor, counts: Tensor) -> Tensor:
        """The running scatter [C+] after a batch with its own [C+], from so many rows of each class [C+].

        One row has no variance: a class with fewer than two in the batch keeps what it had. The first batch of a class
        replaces the unknown.

        >>> Vace(rate=0.2).moved(torch.ones(3), torch.tensor([2.0, 9.0, 0.5]), torch.tensor([5, 1, 2]))
        tensor([1.2000, 1.0000, 0.9000])
        """
        later = torch.where(scatter.isfinite(), scatter + self.rate * (batch - scatter), batch)
        return torch.where(counts >= 2, later, scatter)


class RunningScatter(LossPart[Vace]):
    """The running scatter of the classes, and their temperatures.

    Attributes:
        scatter: [C+]; NaN for classes that were not seen.
        tau: [C+] temperatures of the last step.
    """

    scatter: Tensor
    tau: Tensor

    def __init__(self, classes: int) -> None:
        super().__init__()
        self.register_buffer("scatter", torch.full((classes,), torch.nan))
        self.register_buffer("tau", torch.ones(classes))

    def class_temperatures(self, method: Vace, step: StepContext) -> tuple[Tensor, Updates]:
        """Return the temperatures after the batch, which divide its own logits."""
        statistics = step.statistics
        batch, rows = batch_scatter(_scattered(method, step).detach(), step.own, len(statistics.present), step.index)
        scatter = method.moved(self.scatter, batch, rows)
        tau = method.temperatures(scatter, statistics.counts[statistics.present])
        return tau, {"scatter": scatter, "tau": tau}

    def report(self, state: Mapping[str, Tensor]) -> dict[str, float]:
        """Return least, mean and largest temperature."""
        tau = state["tau"]
        return {"tau_least": float(tau.min()), "tau_mean": float(tau.mean()), "tau_most": float(tau.max())}


class DecayByClass(LossPart[Vace]):
    """Temperatures that act on the weight decay of the classifier's rows alone."""

    def prepare(self, method: Vace, setup: Setup) -> None:
        """Take the factors from the training rows."""
        every = setup.statistics.over_all(method.of_rows(setup.rows, setup.statistics))
        self._factors = every.pow(method.decay_power)[:, None]

    def decay_factors(self) -> Tensor:
        """Return factors [C, 1] on the decay of the rows."""
        return self._factors


def _scattered(method: Vace, step: StepContext) -> Tensor:
    """What scatters in a step [N, H]."""
    if method.scatter == "own_logit_ema":
        return of_present(step.unmixed_logits(), step.statistics).gather(1, step.own[:, None])
    return step.cached(step.table).flatten(1) if method.scatter == "input_ema" else step.unmixed


def scatter_of(pieces: Callable[[], Iterable[Tensor]], labels: Tensor, classes: int) -> Tensor:
    """Scatter [C] float64 of the classes of rows that come in pieces [n, D], twice, with labels [N] in their order.

    The variance (ddof 1) of the rows of a class, averaged over the channels; NaN for classes of fewer than two rows.

    >>> x = torch.tensor([[1.0, 2], [3, 2], [0, 0], [0, 4], [2, 2], [5, 5]])
    >>> scatter_of(lambda: [x[:4], x[4:]], torch.tensor([0, 0, 1, 1, 1, 2]), 3)
    tensor([1.0000, 2.6667,    nan], dtype=torch.float64)
    """
    counts = torch.bincount(labels, minlength=classes).double()
    means, start = None, 0
    for piece in pieces():
        rows = piece.flatten(1).double()
        means = rows.new_zeros(classes, rows.shape[1]) if means is None else means
        means.index_add_(0, labels[start : start + len(rows)], rows)
        start += len(rows)
    squares, start = torch.zeros_like(counts), 0
    if means is None:
        return squares / 0
    means /= counts.clamp(min=1)[:, None]
    for piece in pieces():
        rows = piece.flatten(1).double()
        own = labels[start : start + len(rows)]
        squares.index_add_(0, own, (rows - means[own]).square().mean(1))
        start += len(rows)
    return torch.where(counts >= 2, squares / (counts - 1).clamp(min=1), torch.nan)


def batch_scatter(x: Tensor, own: Tensor, classes: int, index: Tensor) -> tuple[Tensor, Tensor]:
    """Scatter [C+] (ddof 1) of the classes of a batch x [B, H] with places own [B], and their rows [C+].

    A row that a sampler drew more than once, by its number in index [B], counts once: copies of it have no variance.
    A class of fewer than two rows has a number that means nothing.
    """
    of_class = own == torch.arange(classes, device=own.device)[:, None]
    member = (of_class & _is_first(index)).to(x.dtype)
    counts = member.sum(1)
    means = (member @ x) / counts.clamp(min=1)[:, None]
    squares = (x - means[own]).square().mean(1)
    return (member @ squares) / (counts - 1).clamp(min=1), counts


def _is_first(index: Tensor) -> Tensor:
    """Which of the numbers [B] are the first of their kind.

    >>> _is_first(torch.tensor([5, 3, 5, 5]))
    tensor([ True,  True, False, False])
    """
    found, order = index.sort(stable=True)
    is_new = torch.cat([torch.ones_like(found[:1], dtype=torch.bool), found[1:] != found[:-1]])
    return torch.empty_like(is_new).scatter(0, order, is_new)


def _is_on(run: "RunSpec") -> bool:
    return run.train.loss.vace.strength > 0


def _is_control(run: "RunSpec") -> bool:
    """Whether the temperatures act on weight decay alone."""
    return _is_on(run) and run.train.loss.vace.acts_on == "decay"


def _has_linear(run: "RunSpec") -> bool:
    return run.head.classifier.is_linear
