"""The stages of gradient steps: whole heads, and then perhaps their classifiers alone."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from heads.body import Pass
from heads.cosine import CosineLayer
from heads.head import Closed, Core, Placed, linear_of
from training.batches import Shuffled, batches_of, shares_of
from training.facts import Facts
from training.objective import Objective
from training.optim import Schedule
from training.randomness import generator
from training.run import RunSpec
from training.second import Crt, Lws
from training.setting import Setting
from training.stack import Features, Stack
from training.stage_spec import EarlyStop, StageSpec


@dataclass(frozen=True)
class Stage:
    """What one stage of gradient steps does to the heads of a stack.

    Attributes:
        settings: the runs.
        early_stops: which epoch each keeps.
        stack: their heads.
        labels: [N] of the training rows, made-up ones included.
        batches: draws the row numbers of one pass, batch by batch, at a progress from 0 to 1.
        order: draws what the heads share beside the rows, on the CPU.
        schedule: the course of the learning rate.
        epochs: the most passes.
    """

    settings: Sequence[Setting]
    early_stops: Sequence[EarlyStop]
    stack: Stack
    labels: Tensor
    batches: Callable[[float], Sequence[Tensor]]
    order: torch.Generator
    schedule: Schedule
    epochs: int


class Scaled(nn.Module):
    """Logits times a positive factor for each class.

    Shapes: z [N, C] -> [N, C]
    """

    def __init__(self, classes: int) -> None:
        super().__init__()
        self.log_scale = nn.Parameter(torch.zeros(classes))

    def forward(self, z: Tensor) -> Tensor:
        """Scaled logits."""
        return z * self.log_scale.exp()


def first_stage(settings: Sequence[Setting]) -> Stage:
    """The stage that trains whole heads."""
    one = settings[0]
    with torch.no_grad():
        select = one.head.preprocess(one.data.select.features(one.rows.columns))
    objectives = []
    for setting in settings:
        _place(setting)
        core = Core(setting.head.body, setting.head.classifier)
        objectives.append(_objective(setting.run.train, setting, core, setting.facts))
    return _stage(settings, objectives, Features(one.rows.x, select, True), 1)


@torch.no_grad()
def _place(setting: Setting) -> None:
    """Start a classifier from the training rows, where its spec says how."""
    classifier, head = setting.run.head.classifier, setting.head
    if isinstance(classifier, Placed) and isinstance(head.classifier, CosineLayer):
        rows = setting.rows.for_classifier(head.body(setting.rows.x), setting.facts, setting.data.class_names)
        classifier.start(head.classifier, rows, setting.start)


@torch.no_grad()
def second_stage(settings: Sequence[Setting]) -> Stage:
    """The stage that trains classifiers, or factors on their logits, with all before them frozen.

    A fresh classifier takes the place of the old one in its head.
    """
    train, select, objectives = [], [], []
    for setting in settings:
        head, rows, second = setting.head, setting.rows, stepped_second(setting.run)
        spec, facts = second_spec(setting.run), second_facts(setting.facts, second)
        front = head.body if isinstance(second, Crt) else nn.Sequential(head.body, head.classifier)
        train.append(front(rows.x))
        select.append(front(head.preprocess(setting.data.select.features(rows.columns))))
        if isinstance(second, Crt):
            _renew(setting, second)
            core = Core(Pass(head.body.width), head.classifier)
        else:
            classes = len(setting.data.class_names)
            core = Core(Pass(classes), Scaled(classes))
        objectives.append(_objective(spec, setting, core, facts))
    return _stage(settings, objectives, Features(torch.stack(train), torch.stack(select), False), 2)


def _renew(setting: Setting, crt: Crt) -> None:
    head, spec = setting.head, setting.run.head.classifier
    if crt.init == "fresh" and not isinstance(spec, Closed):
        built = spec.build(head.body.width, len(setting.data.class_names), setting.start)
        head.classifier = built.to(setting.rows.x.device, setting.rows.x.dtype)
        _place(setting)


def stepped_second(run: RunSpec) -> Crt | Lws:
    """The second stage of a run, which takes gradient steps."""
    if not isinstance(run.second, Crt | Lws):
        raise TypeError(f"second stage {run.second.kind} takes no gradient steps.")
    return run.second


def second_spec(run: RunSpec) -> StageSpec:
    """What the second stage of a run minimises, and how: plain cross entropy along a cosine."""
    first, second = run.train, stepped_second(run)
    return StageSpec(
        optim=second.optim,
        schedule=second.schedule(first.schedule),
        early_stop=first.early_stop.model_copy(update={"epoch": second.epoch}),
        sampler=Shuffled(draw=second.sampler),
    )


def second_facts(facts: Facts, second: Crt | Lws) -> Facts:
    """The facts of the training rows as the second stage's sampler shows them, at its end."""
    return facts.under_sampler(shares_of(Shuffled(draw=second.sampler), facts.counts, 1.0)).unweighted()


def fold(setting: Setting, scaled: Scaled) -> None:
    """Multiply the factors of a second stage into the linear classifier before it."""
    linear = linear_of(setting.head.classifier)
    with torch.no_grad():
        factors = scaled.log_scale.exp()
        linear.weight.mul_(factors[:, None])
        linear.bias.mul_(factors)


def _objective(spec: StageSpec, setting: Setting, core: Core, facts: Facts) -> Objective:
    objective = Objective(spec, setting.run.head.classifier, core, facts, setting.start)
    return objective.to(setting.rows.x.device, setting.rows.x.dtype)


def _stage(settings: Sequence[Setting], objectives: Sequence[Objective], features: Features, place: int) -> Stage:
    """The stage of runs that share all but their numbers."""
    one, spec = settings[0], objectives[0].spec
    labels, device = one.rows.labels, features.train.device
    affine = one.head.preprocess if place == 1 else None
    for objective, x in zip(objectives, features.each(len(objectives)), strict=True):
        objective.prepare(x, labels, affine, len(one.data.train))
    order = generator(one.run.order, "order", place)
    noises = [generator(s.run.seed, "noise", place, device) for s in settings]
    on_cpu = labels.cpu()

    def batches(progress: float) -> Sequence[Tensor]:
        found = batches_of(spec.sampler, on_cpu, spec.schedule.batch_size, order, progress)
        return [rows.to(device) for rows in found]

    early_stops = [o.spec.early_stop for o in objectives]
    stack = Stack(objectives, noises, features)
    epochs = spec.epochs_for(len(one.data.train))
    return Stage(settings, early_stops, stack, labels, batches, order, spec.schedule, epochs)
