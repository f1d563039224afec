"""What stays fixed through one run."""

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
    """What stays fixed through one run.

    Attributes:
        number: place of the run in the list given to fit.
        run: its spec.
        data: what it is trained on.
        rows: the training rows as it sees them.
        background: indices of its background classes.
        statistics: of the training rows.
        temperatures: [C] that divide the logits from the start; None where none do.
        head: what is trained.
        start: draws first weights, on the CPU.
        began: when it began, by time.perf_counter.
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
        """Wall time since it began."""
        return time.perf_counter() - self.began

    def with_classifier(self, classifier: Closed) -> "RunContext":
        """The same with another classifier in its spec, which takes all rows as they are, whatever the sampler."""
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
    """The class temperatures [C] that divide the logits from the start; None where no method has any."""
    each = (method.resolved().first_temperatures(rows, statistics) for method in run.train.loss.methods.values())
    return next((found for found in each if found is not None), None)


def _untrained(run: RunSpec, rows: TrainRows, classes: int, start: torch.Generator) -> Head:
    """The head of a run before training; a classifier that is fitted to rows is still missing."""
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
