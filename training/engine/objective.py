"""The scalar that a stage of gradient steps minimises, for one head; `training/engine/stack.py` lifts it over many."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Literal, cast

import torch
from torch import Tensor, nn

from frostbench.heads.head import ClassifierSpec, Core, divided
from frostbench.heads.spec import with_numbers
from frostbench.heads.stepped.cosine import CosineLayer
from frostbench.training.augment.features import Channels, channels_in
from frostbench.training.augment.frofa import NoFrofa, ranges_in
from frostbench.training.data.train_rows import TrainRows
from frostbench.training.engine.step_inputs import Cached, Draws, PerHead, PerStep
from frostbench.training.losses.class_statistics import ClassStatistics, of_present
from frostbench.training.losses.class_weights import ConstantSchedule
from frostbench.training.losses.loss import Margin, branched_objective
from frostbench.training.losses.parts import LossParts
from frostbench.training.losses.scores import Branch
from frostbench.training.losses.step import StepContext, Updates, as_cached
from frostbench.training.sampling.batches import Shuffled, shares_of
from frostbench.training.spec.stage import StageSpec


def statistics_at(statistics: ClassStatistics, spec: StageSpec, progress: float) -> ClassStatistics:
    """The statistics at a progress from 0 to 1, where the sampler or the class weights change in training."""
    if isinstance(spec.sampler, Shuffled) and spec.sampler.draw == "progressive":
        statistics = statistics.under_sampler(shares_of(spec.sampler, statistics.counts.cpu(), progress))
    if not isinstance(spec.loss.weight_schedule, ConstantSchedule):
        statistics = statistics.weighted(spec.loss.weight_schedule(statistics.weight, progress))
    return statistics


class Objective(nn.Module):
    """The scalar that a stage minimises for one head, whose trainable parts are its submodules.

    Attributes:
        core: what stays: the body and the classifier.
        parts: those of the loss's methods, which are thrown away.
        views: rows of each image, one after another in a batch; 1 where rows are drawn one by one.
        affine: mean and scale [D] that preprocessed vectors divided by their units; None before they were measured.
    """

    def __init__(
        self,
        spec: StageSpec,
        classifier: ClassifierSpec,
        core: Core,
        statistics: ClassStatistics,
        generator: torch.Generator,
    ) -> None:
        super().__init__()
        self.core = core
        self.parts = LossParts(spec.loss, core, len(statistics.present), generator)
        self.views = 1
        self.spec, self.classifier, self.statistics = spec, classifier, statistics
        self.affine: tuple[Tensor, Tensor] | None = None
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
    def measure(self, rows: TrainRows) -> None:
        """Take the statistics of training rows that augmentation needs; they are those of all heads of a stack.

        Rows that were made up are in no statistic.
        """
        self.affine = mean, scale = rows.preprocess.in_units
        if not self.spec.augment.is_neutral:
            self.channels = channels_in(rows.pieces())
        if not isinstance(self.spec.frofa, NoFrofa):
            cached = (as_cached(piece, self.affine) for piece in rows.pieces())
            self.cached = Cached(mean, scale, ranges_in(cached, rows.table_rows))

    def prepare(self, rows: TrainRows, measured: "Objective") -> None:
        """Take the statistics that the first head of a stack measured, and what the methods start from."""
        self.channels, self.cached, self.affine = measured.channels, measured.cached, measured.affine
        self.parts.prepare(self.spec.loss, rows, self.statistics, self.core, measured.parts)

    def draw(self, x: Tensor, labels: Tensor, generator: torch.Generator) -> Draws:
        """The random numbers of a step with features x [N, D] and labels [N], drawn where these are."""
        spec, shape = self.spec, (len(x), x.shape[-1])
        return Draws(
            () if isinstance(spec.frofa, NoFrofa) else spec.frofa.draw(shape, generator, x.dtype),
            () if spec.augment.is_neutral else spec.augment.draw(shape, generator, x.dtype),
            () if spec.mixing is None else spec.mixing.draw(labels, self.statistics.counts, generator),
            self.core.body.draw(len(x), generator, x.dtype),
            self.parts.draw(spec.loss, len(x), generator),
        )

    def forward(
        self, x: Tensor, labels: Tensor, index: Tensor, draws: Draws, own: PerHead, moment: PerStep
    ) -> tuple[Tensor, Updates]:
        """The objective of features x [N, D], labels [N] and row numbers [N], and its buffers after the step."""
        spec, classifier = self._lifted(own.numbers)
        statistics = replace(self.statistics, weight=own.weight, log_prior_effective=own.log_prior)
        statistics = statistics_at(statistics, self.spec, moment.progress)
        seen = self._augmented(spec, x, draws)
        hidden, branches = self._hidden(seen, labels, draws, moment)
        mix = draws.mix if draws.mix else None
        plain = self.core.body(seen, draws.dropped) if mix and "unmixed" in self.parts.needs else hidden
        step = StepContext(
            core=self.core,
            statistics=statistics,
            progress=moment.progress,
            labels=labels,
            own=statistics.position[labels],
            index=index,
            branches=branches,
            table=x,
            x=lambda: mix(seen) if mix else seen,
            hidden=hidden,
            unmixed=plain,
            logits=self.core.classifier(hidden),
            is_mixed=mix is not None,
            affine=self.affine,
            views=self.views,
        )
        return self._value(spec, classifier, step, draws)

    def _value(
        self, spec: StageSpec, classifier: ClassifierSpec, step: StepContext, draws: Draws
    ) -> tuple[Tensor, Updates]:
        """The objective of a step whose logits are not divided by class temperatures yet, and buffers after it."""
        tau, updates = self.parts.class_temperatures(spec.loss, step)
        if tau is not None:
            step = replace(step, logits=divided(step.logits, tau))
        effects = self.parts.effects(spec.loss, step, draws.of_parts)
        margin = self._margin(classifier, step.progress, tau)
        point = effects.wrapped(spec.loss.point)
        mean = branched_objective(spec.loss, step.logits, step.branches, step.statistics, step.progress, margin, point)
        value = effects.with_terms(spec.loss.point_weight * mean)
        updates = {f"parts.{name}": buffer for name, buffer in (updates | effects.finished()).items()}
        return value, updates if tau is self.core.tau else updates | {"core.tau": cast(Tensor, tau)}

    @property
    def decay_rows(self) -> dict[str, Tensor]:
        """Factors [C, 1] on the weight decay of the classifier's rows, by name, where a method has some."""
        factors = self.parts.decay_factors()
        if factors is None:
            return {}
        return {"core.classifier.weight": factors.to(cast(Tensor, self.core.classifier.weight))}

    @property
    def rates(self) -> dict[str, float]:
        """Factors on the learning rates of parameters that have their own, by name."""
        return {f"parts.{name}": factor for name, factor in self.parts.rates.items()}

    @property
    def row_buffers(self) -> dict[str, Literal["set", "add"]]:
        """How an update changes each buffer with an entry for every training row, by name."""
        return {f"parts.{name}": how for name, how in self.parts.row_buffers.items()}

    def _lifted(self, numbers: Mapping[str, Tensor]) -> tuple[StageSpec, ClassifierSpec]:
        """The specs with a head's own numbers in place."""
        if not numbers:
            return self.spec, self.classifier
        within: dict[str, dict[str, Tensor]] = {"train": {}, "classifier": {}}
        for path, number in numbers.items():
            place, _, rest = path.partition(".")
            within[place][rest] = number
        return with_numbers(self.spec, within["train"]), with_numbers(self.classifier, within["classifier"])

    def _margin(self, classifier: ClassifierSpec, progress: float, tau: Tensor | None) -> Margin | None:
        """What the classifier does to its logits in training, where it has a margin; these come divided by tau [C]."""
        if not classifier.has_margin:
            return None
        counts, scale = self.statistics.counts[self.statistics.present], cast(Tensor, self.core.classifier.scale)
        if tau is None:
            return lambda logits, own: classifier.margined(logits, own, counts, scale, progress)
        of_class = of_present(tau, self.statistics)
        return lambda logits, own: classifier.margined(logits * of_class, own, counts, scale, progress) / of_class

    def _augmented(self, spec: StageSpec, x: Tensor, draws: Draws) -> Tensor:
        """Features x [N, D] changed at random; what acts on cached vectors is done as if before preprocessing."""
        if draws.frofa and self.cached is not None and not isinstance(spec.frofa, NoFrofa):
            mean, scale, ranges = self.cached
            x = (spec.frofa(x * scale + mean, ranges, draws.frofa) - mean) / scale
        return spec.augment(x, self.channels, draws.augment) if draws.augment and self.channels is not None else x

    def _hidden(self, x: Tensor, labels: Tensor, draws: Draws, moment: PerStep) -> tuple[Tensor, tuple[Branch, ...]]:
        """The classifier's input [N, H] for features x [N, D], mixed where asked for, and its labels."""
        body = self.core.body
        if draws.mix:
            below = body(x, draws.dropped, end=moment.layer)
            return body(draws.mix(below), draws.dropped, start=moment.layer), draws.mix.branches(labels)
        return body(x, draws.dropped), moment.branches(labels)
