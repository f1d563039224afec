"""What stays fixed through one run."""

import copy
import math
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from frostbench.heads.head import Closed, Head, linear_of
from frostbench.training.checks.data import background_of
from frostbench.training.data.part import Data
from frostbench.training.data.randomness import generator
from frostbench.training.data.row_stream import StreamedRows
from frostbench.training.data.train_rows import TrainRows, train_rows
from frostbench.training.losses.class_statistics import Facts
from frostbench.training.losses.focal import SigmoidFocal
from frostbench.training.losses.vace import scatter_of
from frostbench.training.run import RunSpec

ROWS_AT_ONCE = 4096
"""Rows of which the scatter is taken at a time: in float64, and less their means, they take much more memory."""


@dataclass(frozen=True)
class Setting:
    """What stays fixed through one run.

    Attributes:
        number: place of the run in the list given to fit.
        run: its spec.
        data: what it is trained on.
        rows: the training rows as it sees them.
        background: indices of its background classes.
        facts: of the training rows.
        head: what is trained.
        start: draws first weights, on the CPU.
        began: when it began, by time.perf_counter.
    """

    number: int
    run: RunSpec
    data: Data
    rows: TrainRows
    background: tuple[int, ...]
    facts: Facts
    head: Head
    start: torch.Generator
    began: float

    @property
    def seconds(self) -> float:
        """Wall time since it began."""
        return time.perf_counter() - self.began

    def with_classifier(self, classifier: Closed) -> "Setting":
        """The same with another classifier in its spec, which takes all rows as they are, whatever the sampler."""
        head = self.run.head.model_copy(update={"classifier": classifier})
        return replace(self, run=self.run.model_copy(update={"head": head}), facts=self.facts.unsampled())


def settings_of(numbers: Sequence[int], runs: Sequence[RunSpec], data: Data) -> list[Setting]:
    """The settings of runs that are trained together."""
    rows = train_rows(runs[numbers[0]], data)
    return [_setting(number, runs[number], data, rows) for number in numbers]


def _setting(number: int, run: RunSpec, data: Data, rows: TrainRows) -> Setting:
    start, facts = generator(run.seed, "start", 0), rows.facts(run)
    given = run.train.loss.logit_adjustment.given_log_prior(data.class_names, facts.present)
    facts = replace(facts, log_prior_given=given, temperatures=_temperatures(run, rows, facts))
    head = _untrained(run, rows, len(data.class_names), start).to(rows.x.device, rows.x.dtype)
    return Setting(number, run, data, rows, background_of(run, data), facts, head, start, time.perf_counter())


@torch.no_grad()
def _temperatures(run: RunSpec, rows: TrainRows, facts: Facts) -> Tensor | None:
    """The class temperatures [C+] of VACE, where they follow from the training rows; None where there are none.

    Rows that were made up have no part in them.
    """
    vace, counts = run.train.loss.vace, facts.counts[facts.present]
    if vace.strength == 0 or not vace.is_fixed:
        return None
    if vace.scatter == "frequency":
        return vace.temperatures(counts.double(), counts)
    (_, scale), x = rows.preprocess.in_units, rows.x
    labels = facts.position[rows.labels[: rows.table_rows]]

    def cached() -> Iterable[Tensor]:
        pieces = x.pieces() if isinstance(x, StreamedRows) else torch.split(x[: rows.table_rows], ROWS_AT_ONCE)
        return (piece * scale for piece in pieces)

    return vace.temperatures(scatter_of(cached, labels, len(facts.present)), counts)


def _untrained(run: RunSpec, rows: TrainRows, classes: int, start: torch.Generator) -> Head:
    """The head of a run before training; a classifier that is fitted to rows is still missing."""
    spec, preprocess = run.head, copy.deepcopy(rows.preprocess)
    body = spec.body.build(rows.x.shape[-1], start)
    if not spec.classifier.minimises_loss:
        return Head(preprocess, body, torch.nn.Identity())
    classifier = spec.classifier.build(body.width, classes, start)
    if isinstance(run.train.loss.point, SigmoidFocal) and spec.classifier.is_linear:
        _start_at_prior(linear_of(classifier), int((rows.counts > 0).sum()))
    return Head(preprocess, body, classifier)


@torch.no_grad()
def _start_at_prior(linear: torch.nn.Linear, present: int) -> None:
    """Set biases at which each sigmoid says 1 / C+, so that the many that must say no do not rule the first steps.

    Lin et al., "Focal loss for dense object detection", ICCV 2017, section 3.3.
    """
    linear.bias.fill_(-math.log(max(1, present - 1)))
