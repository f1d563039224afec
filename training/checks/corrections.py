"""Notes on corrections of the class frequencies that cancel each other, measured as shifts in logits."""

import math

import torch
from torch import Tensor

from frostbench.heads.posthoc.spec import TAUS
from frostbench.training.losses.class_statistics import ClassStatistics, class_statistics_of
from frostbench.training.run import RunSpec
from frostbench.training.sampling.batches import shares_of
from frostbench.training.sampling.oversample import NoOversample, wanted_rows

LEFT = 0.1
"""A correction counts as cancelled if less than this share of its own shift is left."""
EVEN = 0.1
"""Span of the log class frequencies below which there is nothing to correct."""


def correction_notes(run: RunSpec, labels: Tensor, classes: int, groups: Tensor | None = None) -> tuple[str, ...]:
    """Note corrections of the class frequencies that have almost no effect on training rows with labels [N].

    Class weights, samplers, logit adjustment and the post-hoc adjustment all correct the same prior. Adjustment uses
    the prior that the loss sees, so nothing is left to adjust once weights or a sampler have evened it out. The number
    reported is the span of the shift, in nats: the most that one class's logit moves relative to another's.

    Args:
        run: run to be trained.
        labels: class of each training row [N].
        classes: number of classes (C).
        groups: group of each row [N], used if train.loss.count=groups.

    >>> run = RunSpec.model_validate(
    ...     {"train": {"loss": {"class_weight": {"kind": "effective"}, "logit_adjustment": {"tau": 1}}}}
    ... )
    >>> correction_notes(run, torch.tensor([0] * 90 + [1] * 10), 2)[0].partition(",")[0]
    'train.loss.logit_adjustment moves no logit relative to another by more than 0.004 (2.2 without class weights)'
    """
    if run.is_fitted or len(labels) == 0:
        return ()
    statistics = _final_statistics(run, labels, classes, groups)
    raw = span(statistics.log_prior_raw)
    notes = _weights(run, statistics, raw)
    if run.sees_evenly:
        # Inverse weights and an even sampler are covered by rules, which need no rows.
        return notes
    return notes + _training(run, statistics, raw) + _posthoc(run, statistics, raw)


def span(log_prior: Tensor) -> float:
    """Return the largest difference between two entries of a log prior [C+], in nats.

    >>> round(span(torch.tensor([0.9, 0.1]).log()), 3)
    2.197
    """
    return float(log_prior.max() - log_prior.min())


def _final_statistics(run: RunSpec, labels: Tensor, classes: int, groups: Tensor | None) -> ClassStatistics:
    """Return the class statistics at the end of training, synthetic rows included."""
    counted = groups if run.train.loss.count == "groups" else None
    if not isinstance(run.train.oversample, NoOversample):
        labels, counted = torch.cat([labels, _repeated(wanted_rows(labels))]), None
    statistics = class_statistics_of(labels, classes, run.train.loss.class_weight, counted)
    return statistics.under_sampler(shares_of(run.train.sampler, statistics.counts, 1.0))


def _repeated(counts: Tensor) -> Tensor:
    """Return class labels, each repeated as often as counts [C] states."""
    return torch.arange(len(counts)).repeat_interleave(counts)


def _weights(run: RunSpec, statistics: ClassStatistics, raw: float) -> tuple[str, ...]:
    """Note class weights that hardly differ although class sizes do."""
    if not run.is_weighted or raw < EVEN:
        return ()
    left = span(statistics.weight.log())
    if left >= LEFT * raw:
        return ()
    kind = run.train.loss.class_weight.kind
    return (
        f"class weights of kind {kind} differ by at most a factor of {math.exp(left):.3g}, although class sizes differ "
        f"by a factor of {math.exp(raw):.3g}, so they have almost no effect: raise train.loss.class_weight.beta, or "
        "use another kind",
    )


def _training(run: RunSpec, statistics: ClassStatistics, raw: float) -> tuple[str, ...]:
    """Note a logit adjustment in training with almost no effect."""
    adjustment = run.train.loss.logit_adjustment
    if not run.is_adjusted or adjustment.prior == "given":
        return ()
    left, alone = adjustment.tau * span(statistics.log_prior(adjustment.prior)), adjustment.tau * raw
    return _note("train.loss.logit_adjustment", run, left, alone)


def _posthoc(run: RunSpec, statistics: ClassStatistics, raw: float) -> tuple[str, ...]:
    """Note a post-hoc adjustment with almost no effect; a rule covers one that follows an adjustment in training."""
    if not run.is_shifted or not run.reads_loss_last or run.is_adjusted:
        return ()
    adjustment = run.posthoc.adjustment
    tau = adjustment.tau if adjustment.rule == "fixed" else TAUS[-1]
    return _note("posthoc.adjustment", run, tau * span(statistics.log_prior_effective), tau * raw)


def _note(option: str, run: RunSpec, left: float, alone: float) -> tuple[str, ...]:
    """Note an adjustment that shifts logits by `left` nats, far below the `alone` nats without other corrections."""
    moves = f"{option} moves no logit relative to another by more than {round(left, 9):.2g}"
    if alone < EVEN:
        return (f"{moves}, because the classes have nearly the same size: there is nothing to correct",)
    if left >= LEFT * alone:
        return ()
    by = [word for word, acts in (("class weights", run.is_weighted), ("the sampler", run.is_resampled)) if acts]
    cure = "train.loss.class_weight.kind=none" if run.is_weighted else "train.sampler.draw=instance"
    have = "has" if by == ["the sampler"] else "have"
    return (
        f"{moves} ({alone:.2g} without {' and '.join(by)}), because {' and '.join(by)} {have} already evened out the "
        f"class frequencies: use one of them, such as {cure}",
    )
