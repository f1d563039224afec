"""The stages of gradient steps: whole heads, and then perhaps their classifiers alone."""

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
    """What one stage of gradient steps does to the heads of a stack.

    Attributes:
        contexts: the runs.
        early_stops: which epoch each keeps.
        floors: the least recall of frequent classes that an epoch of each must have to be kept; None asks for none.
        stack: their heads.
        rows: the training rows, made-up ones included.
        batches: draws the row numbers of one pass, batch by batch, at a progress from 0 to 1.
        order: draws what the heads share beside the rows, on the CPU.
        schedule: the course of the learning rate.
        epochs: the most passes.
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
    def ripe(self) -> int:
        """The pass after which the rate has risen in full and all that comes in late acts; patience counts from there.

        Deferred class weights would never act if patience ended training before, and steps of a warm-up are short.
        """
        start = max(self.stack.objectives[0].spec.full_from, self.schedule.warmup)
        return math.ceil(round(start * self.epochs, 9))

    def stretched(self, patience: int) -> int:
        """Passes for a patience in epochs of the schedule, where min_steps asks for more of them: as many more."""
        return math.ceil(patience * self.epochs / self.schedule.epochs)


def first_stage(contexts: Sequence[RunContext]) -> Stage:
    """The stage that trains whole heads."""
    one, x = contexts[0], contexts[0].rows.x
    with torch.no_grad():
        select = one.head.preprocess(one.data.select.features(one.rows.columns))
    objectives = []
    for context in contexts:
        _place(context)
        # A copy, for temperatures may move with training.
        class_temperatures = None if context.temperatures is None else context.temperatures.clone()
        core = Core(context.head.body, context.head.classifier, class_temperatures)
        objectives.append(_objective(context.run.train, context, core, context.statistics))
    objectives[0].measure(one.rows)
    for objective in objectives:
        objective.prepare(one.rows, objectives[0])
    return _stage(contexts, objectives, Features(x, select, True), 1, [None] * len(contexts))


@torch.no_grad()
def _place(context: RunContext) -> None:
    """Start a classifier from the training rows, where its spec says how."""
    classifier: Classifier = context.run.head.classifier
    if classifier.is_cosine:
        head = context.head
        x = context.rows.x
        # A start that reads more than labels was refused for streamed rows (frostbench.training.checks.streaming).
        hidden = head.body(x) if isinstance(x, Tensor) else torch.empty(0, head.body.width)
        rows = context.rows.for_classifier(hidden, context.statistics, context.data.class_names)
        classifier.start(head.classifier, rows, context.start)


@torch.no_grad()
def second_stage(contexts: Sequence[RunContext], recalls: Sequence[float | None]) -> Stage:
    """The stage that trains classifiers, or factors on their logits, with all before them frozen.

    A fresh classifier takes the place of the old one in its head.

    Args:
        contexts: the runs, with their heads as the first stage left them.
        recalls: of frequent classes, by these heads; None where no class is frequent.
    """
    fronts, select, objectives = [], [], []
    for context in contexts:
        head, rows, second = context.head, context.rows, stepped_second(context.run)
        front = second.front(head)
        fronts.append(front)
        select.append(front(head.preprocess(context.data.select.features(rows.columns))))
        if second.starts_anew:
            _renew(context)
        core = second.core(head, len(context.data.class_names))
        spec, statistics = second.stage_spec(context.run.train), second.statistics(context.statistics)
        objectives.append(_objective(spec, context, core, statistics))
    features = Features(fronted(contexts[0].rows.x, fronts), torch.stack(select), False)
    floors = [stepped_second(s.run).floor(recall) for s, recall in zip(contexts, recalls, strict=True)]
    return _stage(contexts, objectives, features, 2, floors)


def _renew(context: RunContext) -> None:
    """Put an untrained classifier in the place of a head's."""
    head, spec = context.head, context.run.head.classifier
    built = spec.build(head.body.width, len(context.data.class_names), context.start)
    head.classifier = built.to(context.rows.x.device, context.rows.x.dtype)
    _place(context)


def stepped_second(run: RunSpec) -> SteppedStage:
    """The second stage of a run, which takes gradient steps.

    Raises:
        TypeError: it takes none.
    """
    if not isinstance(run.second, SteppedStage):
        raise TypeError(f"second stage {run.second.kind} takes no gradient steps.")
    return run.second


@dataclass(frozen=True)
class _Drawn:
    """What a sampler draws: rows, or images whose views come together.

    Attributes:
        rows: [U, V] row numbers of the views of each, one where rows are drawn.
        labels: [U].
    """

    rows: Tensor
    labels: Tensor

    @classmethod
    def of(cls, spec: StageSpec, rows: TrainRows) -> "_Drawn":
        """What the sampler of a stage draws of rows."""
        labels = rows.labels.cpu()
        if spec.views == "together" and rows.images is not None:
            found = rows_of_images(rows.images.cpu())
            return cls(found, labels[found[:, 0]])
        return cls(torch.arange(len(labels))[:, None], labels)

    @property
    def views(self) -> int:
        """Rows of each."""
        return self.rows.shape[1]

    def batches(self, spec: StageSpec, order: torch.Generator, progress: float) -> list[Tensor]:
        """Row numbers of the batches of one pass at a progress from 0 to 1."""
        size = max(1, spec.schedule.batch_size // self.views)
        return [self.rows[each].flatten() for each in batches_of(spec.sampler, self.labels, size, order, progress)]


def _judged(early_stop: EarlyStop, context: RunContext) -> EarlyStop:
    """How epochs are chosen on the selection rows that there are."""
    metric = epochs_metric(early_stop.metric, context.data.select.labels, context.background)
    return early_stop.model_copy(update={"metric": metric})


def _objective(spec: StageSpec, context: RunContext, core: Core, statistics: ClassStatistics) -> Objective:
    objective = Objective(spec, context.run.head.classifier, core, statistics, context.start)
    return objective.to(context.rows.x.device, context.rows.x.dtype)


def _stage(
    contexts: Sequence[RunContext],
    objectives: Sequence[Objective],
    features: Features,
    place: int,
    floors: Sequence[float | None],
) -> Stage:
    """The stage of runs that share all but their numbers."""
    one, spec = contexts[0], objectives[0].spec
    device = features.train.device
    order = generator(one.run.order, "order", place)
    noises = [generator(s.run.seed, "noise", place, device) for s in contexts]
    drawn = _Drawn.of(spec, one.rows)
    for objective in objectives:
        objective.views = drawn.views

    def batches(progress: float) -> Sequence[Tensor]:
        return [rows.to(device) for rows in drawn.batches(spec, order, progress)]

    early_stops = [_judged(o.spec.early_stop, s) for o, s in zip(objectives, contexts, strict=True)]
    stack = Stack(objectives, noises, features)
    epochs = spec.epochs_for(one.rows.table_rows)
    return Stage(contexts, early_stops, floors, stack, one.rows, batches, order, spec.schedule, epochs)
