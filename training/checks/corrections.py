"""Whether corrections of the class frequencies cancel each other: what is left of each, as a shift in logits."""

import math

import torch
from torch import Tensor

from frostbench.heads.posthoc.spec import TAUS
from frostbench.training.losses.class_statistics import ClassStatistics, class_statistics_of
from frostbench.training.run import RunSpec
from frostbench.training.run_properties import (
    is_adjusted,
    is_fitted,
    is_resampled,
    is_shifted,
    is_weighted,
    reads_loss_last,
    sees_evenly,
)
from frostbench.training.sampling.batches import shares_of
from frostbench.training.sampling.oversample import NoOversample, wanted_rows

LEFT = 0.1
"""A correction counts as cancelled where less than this share of the shift that it would make alone is left."""
EVEN = 0.1
"""Classes whose log frequencies span less than this leave nothing to correct."""


def correction_notes(run: RunSpec, labels: Tensor, classes: int, groups: Tensor | None = None) -> tuple[str, ...]:
    """Say which corrections of the class frequencies have next to no effect on training rows with labels [N].

    Class weights, samplers, logit adjustment and the post-hoc adjustment all correct the same prior. Adjustment goes by
    the prior that the loss sees, so one that weights or a sampler have evened out leaves it nothing to do. The figure
    is the span of the shift: by how many nats the logit of one class moves against that of another at most.

    Args:
        run: what is to be trained.
        labels: class of each training row [N].
        classes: number of classes (C).
        groups: group of each row [N], where train.loss.count=groups weighs classes by groups.

    >>> run = RunSpec.model_validate(
    ...     {"train": {"loss": {"class_weight": {"kind": "effective"}, "logit_adjustment": {"tau": 1}}}}
    ... )
    >>> correction_notes(run, torch.tensor([0] * 90 + [1] * 10), 2)[0].partition(",")[0]
    'train.loss.logit_adjustment moves no logit against another by more than 0.004 (by 2.2 without class weights)'
    """
    if is_fitted(run) or len(labels) == 0:
        return ()
    statistics = _facts(run, labels, classes, groups)
    raw = span(statistics.log_prior_raw)
    notes = _weights(run, statistics, raw)
    if sees_evenly(run):
        # Inverse weights and an even sampler have a rule of their own, which needs no rows.
        return notes
    return notes + _training(run, statistics, raw) + _posthoc(run, statistics, raw)


def span(log_prior: Tensor) -> float:
    """The largest difference between two entries of a log prior [C+], in nats.

    >>> round(span(torch.tensor([0.9, 0.1]).log()), 3)
    2.197
    """
    return float(log_prior.max() - log_prior.min())


def _facts(run: RunSpec, labels: Tensor, classes: int, groups: Tensor | None) -> ClassStatistics:
    """What the losses see at the end of training, made-up rows included."""
    counted = groups if run.train.loss.count == "groups" else None
    if not isinstance(run.train.oversample, NoOversample):
        labels, counted = torch.cat([labels, _repeated(wanted_rows(labels))]), None
    found = class_statistics_of(labels, classes, run.train.loss.class_weight, counted)
    return found.under_sampler(shares_of(run.train.sampler, found.counts, 1.0))


def _repeated(counts: Tensor) -> Tensor:
    """Labels of as many rows of each class as counts [C] says."""
    return torch.arange(len(counts)).repeat_interleave(counts)


def _weights(run: RunSpec, statistics: ClassStatistics, raw: float) -> tuple[str, ...]:
    """That class weights hardly differ although class sizes do."""
    if not is_weighted(run) or raw < EVEN:
        return ()
    left = span(statistics.weight.log())
    if left >= LEFT * raw:
        return ()
    kind = run.train.loss.class_weight.kind
    return (
        f"class weights of kind {kind} differ by a factor of {math.exp(left):.3g} at most, although class sizes differ "
        f"by a factor of {math.exp(raw):.3g}, so they change next to nothing: raise train.loss.class_weight.beta, or "
        "use another kind",
    )


def _training(run: RunSpec, statistics: ClassStatistics, raw: float) -> tuple[str, ...]:
    """That logit adjustment in training shifts next to nothing."""
    adjustment = run.train.loss.logit_adjustment
    if not is_adjusted(run) or adjustment.prior == "given":
        return ()
    left, alone = adjustment.tau * span(statistics.log_prior(adjustment.prior)), adjustment.tau * raw
    return _told("train.loss.logit_adjustment", run, left, alone)


def _posthoc(run: RunSpec, statistics: ClassStatistics, raw: float) -> tuple[str, ...]:
    """That the adjustment after training shifts next to nothing; beside one in training, a rule says what both do."""
    if not is_shifted(run) or not reads_loss_last(run) or is_adjusted(run):
        return ()
    adjustment = run.posthoc.adjustment
    tau = adjustment.tau if adjustment.rule == "fixed" else TAUS[-1]
    return _told("posthoc.adjustment", run, tau * span(statistics.log_prior_effective), tau * raw)


def _told(option: str, run: RunSpec, left: float, alone: float) -> tuple[str, ...]:
    """The note on an adjustment that shifts by left nats, and would shift by so many alone."""
    moves = f"{option} moves no logit against another by more than {round(left, 9):.2g}"
    if alone < EVEN:
        return (f"{moves}, since the classes are of nearly one size: there is nothing to correct",)
    if left >= LEFT * alone:
        return ()
    by = [word for word, acts in (("class weights", is_weighted(run)), ("the sampler", is_resampled(run))) if acts]
    cure = "train.loss.class_weight.kind=none" if is_weighted(run) else "train.sampler.draw=instance"
    have = "has" if by == ["the sampler"] else "have"
    return (
        f"{moves} (by {alone:.2g} without {' and '.join(by)}), since {' and '.join(by)} {have} already evened out the "
        f"class frequencies: use one of them, such as {cure}",
    )
