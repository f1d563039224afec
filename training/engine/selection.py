"""After an epoch, for all heads of a stack: metrics of the selection rows, and what losses log and are shown."""

from collections.abc import Sequence

import torch
from torch import Tensor

from frostbench.training.engine.run_context import RunContext
from frostbench.training.engine.stack import Stack
from frostbench.training.losses.class_statistics import of_present
from frostbench.training.losses.parts import method_at
from frostbench.training.metrics.classification import ECE_BINS, confidence_bin
from frostbench.training.metrics.counts import class_sets, f1, precision, recall

HEADS_AT_ONCE = 33_554_432
"""Numbers of log-probabilities that are judged at a time."""


@torch.no_grad()
def selection_metrics(context: RunContext, stack: Stack) -> list[dict[str, float | None]]:
    """The metrics of each head of a stack, whose runs have the setting's data and background."""
    labels, counts = context.data.select.labels.cpu(), context.rows.counts
    logits = stack.logits(len(counts))
    if (counts == 0).any():
        logits = logits.masked_fill(counts == 0, -torch.inf)
    size = max(1, HEADS_AT_ONCE // max(1, logits[0].numel()))
    found: list[dict[str, float | None]] = []
    for part in torch.split(logits, size):
        found += metrics_of_heads(part.log_softmax(-1).cpu(), labels, counts.cpu(), context.background)
    return found


def logs_of(stack: Stack) -> list[dict[str, float]]:
    """What the losses of a stack logged since they were asked last, for each head: means over what was counted."""
    parts = stack.objectives[0].parts
    found: list[dict[str, float]] = [{} for _ in stack.objectives]
    if parts.logged:
        sums = stack.buffer("parts.sums")
        means = (sums[..., 0] / sums[..., 1].clamp(min=1)).tolist()
        found = [dict(zip(parts.logged, values, strict=True)) for values in means]
        sums.zero_()
    for name, part in parts.named_parts():
        for place, tree in enumerate(found):
            tree |= part.report(_state_of(stack, name, place))
    return found


@torch.no_grad()
def show_selection(stack: Stack, labels: Tensor, classes: int) -> None:
    """Show the selection rows, with labels [M], to the parts of losses that follow them."""
    if "selection" not in stack.objectives[0].parts.needs:
        return
    for place, logits in enumerate(stack.logits(classes)):
        objective = stack.objectives[place]
        label_index = objective.statistics.position[labels]
        # Rows of classes that were never trained cannot be right, and say nothing about how sure a head may be.
        known = label_index >= 0
        if not known.any():
            continue
        shown = of_present(logits, objective.statistics)[known]
        for name, part in objective.parts.named_parts():
            state, method = _state_of(stack, name, place), method_at(objective.spec.loss, name)
            for buffer, value in part.after_epoch(method, state, shown, label_index[known]).items():
                state[buffer].copy_(value)


def _state_of(stack: Stack, name: str, place: int) -> dict[str, Tensor]:
    """The buffers of a head's part, to be changed in place."""
    part = stack.objectives[place].parts.of(name)
    return {buffer: stack.buffer(f"parts.{name}.{buffer}")[place] for buffer, _ in part.named_buffers()}


def metrics_of_heads(
    log_p: Tensor, labels: Tensor, train_counts: Tensor, background: Sequence[int] = ()
) -> list[dict[str, float | None]]:
    """For log-probabilities [K, M, C] of K heads, the metrics of `frostbench.training.metrics.classification` for each.

    Args:
        log_p: [K, M, C].
        labels: [M].
        train_counts: [C] training rows per class.
        background: class indices left out of the foreground.
    """
    top, predicted = log_p.max(-1)
    found = _decisions(predicted, labels, train_counts, background) | _probabilities(log_p, top, predicted, labels)
    heads = len(log_p)
    return [{name: None if values is None else values[k] for name, values in found.items()} for k in range(heads)]


def _decisions(
    predicted: Tensor, labels: Tensor, train_counts: Tensor, background: Sequence[int]
) -> dict[str, list[float] | None]:
    """Metrics of predicted classes [K, M]."""
    heads, classes = len(predicted), len(train_counts)
    support = torch.bincount(labels, minlength=classes).double()
    right = (predicted == labels).double()
    hits = _per_class(labels.expand(heads, -1), right, classes)
    claimed = _per_class(predicted, torch.ones_like(right), classes)
    recalls, f1s = recall(hits, support), f1(hits, support, claimed)
    chosen = class_sets(support, train_counts, background)
    fg, weight = chosen["fg"], support * chosen["fg"]
    return {
        "macro_f1_fg": _means(f1s, fg),
        "macro_f1_fg_all": _means(f1s, chosen["fg_known"]),
        "weighted_f1_fg": ((f1s * weight).sum(1) / weight.sum()).tolist() if fg.any() else None,
        "macro_precision_fg": _means(precision(hits, claimed), fg),
        "macro_recall_fg": _means(recalls, fg),
        "accuracy": right.mean(1).tolist(),
        "balanced_accuracy": _means(recalls, chosen["seen"]),
        "recall_many": _means(recalls, chosen["many"]),
        "recall_medium": _means(recalls, chosen["medium"]),
        "recall_few": _means(recalls, chosen["few"]),
        "n_fg_evaluated": [float(fg.sum())] * heads,
    }


def _probabilities(log_p: Tensor, top: Tensor, predicted: Tensor, labels: Tensor) -> dict[str, list[float] | None]:
    """Metrics of log-probabilities [K, M, C] with their largest entries [K, M] and these entries' classes."""
    heads, rows = top.shape
    own = log_p.gather(2, labels.view(1, -1, 1).expand(heads, -1, 1)).squeeze(2).double()
    finite = own.isfinite()
    # Whether a label was trained is the same for all heads.
    nll = -torch.where(finite, own, 0.0).sum(1) / finite.sum(1)
    own_p, sure = own.exp(), top.double().exp()
    square = log_p.exp().square().sum(2, dtype=torch.float64)
    gap = torch.zeros(heads, ECE_BINS, dtype=torch.float64)
    gap.scatter_add_(1, confidence_bin(sure), sure - (predicted == labels).double())
    return {
        "nll": nll.tolist() if finite.any() else None,
        "brier": (square - own_p.square() + (1 - own_p).square()).mean(1).tolist(),
        "ece": (gap.abs().sum(1) / rows).tolist(),
        "n_untrained": (~finite).double().sum(1).tolist(),
    }


def _per_class(places: Tensor, values: Tensor, classes: int) -> Tensor:
    """Sums [K, C] of values [K, M] by the classes [K, M] that they belong to."""
    return torch.zeros(len(places), classes, dtype=torch.float64).scatter_add_(1, places, values)


def _means(values: Tensor, chosen: Tensor) -> list[float] | None:
    """Means [K] of values [K, C] over chosen classes [C]; None where there are none."""
    return values[:, chosen].mean(1).tolist() if chosen.any() else None
