"""Construction of the stages of gradient steps: the first trains heads, a second one only their classifiers."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from frostbench.heads.classifier import Classifier
from frostbench.heads.head import Core
from frostbench.training.checks.metrics import epochs_metric
from frostbench.training.data.randomness import generator
from frostbench.training.data.row_stream import fronted
from frostbench.training.data.train_rows import TrainRows
from frostbench.training.data.views import rows_of_images
from frostbench.training.engine.objective import Objective
from frostbench.training.engine.run_context import RunContext
from frostbench.training.engine.stack import Features, Stack
from frostbench.training.losses.class_statistics import ClassStatistics
from frostbench.training.run import RunSpec
from frostbench.training.sampling.batches import batches_of
from frostbench.training.second_stage.stepped import SteppedStage
from frostbench.training.spec.optim import Schedule
from frostbench.training.spec.stage import EarlyStop, StageSpec


@dataclass(frozen=True)
class Stage:
    """One stage of gradient steps for the heads of a stack.

    Attributes:
        contexts: contexts of the runs.
        early_stops: rule of each run that chooses the kept epoch.
        floors: minimum recall of many-shot classes for an epoch of each run to be kept, or None for no minimum.
        stack: the heads.
        rows: the training rows, including synthetic ones.
        batches: draws the row indices of one pass, batch by batch, at a progress from 0 to 1.
        order: CPU generator of the draws that the heads share: batches and mixed layers.
        schedule: learning-rate schedule.
        epochs: maximum number of passes.
    """

    contexts: Sequence[RunContext]
    early_stops: Sequence[EarlyStop]
    floors: Sequence[float | None]
    stack: Stack
    rows: TrainRows
    batches: Callable[[float], Sequence[Tensor]]
    order: torch.Generator
    schedule: Schedule
    epochs: int

    @property
    def patience_start(self) -> int:
        """Number of the pass from which patience counts: after the warm-up and once all schedules are in full effect.

        Otherwise patience could end training before deferred class weights start, or during the small warm-up steps.
        """
        start = max(self.stack.objectives[0].spec.full_from, self.schedule.warmup)
        return math.ceil(round(start * self.epochs, 9))

    def scaled_patience(self, patience: int) -> int:
        """Return the patience in passes, scaled up by the same factor as the epochs if min_steps raises them."""
        return math.ceil(patience * self.epochs / self.schedule.epochs)


def first_stage(contexts: Sequence[RunContext]) -> Stage:
    """Build the stage that trains body and classifier."""
    first, x = contexts[0], contexts[0].rows.x
    with torch.no_grad():
        select = first.head.preprocess(first.data.select.features(first.rows.columns))
    objectives = []
    for context in contexts:
        _initialise_from_rows(context)
        # Copied because temperatures may change during training.
        temperatures = None if context.temperatures is None else context.temperatures.clone()
        core = Core(context.head.body, context.head.classifier, temperatures)
        objectives.append(_objective(context.run.train, context, core, context.statistics))
    objectives[0].measure(first.rows)
    for objective in objectives:
        objective.prepare(first.rows, objectives[0])
    return _stage(contexts, objectives, Features(x, select, True), 1, [None] * len(contexts))


@torch.no_grad()
def _initialise_from_rows(context: RunContext) -> None:
    """Initialise a cosine classifier from the training rows as its spec defines."""
    classifier: Classifier = context.run.head.classifier
    if classifier.is_cosine:
        head = context.head
        x = context.rows.x
        # Streamed rows allow only initialisations that need no features (frostbench.training.checks.streaming).
        hidden = head.body(x) if isinstance(x, Tensor) else torch.empty(0, head.body.width)
        rows = context.rows.for_classifier(hidden, context.statistics, context.data.class_names)
        classifier.start(head.classifier, rows, context.start)


@torch.no_grad()
def second_stage(contexts: Sequence[RunContext], recalls: Sequence[float | None]) -> Stage:
    """Build the stage that trains classifiers, or factors on their logits, with everything before them frozen.

    A classifier that is trained from scratch replaces the old one in its head.

    Args:
        contexts: the runs, with the heads of the first stage.
        recalls: recall of many-shot classes of each head, or None if there are no such classes.
    """
    fronts, select, objectives = [], [], []
    for context in contexts:
        head, rows, second = context.head, context.rows, stepped_second(context.run)
        front = second.front(head)
        fronts.append(front)
        select.append(front(head.preprocess(context.data.select.features(rows.columns))))
        if second.starts_anew:
            _replace_classifier(context)
        core = second.core(head, len(context.data.class_names))
        spec, statistics = second.stage_spec(context.run.train), second.statistics(context.statistics)
        objectives.append(_objective(spec, context, core, statistics))
    features = Features(fronted(contexts[0].rows.x, fronts), torch.stack(select), False)
    floors = [stepped_second(c.run).floor(recall) for c, recall in zip(contexts, recalls, strict=True)]
    return _stage(contexts, objectives, features, 2, floors)


def _replace_classifier(context: RunContext) -> None:
    """Replace the classifier of a head by an untrained one."""
    head, spec = context.head, context.run.head.classifier
    built = spec.build(head.body.width, len(context.data.class_names), context.start)
    head.classifier = built.to(context.rows.x.device, context.rows.x.dtype)
    _initialise_from_rows(context)


def stepped_second(run: RunSpec) -> SteppedStage:
    """Return the second stage of a run, which must take gradient steps.

    Raises:
        TypeError: it takes none.
    """
    if not isinstance(run.second, SteppedStage):
        raise TypeError(f"Second stage {run.second.kind} takes no gradient steps.")
    return run.second


@dataclass(frozen=True)
class _SamplingUnits:
    """Units that a sampler draws: single rows, or images with all their views.

    Attributes:
        rows: row indices [U, V] of the views of each unit; V is 1 for single rows.
        labels: labels [U].
    """

    rows: Tensor
    labels: Tensor

    @classmethod
    def of(cls, spec: StageSpec, rows: TrainRows) -> "_SamplingUnits":
        """Return the units that the sampler of a stage draws from rows."""
        labels = rows.labels.cpu()
        if spec.views == "together" and rows.images is not None:
            views = rows_of_images(rows.images.cpu())
            return cls(views, labels[views[:, 0]])
        return cls(torch.arange(len(labels))[:, None], labels)

    @property
    def views(self) -> int:
        """Number of rows of each unit."""
        return self.rows.shape[1]

    def batches(self, spec: StageSpec, order: torch.Generator, progress: float) -> list[Tensor]:
        """Draw the row indices of the batches of one pass at a progress from 0 to 1."""
        size = max(1, spec.schedule.batch_size // self.views)
        return [self.rows[units].flatten() for units in batches_of(spec.sampler, self.labels, size, order, progress)]


def _with_resolved_metric(early_stop: EarlyStop, context: RunContext) -> EarlyStop:
    """Return the rule with metric auto replaced by the metric that it stands for on the validation rows."""
    metric = epochs_metric(early_stop.metric, context.data.select.labels, context.background)
    return early_stop.model_copy(update={"metric": metric})


def _objective(spec: StageSpec, context: RunContext, core: Core, statistics: ClassStatistics) -> Objective:
    objective = Objective(spec, context.run.head.classifier, core, statistics, context.start)
    return objective.to(context.rows.x.device, context.rows.x.dtype)


def _stage(
    contexts: Sequence[RunContext],
    objectives: Sequence[Objective],
    features: Features,
    number: int,
    floors: Sequence[float | None],
) -> Stage:
    """Build stage 1 or 2 of runs that differ only in their numbers."""
    first, spec = contexts[0], objectives[0].spec
    device = features.train.device
    order = generator(first.run.order, "order", number)
    noises = [generator(c.run.seed, "noise", number, device) for c in contexts]
    units = _SamplingUnits.of(spec, first.rows)
    for objective in objectives:
        objective.views = units.views

    def batches(progress: float) -> Sequence[Tensor]:
        return [rows.to(device) for rows in units.batches(spec, order, progress)]

    early_stops = [_with_resolved_metric(o.spec.early_stop, c) for o, c in zip(objectives, contexts, strict=True)]
    stack = Stack(objectives, noises, features)
    epochs = spec.epochs_for(first.rows.table_rows)
    return Stage(contexts, early_stops, floors, stack, first.rows, batches, order, spec.schedule, epochs)
