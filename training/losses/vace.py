"""VACE: class temperatures from the scatter of each class."""

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
from frostbench.training.rule import Rule, Verdict

# The run imports the methods, and training rows import the run.
if TYPE_CHECKING:
    from frostbench.training.data.train_rows import TrainRows
    from frostbench.training.run import RunSpec

ROWS_AT_ONCE = 4096
"""Rows per block when scatter is computed: centred float64 copies take much more memory than the rows."""


def _rule(verdict: Verdict, applies: Callable[["RunSpec", "Vace"], bool], sentence: str) -> Rule:
    """Build a rule for runs with VACE switched on."""

    def applies_to(run: "RunSpec") -> bool:
        return run.train.loss.vace.strength > 0 and applies(run, run.train.loss.vace)

    return Rule(verdict, applies_to, sentence)


class Vace(LossMethod):
    """Divide each class's logit by a class temperature that grows with the class's scatter (variance-adaptive CE).

    The temperature is t_c = clip(a + b s_c, lowest, highest), where s_c is the variance of a class's rescaled vectors,
    before standardisation, averaged over the channels; it is not trained. Training, predictions and probabilities all
    use z / t. In a head with a free linear layer this is cross entropy with the weights w_c / t_c: without weight decay
    it has the same optimum, and with an L2 penalty it is cross entropy whose penalty on row c is multiplied by t_c^2.
    There VACE is a regulariser per class; only in heads with fixed-length weights, such as cosine heads, does it change
    which functions can be reached.
    """

    group: ClassVar[str] = "Confidence"
    shapes_point: ClassVar[bool] = True
    neutral: ClassVar[Mapping[str, float]] = {"strength": 0}
    rules: ClassVar[tuple[Rule, ...]] = (
        _rule(
            "no effect",
            lambda run, _: run.is_fitted,
            f"{kinds_that(lambda kind: not kind.minimises_loss)} minimise no loss, so train.loss.vace has "
            "no effect on them: use head.classifier.kind=logreg",
        ),
        _rule(
            "refuse",
            lambda run, vace: run.is_logreg and not vace.is_fixed,
            "a running scatter needs batches, and logreg has none: set train.loss.vace.scatter=input_exact, or use "
            "head.classifier.kind=linear",
        ),
        _rule(
            "refuse",
            lambda run, vace: vace.acts_on == "decay" and run.is_logreg,
            "for logreg, whose penalty is part of the objective, vace on the logits and on weight decay have the same "
            "optimum: set train.loss.vace.acts_on=logits, or use head.classifier.kind=linear",
        ),
        _rule(
            "refuse",
            lambda run, vace: (
                vace.acts_on == "decay" and not run.is_solved and not (run.head.classifier.is_linear and vace.is_fixed)
            ),
            "weight decay by class needs the weights of a linear classifier and fixed temperatures: use "
            "head.classifier.kind=linear with train.loss.vace.scatter=input_exact or frequency",
        ),
        _rule(
            "no effect",
            lambda run, vace: vace.acts_on == "decay" and run.train.optim.weight_decay == 0,
            "train.loss.vace.acts_on=decay multiplies weight decay, which is 0: raise train.optim.weight_decay",
        ),
        _rule(
            "refuse",
            lambda run, _: not run.is_solved and not run.head.classifier.is_linear and run.second.kind != "none",
            "class temperatures are folded into a linear classifier before a second stage, which is not possible for "
            "cosine classifiers: set second.kind=none, or use head.classifier.kind=linear",
        ),
        _rule(
            "warn",
            lambda run, vace: (
                vace.acts_on != "decay"
                and not run.is_solved
                and run.head.classifier.is_linear
                and run.train.optim.weight_decay == 0
            ),
            "without weight decay a linear classifier undoes class temperatures, so vace has the optimum of cross "
            "entropy and changes only the path to it: raise train.optim.weight_decay, or use "
            "head.classifier.kind=cosine",
        ),
    )
    kind: Literal["vace"] = "vace"
    strength: float = Field(default=0.0, ge=0, le=10, json_schema_extra=SWEPT, title="VACE strength b")
    """Strength with which a class's scatter raises its temperature (b in the formula); 0 gives cross entropy."""
    slope: Literal["normalised", "plain"] = Field(default="normalised", title="VACE: normalisation of the scatter")
    """Whether scatter is divided by its mean over the classes (normalised), or used as it is (plain)."""
    base: float = Field(default=1.0, ge=0.01, le=100, title="VACE: base temperature a")
    """Temperature of a class without scatter, or with center=true of a class of mean scatter (a in the formula)."""
    lowest: float = Field(default=0.5, gt=0, le=1, title="VACE: lowest temperature")
    """Smallest temperature that a class can have."""
    highest: float = Field(default=2.0, ge=1, le=100, title="VACE: highest temperature")
    """Largest temperature that a class can have."""
    center: bool = Field(default=False, title="VACE: subtract the mean scatter")
    """Subtract the mean scatter, so that the mean temperature is a and compact classes lie below it."""
    scatter: Literal["input_exact", "input_ema", "penultimate_ema", "own_logit_ema", "frequency"] = Field(
        default="input_exact", title="VACE: measure of scatter"
    )
    """Source of the scatter: cached vectors (all or by batch), classifier inputs, label logits, or class sizes."""
    rate: float = Field(default=0.1, gt=0, le=1, title="VACE: batch weight in the running scatter")
    """Weight of each batch in a running scatter (the kinds with ema); 1 uses only the last batch."""
    shrinkage: float = Field(default=0.0, ge=0, le=10_000, title="VACE: shrinkage of the scatter (rows)")
    """Weight of the mean scatter in that of each class, as a number of rows, which stabilises classes with few rows."""
    acts_on: Literal["logits", "decay"] = Field(default="logits", title="VACE: what temperatures act on")
    """What temperatures act on: the logits, or as a control only the weight decay of each class's weights."""
    decay_power: float = Field(default=2.0, ge=0, le=4, title="VACE: power of the decay factor")
    """Exponent of the temperature that multiplies weight decay: 2 equals VACE under SGD, 1 roughly under AdamW."""

    @property
    def is_fixed(self) -> bool:
        """Whether temperatures follow from the training rows alone and stay constant."""
        return self.scatter in ("input_exact", "frequency")

    @property
    def needs(self) -> frozenset[Need]:
        """A single label per row, and unmixed rows if the scatter is that of classifier inputs or logits."""
        is_inside = self.scatter in ("penultimate_ema", "own_logit_ema")
        return frozenset({"one_label", "unmixed"}) if is_inside else frozenset({"one_label"})

    @property
    def least_temperature(self) -> float:
        """Smallest class temperature, a divisor of logits, that the method may set."""
        return self.lowest if self.strength > 0 and self.acts_on == "logits" else 1.0

    def first_temperatures(self, rows: "TrainRows", statistics: ClassStatistics) -> Tensor | None:
        """Return the initial class temperatures [C]; under a running scatter these are all the base."""
        if self.strength == 0 or self.acts_on != "logits":
            return None
        if not self.is_fixed:
            return torch.full(statistics.counts.shape, self.base)
        return statistics.over_all(self.of_rows(rows, statistics))

    @torch.no_grad()
    def of_rows(self, rows: "TrainRows", statistics: ClassStatistics) -> Tensor:
        """Compute the fixed class temperatures [C+] from the training rows, ignoring synthetic ones."""
        counts = statistics.counts[statistics.present]
        if self.scatter == "frequency":
            return self.temperatures(counts.double(), counts)
        _, scale = rows.preprocess.in_units
        label_index = statistics.position[rows.labels[: rows.table_rows]]
        scatter = scatter_of(lambda: (x * scale for x in rows.pieces(ROWS_AT_ONCE)), label_index, len(counts))
        return self.temperatures(scatter, counts)

    def part(self, core: Core, classes: int, generator: torch.Generator) -> "RunningScatter | DecayByClass | None":
        """Build the part with the running scatter or the decay factors, or None for fixed temperatures on logits."""
        if self.strength == 0:
            return None
        if self.acts_on == "decay":
            return DecayByClass()
        return None if self.is_fixed else RunningScatter(classes)

    def temperatures(self, scatter: Tensor, counts: Tensor) -> Tensor:
        """Return the temperatures [C+] of classes with this scatter [C+], NaN if unknown, and training rows [C+].

        A class with unknown scatter takes the mean of the others; if none is known, every temperature is the base a.
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

    def updated(self, scatter: Tensor, batch: Tensor, counts: Tensor) -> Tensor:
        """Return the running scatter [C+] after a batch with scatter [C+] and row counts [C+].

        A class with fewer than two rows in the batch keeps its value, because a single row has no variance. The first
        batch of a class replaces an unknown value.

        >>> Vace(rate=0.2).updated(torch.ones(3), torch.tensor([2.0, 9.0, 0.5]), torch.tensor([5, 1, 2]))
        tensor([1.2000, 1.0000, 0.9000])
        """
        later = torch.where(scatter.isfinite(), scatter + self.rate * (batch - scatter), batch)
        return torch.where(counts >= 2, later, scatter)


class RunningScatter(LossPart[Vace]):
    """State of VACE for one head: running scatter of the classes and their temperatures.

    Attributes:
        scatter: [C+]; NaN for classes that have not been seen.
        tau: [C+] class temperatures of the last step, under the name that checkpoints store.
    """

    scatter: Tensor
    tau: Tensor

    def __init__(self, classes: int) -> None:
        super().__init__()
        self.register_buffer("scatter", torch.full((classes,), torch.nan))
        self.register_buffer("tau", torch.ones(classes))

    def class_temperatures(self, method: Vace, step: StepContext) -> tuple[Tensor, Updates]:
        """Return the class temperatures after the batch, which divide its own logits."""
        statistics = step.statistics
        if method.scatter == "own_logit_ema":
            x = of_present(step.unmixed_logits(), statistics).gather(1, step.label_index[:, None])
        else:
            x = step.cached(step.table).flatten(1) if method.scatter == "input_ema" else step.unmixed
        batch, rows = batch_scatter(x.detach(), step.label_index, len(statistics.present), step.index)
        scatter = method.updated(self.scatter, batch, rows)
        class_temperatures = method.temperatures(scatter, statistics.counts[statistics.present])
        return class_temperatures, {"scatter": scatter, "tau": class_temperatures}

    def report(self, state: Mapping[str, Tensor]) -> dict[str, float]:
        """Return the smallest, mean and largest class temperature."""
        temperatures = state["tau"]
        found = {"least": temperatures.min(), "mean": temperatures.mean(), "most": temperatures.max()}
        return {f"tau_{name}": float(value) for name, value in found.items()}


class DecayByClass(LossPart[Vace]):
    """Class temperatures that act only on the weight decay of the classifier's rows."""

    def prepare(self, method: Vace, setup: Setup) -> None:
        """Compute the factors from the training rows."""
        class_temperatures = setup.statistics.over_all(method.of_rows(setup.rows, setup.statistics))
        self._factors = class_temperatures.pow(method.decay_power)[:, None]

    def decay_factors(self) -> Tensor:
        """Return factors [C, 1] on the weight decay of the rows."""
        return self._factors


def scatter_of(pieces: Callable[[], Iterable[Tensor]], labels: Tensor, classes: int) -> Tensor:
    """Return the scatter [C] in float64 of rows with labels [N], which `pieces` yields in order as blocks [n, D].

    Scatter is the variance (ddof 1) of the rows of a class, averaged over the channels; NaN for classes with fewer
    than two rows. `pieces` is called twice.

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
        of_rows = labels[start : start + len(rows)]
        squares.index_add_(0, of_rows, (rows - means[of_rows]).square().mean(1))
        start += len(rows)
    return torch.where(counts >= 2, squares / (counts - 1).clamp(min=1), torch.nan)


def batch_scatter(x: Tensor, label_index: Tensor, classes: int, index: Tensor) -> tuple[Tensor, Tensor]:
    """Return scatter (ddof 1) and row counts [C+] of a batch x [B, H] with labels and row indices [B].

    A row that a sampler drew repeatedly counts once, because copies have no variance. The scatter of a class with
    fewer than two rows is meaningless.
    """
    of_class = label_index == torch.arange(classes, device=label_index.device)[:, None]
    member = (of_class & _is_first(index)).to(x.dtype)
    counts = member.sum(1)
    means = (member @ x) / counts.clamp(min=1)[:, None]
    squares = (x - means[label_index]).square().mean(1)
    return (member @ squares) / (counts - 1).clamp(min=1), counts


def _is_first(index: Tensor) -> Tensor:
    """Return a mask of the first occurrence of each number in index [B].

    >>> _is_first(torch.tensor([5, 3, 5, 5]))
    tensor([ True,  True, False, False])
    """
    values, order = index.sort(stable=True)
    is_new = torch.cat([torch.ones_like(values[:1], dtype=torch.bool), values[1:] != values[:-1]])
    return torch.empty_like(is_new).scatter(0, order, is_new)
