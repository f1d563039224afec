"""Everything that stays fixed during one run."""

import copy
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from frostbench.heads.head import Closed, Head, linear_of
from frostbench.training.data.named import background_of
from frostbench.training.data.part import Data
from frostbench.training.data.randomness import generator
from frostbench.training.data.train_rows import TrainRows, train_rows
from frostbench.training.losses.class_statistics import ClassStatistics
from frostbench.training.run import RunSpec


@dataclass(frozen=True)
class RunContext:
    """Everything that stays fixed during one run.

    Attributes:
        number: index of the run in the list given to fit.
        run: spec of the run.
        data: data that it is trained on.
        rows: preprocessed training rows.
        background: indices of its background classes.
        statistics: class statistics of the training rows.
        temperatures: initial class temperatures [C], or None if no method has any.
        head: the head to train.
        start: CPU generator of the initial weights.
        began: start time by time.perf_counter.
    """

    number: int
    run: RunSpec
    data: Data
    rows: TrainRows
    background: tuple[int, ...]
    statistics: ClassStatistics
    temperatures: Tensor | None
    head: Head
    start: torch.Generator
    began: float

    @property
    def seconds(self) -> float:
        """Wall time since the run began."""
        return time.perf_counter() - self.began

    def with_classifier(self, classifier: Closed) -> "RunContext":
        """Return a copy with another classifier in the spec, and with class statistics that ignore the sampler."""
        head = self.run.head.model_copy(update={"classifier": classifier})
        return replace(self, run=self.run.model_copy(update={"head": head}), statistics=self.statistics.unsampled())


def run_contexts(numbers: Sequence[int], runs: Sequence[RunSpec], data: Data) -> list[RunContext]:
    """Build the contexts of runs that are trained in one stack."""
    rows = train_rows(runs[numbers[0]], data)
    return [_run_context(number, runs[number], data, rows) for number in numbers]


def _run_context(number: int, run: RunSpec, data: Data, rows: TrainRows) -> RunContext:
    start, statistics = generator(run.seed, "start", 0), rows.statistics(run)
    given = run.train.loss.logit_adjustment.given_log_prior(data.class_names, statistics.present)
    statistics = replace(statistics, log_prior_given=given)
    temperatures = _temperatures(run, rows, statistics)
    head = _untrained(run, rows, len(data.class_names), start).to(rows.x.device, rows.x.dtype)
    background = background_of(run, data)
    return RunContext(number, run, data, rows, background, statistics, temperatures, head, start, time.perf_counter())


@torch.no_grad()
def _temperatures(run: RunSpec, rows: TrainRows, statistics: ClassStatistics) -> Tensor | None:
    """Return the initial class temperatures [C], or None if no method has any."""
    candidates = (method.resolved().first_temperatures(rows, statistics) for method in run.train.loss.methods.values())
    return next((temperatures for temperatures in candidates if temperatures is not None), None)


def _untrained(run: RunSpec, rows: TrainRows, classes: int, start: torch.Generator) -> Head:
    """Return the head before training; a classifier that does not minimise a loss is a placeholder."""
    spec, preprocess = run.head, copy.deepcopy(rows.preprocess)
    body = spec.body.build(rows.x.shape[-1], start)
    if not spec.classifier.minimises_loss:
        return Head(preprocess, body, torch.nn.Identity())
    classifier = spec.classifier.build(body.width, classes, start)
    if spec.classifier.is_linear:
        with torch.no_grad():
            for method in run.train.loss.methods.values():
                method.resolved().start_linear(linear_of(classifier), int((rows.counts > 0).sum()))
    return Head(preprocess, body, classifier)
