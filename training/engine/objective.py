"""Training objective of one head in a stage of gradient steps; `training/engine/stack.py` vectorises it over heads."""

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
    """Return the statistics at a progress from 0 to 1; the sampler or the class weights may change during training."""
    if isinstance(spec.sampler, Shuffled) and spec.sampler.draw == "progressive":
        statistics = statistics.under_sampler(shares_of(spec.sampler, statistics.counts.cpu(), progress))
    if not isinstance(spec.loss.weight_schedule, ConstantSchedule):
        statistics = statistics.weighted(spec.loss.weight_schedule(statistics.weight, progress))
    return statistics


class Objective(nn.Module):
    """Training objective of one head, with everything trainable as submodules.

    Attributes:
        core: the body and the classifier, which are kept after training.
        parts: parts of the loss's methods, which are discarded after training.
        views: number of consecutive rows in a batch that show the same image; 1 if rows are drawn independently.
        affine: mean and scale [D] that map preprocessed vectors back to rescaled ones, or None before `measure`.
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
        """Names of the parameters with weight decay.

        Vectors (biases, norms) have none, because a decayed output bias would undo a prior. Neither have the weights
        of cosine classifiers, whose norm has no effect.
        """
        cosine = [f"{name}.weight" for name, module in self.named_modules() if isinstance(module, CosineLayer)]
        return frozenset(name for name, p in self.named_parameters() if p.ndim > 1 and name not in cosine)

    @torch.no_grad()
    def measure(self, rows: TrainRows) -> None:
        """Compute the statistics of the training rows that augmentation needs, once for all heads of a stack.

        Synthetic rows are excluded.
        """
        self.affine = mean, scale = rows.preprocess.in_units
        if not self.spec.augment.is_neutral:
            self.channels = channels_in(rows.pieces())
        if not isinstance(self.spec.frofa, NoFrofa):
            cached = (as_cached(piece, self.affine) for piece in rows.pieces())
            self.cached = Cached(mean, scale, ranges_in(cached, rows.table_rows))

    def prepare(self, rows: TrainRows, measured: "Objective") -> None:
        """Copy the statistics measured by the first head of a stack, and initialise the parts of the methods."""
        self.channels, self.cached, self.affine = measured.channels, measured.cached, measured.affine
        self.parts.prepare(self.spec.loss, rows, self.statistics, self.core, measured.parts)

    def draw(self, x: Tensor, labels: Tensor, generator: torch.Generator) -> Draws:
        """Draw the random numbers of a step with features x [N, D] and labels [N], on their device."""
        spec, shape = self.spec, (len(x), x.shape[-1])
        return Draws(
            () if isinstance(spec.frofa, NoFrofa) else spec.frofa.draw(shape, generator, x.dtype),
            () if spec.augment.is_neutral else spec.augment.draw(shape, generator, x.dtype),
            () if spec.mixing is None else spec.mixing.draw(labels, self.statistics.counts, generator),
            self.core.body.draw(len(x), generator, x.dtype),
            self.parts.draw(spec.loss, len(x), generator),
        )

    def forward(
        self, x: Tensor, labels: Tensor, index: Tensor, draws: Draws, per_head: PerHead, per_step: PerStep
    ) -> tuple[Tensor, Updates]:
        """Return the objective for features x [N, D], labels [N] and row indices [N], and the updated buffers."""
        spec, classifier = self._with_numbers(per_head.numbers)
        statistics = replace(self.statistics, weight=per_head.weight, log_prior_effective=per_head.log_prior)
        statistics = statistics_at(statistics, self.spec, per_step.progress)
        seen = self._augmented(spec, x, draws)
        hidden, branches = self._hidden(seen, labels, draws, per_step)
        mix = draws.mix if draws.mix else None
        plain = self.core.body(seen, draws.dropped) if mix and "unmixed" in self.parts.needs else hidden
        step = StepContext(
            core=self.core,
            statistics=statistics,
            progress=per_step.progress,
            labels=labels,
            label_index=statistics.position[labels],
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
        """Return the objective of a step whose logits are not yet divided by temperatures, and the updated buffers."""
        temperatures, updates = self.parts.class_temperatures(spec.loss, step)
        if temperatures is not None:
            step = replace(step, logits=divided(step.logits, temperatures))
        effects = self.parts.effects(spec.loss, step, draws.of_parts)
        margin = self._margin(classifier, step.progress, temperatures)
        point = effects.wrapped(spec.loss.point)
        mean = branched_objective(spec.loss, step.logits, step.branches, step.statistics, step.progress, margin, point)
        value = effects.with_terms(spec.loss.point_weight * mean)
        updates = {f"parts.{name}": buffer for name, buffer in (updates | effects.finished()).items()}
        if temperatures is not self.core.tau:
            updates |= {"core.tau": cast(Tensor, temperatures)}
        return value, updates

    @property
    def decay_rows(self) -> dict[str, Tensor]:
        """Weight-decay factors [C, 1] of the classifier's rows by parameter name; empty if no method has any."""
        factors = self.parts.decay_factors()
        if factors is None:
            return {}
        return {"core.classifier.weight": factors.to(cast(Tensor, self.core.classifier.weight))}

    @property
    def rates(self) -> dict[str, float]:
        """Learning-rate factors by parameter name, for parameters with a rate of their own."""
        return {f"parts.{name}": factor for name, factor in self.parts.rates.items()}

    @property
    def row_buffers(self) -> dict[str, Literal["set", "add"]]:
        """How a step updates each buffer with one entry per training row, by name."""
        return {f"parts.{name}": how for name, how in self.parts.row_buffers.items()}

    def _with_numbers(self, numbers: Mapping[str, Tensor]) -> tuple[StageSpec, ClassifierSpec]:
        """Return the specs with a head's own numbers."""
        if not numbers:
            return self.spec, self.classifier
        within: dict[str, dict[str, Tensor]] = {"train": {}, "classifier": {}}
        for path, number in numbers.items():
            spec, _, rest = path.partition(".")
            within[spec][rest] = number
        return with_numbers(self.spec, within["train"]), with_numbers(self.classifier, within["classifier"])

    def _margin(self, classifier: ClassifierSpec, progress: float, temperatures: Tensor | None) -> Margin | None:
        """Return the classifier's margin for logits already divided by temperatures, or None if it has none."""
        if not classifier.has_margin:
            return None
        counts, scale = self.statistics.counts[self.statistics.present], cast(Tensor, self.core.classifier.scale)
        if temperatures is None:
            return lambda logits, own: classifier.margined(logits, own, counts, scale, progress)
        of_class = of_present(temperatures, self.statistics)
        return lambda logits, own: classifier.margined(logits * of_class, own, counts, scale, progress) / of_class

    def _augmented(self, spec: StageSpec, x: Tensor, draws: Draws) -> Tensor:
        """Augment features x [N, D]; FroFA acts on the rescaled cached vectors, before centring and standardisation."""
        if draws.frofa and self.cached is not None and not isinstance(spec.frofa, NoFrofa):
            mean, scale, ranges = self.cached
            x = (spec.frofa(x * scale + mean, ranges, draws.frofa) - mean) / scale
        return spec.augment(x, self.channels, draws.augment) if draws.augment and self.channels is not None else x

    def _hidden(self, x: Tensor, labels: Tensor, draws: Draws, moment: PerStep) -> tuple[Tensor, tuple[Branch, ...]]:
        """Return the classifier's inputs [N, H] for features x [N, D], mixed if mixing is on, and their labels."""
        body = self.core.body
        if draws.mix:
            below = body(x, draws.dropped, end=moment.layer)
            return body(draws.mix(below), draws.dropped, start=moment.layer), draws.mix.branches(labels)
        return body(x, draws.dropped), moment.branches(labels)
