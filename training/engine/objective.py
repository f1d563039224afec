"""The scalar that a stage of gradient steps minimises, for one head; `training/engine/stack.py` lifts it over many."""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import cast

import torch
from torch import Tensor, nn

from frostbench.heads.head import ClassifierSpec, Core, divided
from frostbench.heads.preprocess import Affine
from frostbench.heads.spec import with_numbers
from frostbench.heads.stepped.cosine import CosineLayer
from frostbench.training.augment.features import Channels, channels_in
from frostbench.training.augment.frofa import NoFrofa, ranges_in
from frostbench.training.data.row_stream import StreamedRows
from frostbench.training.engine.step_inputs import Cached, Draws, Moment, Own
from frostbench.training.loss_state import LossState, Updates
from frostbench.training.losses.class_statistics import Facts
from frostbench.training.losses.class_weights import ConstantSchedule
from frostbench.training.losses.loss import Branch, LossSpec, Margin, branched_objective, of_present
from frostbench.training.sampling.batches import Shuffled, shares_of
from frostbench.training.spec.stage import StageSpec
from frostbench.training.terms import Terms


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
        state: what the loss remembers, which is thrown away too.
        affine: mean and scale [D] that preprocessed vectors divided by their units; None before they were measured.
    """

    def __init__(
        self, spec: StageSpec, classifier: ClassifierSpec, core: Core, facts: Facts, generator: torch.Generator
    ) -> None:
        super().__init__()
        self.core = core
        self.terms = Terms(spec.loss, core, generator)
        self.state = LossState(spec.loss, core, len(facts.present), generator)
        self.spec, self.classifier, self.facts = spec, classifier, facts
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
    def measure(self, x: Tensor | StreamedRows, affine: Affine, rows: int) -> None:
        """Take the statistics of training rows that augmentation needs; they are those of all heads of a stack.

        Args:
            x: preprocessed features [N, D].
            affine: what preprocessed them.
            rows: how many of them are rows of the table; the rest was made up, and is in no statistic.
        """
        self.affine = mean, scale = affine.in_units
        if not self.spec.augment.is_neutral:
            self.channels = channels_in(_pieces(x, rows))
        if not isinstance(self.spec.frofa, NoFrofa):
            cached = (piece * scale + mean for piece in _pieces(x, rows))
            self.cached = Cached(mean, scale, ranges_in(cached, rows))

    @torch.no_grad()
    def prepare(self, x: Tensor | StreamedRows, labels: Tensor, measured: "Objective") -> None:
        """Take the statistics that the first head of a stack measured, and what the terms start from."""
        self.channels, self.cached, self.affine = measured.channels, measured.cached, measured.affine
        self.state.prepare(self.spec.loss, len(labels), self._fixed_norms(x, measured))
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
            self._signs(len(x), generator, x.dtype),
        )

    def _signs(self, rows: int, generator: torch.Generator, dtype: torch.dtype) -> Tensor | tuple[()]:
        """Signs [N] in place of those of FeDLaS's gate, where they are random."""
        fedlas = self.spec.loss.fedlas
        if fedlas.alpha == 0 or fedlas.gate != "random":
            return ()
        coins = torch.randint(2, (rows,), generator=generator, device=generator.device)
        return (2 * coins - 1).to(dtype)

    def _fixed_norms(self, x: Tensor | StreamedRows, measured: "Objective") -> Tensor | None:
        """Mean and deviation [2] of the feature norms of all rows x [N, D], where FeDLaS keeps to them."""
        fedlas = self.spec.loss.fedlas
        if fedlas.alpha == 0 or fedlas.statistics != "exact":
            return None
        if self is not measured and measured.state.norms.isfinite().all():
            return measured.state.norms
        norms = torch.cat([fedlas.strengths(self._cached_form(p), p).double() for p in _pieces(x, x.shape[0])])
        return torch.stack([norms.mean(), norms.std()])

    def forward(
        self, x: Tensor, labels: Tensor, index: Tensor, draws: Draws, own: Own, moment: Moment
    ) -> tuple[Tensor, Updates]:
        """The objective of features x [N, D], labels [N] and row numbers [N], and its buffers after the step."""
        spec, classifier = self._lifted(own.numbers)
        facts = replace(self.facts, weight=own.weight, log_prior_effective=own.log_prior)
        facts = facts_at(facts, self.spec, moment.progress)
        table, x = x, self._augmented(spec, x, draws)
        hidden, branches = self._hidden(x, labels, draws, moment)
        plain = self.core.body(x, draws.dropped) if draws.mix and self._reads_plain else hidden
        logits = self.core.classifier(hidden)
        tau, updates = self._temperatures(spec.loss, facts, table, plain, labels, index, logits)
        logits = divided(logits, tau)
        known = of_present(logits, facts)
        point = self.state.point(spec.loss, facts, self._with_norms(x, hidden, draws), known, draws.signs)
        margin = self._margin(classifier, moment.progress, tau)
        mean = branched_objective(spec.loss, logits, branches, facts, moment.progress, margin, point)
        beside, of_terms = self.terms(spec.loss, self.core, plain, logits, labels, branches, facts)
        value, updates = spec.loss.point_weight * mean + beside, updates | of_terms
        updates |= self.state.after(spec.loss, point, known, index)
        if self.spec.loss.crl.weight > 0:
            ranked, of_rows = self.state.ranked(spec.loss, known, facts.position[labels], index)
            value, updates = value + ranked, updates | of_rows
        return value, updates

    @property
    def _reads_plain(self) -> bool:
        """Whether something reads the classifier's input of rows as they were before they were mixed."""
        vace = self.spec.loss.vace
        is_running = vace.strength > 0 and vace.scatter in ("penultimate_ema", "own_logit_ema")
        return self.terms.reads_hidden or is_running

    @torch.no_grad()
    def _temperatures(
        self, spec: LossSpec, facts: Facts, x: Tensor, hidden: Tensor, labels: Tensor, index: Tensor, logits: Tensor
    ) -> tuple[Tensor | None, Updates]:
        """The class temperatures [C] of VACE in a step, and what it remembers of the step where they are running ones.

        Args:
            spec: with a head's own numbers.
            facts: of the training rows.
            x: [N, D] preprocessed, neither augmented nor mixed.
            hidden: [N, H] classifier inputs of rows that were not mixed.
            labels: [N].
            index: [N] row numbers.
            logits: [N, C] of the step, not divided; where rows are mixed they are not those of hidden.
        """
        if len(self.state.scatter) == 0:
            return self.core.tau, {}
        own = facts.position[labels]
        if spec.vace.scatter == "own_logit_ema":
            unmixed = logits if self.spec.mixup.alpha == 0 else self.core.classifier(hidden)
            scattered = of_present(unmixed, facts).gather(1, own[:, None])
        else:
            scattered = self._cached_form(x).flatten(1) if spec.vace.scatter == "input_ema" else hidden
        tau, scatter = self.state.running_temperatures(spec, facts, scattered, own, index)
        every = facts.over_all(tau)
        return every, {"state.scatter": scatter, "core.tau": every}

    def _cached_form(self, x: Tensor) -> Tensor:
        """Vectors [N, D] as they are in the cache, divided by their units but not standardised."""
        if self.affine is None:
            return x
        mean, scale = self.affine
        return x * scale + mean

    def _with_norms(self, x: Tensor, hidden: Tensor, draws: Draws) -> Tensor:
        """The features [N, H] whose norms FeDLaS takes: of vectors x [N, D], or the classifier's inputs [N, H]."""
        if self.spec.loss.fedlas.alpha == 0 or not self.state.reads_input:
            return hidden
        return self._cached_form(draws.mix(x) if draws.mix else x)

    @property
    def decay_rows(self) -> dict[str, Tensor]:
        """Factors [C, 1] on the weight decay of the classifier's rows, by name, where VACE acts on that alone."""
        vace, found = self.spec.loss.vace, self.facts.spread_temperatures()
        if vace.acts_on != "decay" or found is None:
            return {}
        weight = cast(Tensor, self.core.classifier.weight)
        return {"core.classifier.weight": found.pow(vace.decay_power).to(weight)[:, None]}

    @property
    def rates(self) -> dict[str, float]:
        """Factors on the learning rates of parameters that have their own, by name."""
        rate = self.spec.loss.fedlas.gate_rate
        return {f"state.{name}": rate for name, _ in self.state.named_parameters()} if rate != 1 else {}

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
        counts, scale = self.facts.counts[self.facts.present], cast(Tensor, self.core.classifier.scale)
        if tau is None:
            return lambda logits, own: classifier.margined(logits, own, counts, scale, progress)
        of_class = of_present(tau, self.facts)
        return lambda logits, own: classifier.margined(logits * of_class, own, counts, scale, progress) / of_class

    def _augmented(self, spec: StageSpec, x: Tensor, draws: Draws) -> Tensor:
        """Features x [N, D] changed at random; what acts on cached vectors is done as if before preprocessing."""
        if draws.frofa and self.cached is not None and not isinstance(spec.frofa, NoFrofa):
            mean, scale, ranges = self.cached
            x = (spec.frofa(x * scale + mean, ranges, draws.frofa) - mean) / scale
        return spec.augment(x, self.channels, draws.augment) if draws.augment and self.channels is not None else x

    def _hidden(self, x: Tensor, labels: Tensor, draws: Draws, moment: Moment) -> tuple[Tensor, tuple[Branch, ...]]:
        """The classifier's input [N, H] for features x [N, D], mixed where asked for, and its labels."""
        body = self.core.body
        if draws.mix:
            below = body(x, draws.dropped, end=moment.layer)
            return body(draws.mix(below), draws.dropped, start=moment.layer), draws.mix.branches(labels)
        return body(x, draws.dropped), moment.branches(labels)
