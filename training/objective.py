"""What one stage of gradient steps minimises, written for one head and lifted over many by `training.stack`."""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import NamedTuple, cast

import torch
from torch import Tensor, nn

from heads.body import Dropped
from heads.cosine import CosineLayer
from heads.external import ExternalClassifier
from heads.head import ClassifierSpec, Core, Margined
from heads.preprocess import Affine
from heads.spec import with_numbers
from training.augment import AugmentDraw, Channels, channels_in
from training.batches import Shuffled, shares_of
from training.facts import Facts
from training.frofa import FrofaDraw, NoFrofa, Ranges, ranges_in
from training.losses.loss import Branch, Margin, branched_objective
from training.mixup import Mix
from training.stage_spec import StageSpec
from training.stream import StreamedRows
from training.terms import Terms, Updates
from training.weights import ConstantSchedule


class Draws(NamedTuple):
    """The random numbers of one step; what a stage does not use is empty."""

    frofa: FrofaDraw | tuple[()]
    augment: AugmentDraw | tuple[()]
    mix: Mix | tuple[()]
    dropped: Dropped


class Own(NamedTuple):
    """What a head has for itself in a stack, beside its parameters.

    Attributes:
        numbers: swept numbers by dotted path, 0-d; empty where the specs' own hold.
        weight: [C+] class weights.
        log_prior: [C+] log of the prior that the loss sees.
    """

    numbers: Mapping[str, Tensor]
    weight: Tensor
    log_prior: Tensor


class Cached(NamedTuple):
    """How preprocessed vectors were cached: these are x * scale + mean, within ranges over the training rows."""

    mean: Tensor
    scale: Tensor
    ranges: Ranges


class Moment(NamedTuple):
    """What the heads of a stack share in one step: blocks before a mixing, and the progress from 0 to 1."""

    layer: int
    progress: float


def facts_at(facts: Facts, spec: StageSpec, progress: float) -> Facts:
    """The facts at a progress from 0 to 1, where the sampler or the class weights change in training."""
    if isinstance(spec.sampler, Shuffled) and spec.sampler.draw == "progressive":
        facts = facts.under_sampler(shares_of(spec.sampler, facts.counts.cpu(), progress))
    if not isinstance(spec.loss.weight_schedule, ConstantSchedule):
        facts = facts.weighted(spec.loss.weight_schedule(facts.weight, progress))
    return facts


def _pieces(x: Tensor | StreamedRows, rows: int) -> Iterable[Tensor]:
    """The first rows of a tensor, or all rows of the table where these are streamed, for none are made up then."""
    return x.pieces() if isinstance(x, StreamedRows) else [x[:rows]]


class Objective(nn.Module):
    """The scalar that a stage minimises for one head, whose trainable parts are its submodules.

    Attributes:
        core: what stays: the body and the classifier.
        terms: what is thrown away.
    """

    def __init__(
        self, spec: StageSpec, classifier: ClassifierSpec, core: Core, facts: Facts, generator: torch.Generator
    ) -> None:
        super().__init__()
        self.core = core
        self.terms = Terms(spec.loss, core, generator)
        self.spec, self.classifier, self.facts = spec, classifier, facts
        self.channels: Channels | None = None
        self.cached: Cached | None = None

    @property
    def decayed(self) -> frozenset[str]:
        """Names of the parameters that weight decay shrinks.

        Vectors (biases, norms) are not: a decayed output bias would undo a prior. Nor are the weights of cosine
        classifiers, whose length plays no part.
        """
        cosine = [f"{name}.weight" for name, module in self.named_modules() if isinstance(module, CosineLayer)]
        return frozenset(name for name, p in self.named_parameters() if p.ndim > 1 and name not in cosine)

    @torch.no_grad()
    def measure(self, x: Tensor | StreamedRows, affine: Affine, rows: int) -> None:
        """Take the statistics of training rows that augmentation needs; they are those of all heads of a stack.

        Args:
            x: preprocessed features [N, D].
            affine: what preprocessed them.
            rows: how many of them are rows of the table; the rest was made up, and is in no statistic.
        """
        if not self.spec.augment.is_neutral:
            self.channels = channels_in(_pieces(x, rows))
        if not isinstance(self.spec.frofa, NoFrofa):
            cached = (piece * affine.scale + affine.mean for piece in _pieces(x, rows))
            self.cached = Cached(affine.mean, affine.scale, ranges_in(cached, rows))

    @torch.no_grad()
    def prepare(self, x: Tensor | StreamedRows, labels: Tensor, measured: "Objective") -> None:
        """Take the statistics that the first head of a stack measured, and what the terms start from."""
        self.channels, self.cached = measured.channels, measured.cached
        if self.spec.loss.center.weight > 0:
            self.terms.prepare(self.core.body(x), labels, self.facts)

    def draw(self, x: Tensor, labels: Tensor, generator: torch.Generator) -> Draws:
        """The random numbers of a step with features x [N, D] and labels [N], drawn where these are."""
        spec, shape = self.spec, (len(x), x.shape[-1])
        return Draws(
            () if isinstance(spec.frofa, NoFrofa) else spec.frofa.draw(shape, generator, x.dtype),
            () if spec.augment.is_neutral else spec.augment.draw(shape, generator, x.dtype),
            () if spec.mixup.alpha == 0 else spec.mixup.draw(labels, self.facts.counts, generator),
            self.core.body.draw(len(x), generator, x.dtype),
        )

    def forward(self, x: Tensor, labels: Tensor, draws: Draws, own: Own, moment: Moment) -> tuple[Tensor, Updates]:
        """The objective of features x [N, D] and labels [N], and its buffers after the step."""
        spec, classifier = self._lifted(own.numbers)
        facts = replace(self.facts, weight=own.weight, log_prior_effective=own.log_prior)
        facts = facts_at(facts, self.spec, moment.progress)
        x = self._augmented(spec, x, draws)
        hidden, branches = self._hidden(x, labels, draws, moment.layer)
        logits = self.core.classifier(hidden)
        margin = self._margin(classifier, moment.progress)
        value = spec.loss.point_weight * branched_objective(spec.loss, logits, branches, facts, moment.progress, margin)
        plain = hidden
        if draws.mix and self.terms.reads_hidden:
            plain = self.core.body(x, draws.dropped)
        beside, updates = self.terms(spec.loss, self.core, plain, logits, labels, facts)
        return value + beside, updates

    def _lifted(self, numbers: Mapping[str, Tensor]) -> tuple[StageSpec, ClassifierSpec]:
        """The specs with a head's own numbers in place."""
        if not numbers:
            return self.spec, self.classifier
        within: dict[str, dict[str, Tensor]] = {"train": {}, "classifier": {}}
        for path, number in numbers.items():
            place, _, rest = path.partition(".")
            within[place][rest] = number
        return with_numbers(self.spec, within["train"]), with_numbers(self.classifier, within["classifier"])

    def _margin(self, classifier: ClassifierSpec, progress: float) -> Margin | None:
        """What the classifier does to its logits in training, where it has a margin."""
        if not (
            isinstance(classifier, Margined) or (isinstance(classifier, ExternalClassifier) and classifier.has_margin)
        ):
            return None
        counts, scale = self.facts.counts[self.facts.present], cast(Tensor, self.core.classifier.scale)
        return lambda logits, own: classifier.margined(logits, own, counts, scale, progress)

    def _augmented(self, spec: StageSpec, x: Tensor, draws: Draws) -> Tensor:
        """Features x [N, D] changed at random; what acts on cached vectors is done as if before preprocessing."""
        if draws.frofa and self.cached is not None and not isinstance(spec.frofa, NoFrofa):
            mean, scale, ranges = self.cached
            x = (spec.frofa(x * scale + mean, ranges, draws.frofa) - mean) / scale
        return spec.augment(x, self.channels, draws.augment) if draws.augment and self.channels is not None else x

    def _hidden(self, x: Tensor, labels: Tensor, draws: Draws, layer: int) -> tuple[Tensor, tuple[Branch, ...]]:
        """The classifier's input [N, H] for features x [N, D], mixed where asked for, and its labels."""
        body = self.core.body
        if not draws.mix:
            return body(x, draws.dropped), (Branch(labels, torch.ones_like(labels)),)
        below = body(x, draws.dropped, end=layer)
        return body(draws.mix(below), draws.dropped, start=layer), draws.mix.branches(labels)
