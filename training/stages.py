"""The two stages of a run: the whole head, and then perhaps its classifier alone."""

import torch
from torch import Tensor, nn

from heads.head import Head
from training.augment import Channels, FeatureAugment, channels_of
from training.facts import Facts, under_sampler
from training.losses.loss import Branch, LossSpec, branched_objective, objective
from training.mixup import Mixup
from training.samplers import class_shares, draw_rows
from training.second import Crt
from training.steps import Setting, Stage

SECOND_LOSS = LossSpec()
"""What the second stage minimises: plain cross entropy."""


def first_stage(setting: Setting, head: Head, x: Tensor) -> Stage:
    """The stage that trains the whole head on training features x [N, D]."""
    spec, labels, noise = setting.run.train, setting.data.train.labels, setting.noise
    supcon = spec.loss.supcon
    projector = supcon.projector.build(head.body.width, setting.order) if supcon.weight > 0 else nn.Identity()
    projector.to(x.device)
    channels = _channels(spec.augment, head, x)

    def loss(rows: Tensor, progress: float) -> Tensor:
        vectors, own = head.preprocess(x[rows]), labels[rows]
        if channels is not None:
            vectors = spec.augment(vectors, channels, noise)
        hidden, branches = _hidden(spec.mixup, head, vectors, own, noise)
        value = branched_objective(spec.loss, head.classifier(hidden), branches, setting.facts, progress)
        if supcon.weight > 0:
            # The contrast needs rows of one class, so it never sees mixed ones.
            plain = hidden if spec.mixup.alpha == 0 else head.body(vectors, noise)
            value = value + supcon.weight * supcon(projector(plain), own)
        return value

    return Stage(
        name="train.optim.lr",
        module=nn.ModuleList([head, projector]),
        order=lambda: torch.randperm(len(labels), generator=setting.order),
        loss=loss,
        optim=spec.optim,
        schedule=spec.schedule,
    )


def _channels(augment: FeatureAugment, head: Head, x: Tensor) -> Channels | None:
    """The statistics that augmentation needs of training features x [N, D]; None where it is neutral."""
    return None if augment.is_neutral else channels_of(head.preprocess(x))


def _hidden(
    mixup: Mixup, head: Head, vectors: Tensor, labels: Tensor, noise: torch.Generator
) -> tuple[Tensor, tuple[Branch, ...]]:
    """The classifier's input [N, H] for preprocessed vectors [N, D], mixed where asked for, and its labels."""
    if mixup.alpha == 0:
        return head.body(vectors, noise), (Branch(labels, torch.ones_like(labels)),)
    mix = mixup.draw(len(vectors), head.body.depth, noise)
    below = head.body(vectors, noise, end=mix.layer)
    return head.body(mix(below), noise, start=mix.layer), mix.branches(labels)


def second_stage(setting: Setting, head: Head, x: Tensor, crt: Crt) -> Stage:
    """The stage that trains the classifier of a head on the frozen body's output for training features x [N, D].

    A fresh classifier takes the place of the old one in head.
    """
    labels, facts = setting.data.train.labels, second_facts(setting.facts, crt)
    head.eval()
    with torch.no_grad():
        hidden = head.hidden(x)
    if crt.init == "fresh":
        built = setting.run.head.classifier.build(head.body.width, len(setting.data.class_names), setting.order)
        head.classifier = built.to(x.device)
    return Stage(
        name="second.lr",
        module=head.classifier,
        order=lambda: draw_rows(crt.sampler, labels.cpu(), setting.order),
        loss=lambda rows, progress: objective(
            SECOND_LOSS, head.classifier(hidden[rows]), labels[rows], facts, progress
        ),
        optim=crt.optim,
        schedule=crt.schedule(setting.run.train.schedule),
    )


def second_facts(facts: Facts, crt: Crt) -> Facts:
    """The facts of the training rows as the second stage's sampler shows them."""
    return under_sampler(facts, class_shares(crt.sampler, facts.counts))
