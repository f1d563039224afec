"""Work on the validation rows after each epoch of a stack: metrics, loss logs, and feedback to losses."""

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
"""Maximum number of log-probabilities that are evaluated at a time."""


@torch.no_grad()
def selection_metrics(context: RunContext, stack: Stack) -> list[dict[str, float | None]]:
    """Return the metrics of each head of a stack, whose runs all have the context's data and background."""
    labels, counts = context.data.select.labels.cpu(), context.rows.counts
    logits = stack.logits(len(counts))
    if (counts == 0).any():
        logits = logits.masked_fill(counts == 0, -torch.inf)
    size = max(1, HEADS_AT_ONCE // max(1, logits[0].numel()))
    metrics: list[dict[str, float | None]] = []
    for part in torch.split(logits, size):
        metrics += metrics_of_heads(part.log_softmax(-1).cpu(), labels, counts.cpu(), context.background)
    return metrics


def logs_of(stack: Stack) -> list[dict[str, float]]:
    """Return the mean values that each head's loss has logged since the last call, and reset them."""
    parts = stack.objectives[0].parts
    logs: list[dict[str, float]] = [{} for _ in stack.objectives]
    if parts.logged:
        sums = stack.buffer("parts.sums")
        means = (sums[..., 0] / sums[..., 1].clamp(min=1)).tolist()
        logs = [dict(zip(parts.logged, values, strict=True)) for values in means]
        sums.zero_()
    for name, part in parts.named_parts():
        for index, values in enumerate(logs):
            values |= part.report(_state_of(stack, name, index))
    return logs


@torch.no_grad()
def show_selection(stack: Stack, labels: Tensor, classes: int) -> None:
    """Update the loss parts that follow the validation rows, with labels [M]."""
    if "selection" not in stack.objectives[0].parts.needs:
        return
    for index, logits in enumerate(stack.logits(classes)):
        objective = stack.objectives[index]
        position = objective.statistics.position[labels]
        # A head cannot be right on classes without training rows, so their rows say nothing about its calibration.
        known = position >= 0
        if not known.any():
            continue
        known_logits = of_present(logits, objective.statistics)[known]
        for name, part in objective.parts.named_parts():
            state, method = _state_of(stack, name, index), method_at(objective.spec.loss, name)
            for buffer, value in part.after_epoch(method, state, known_logits, position[known]).items():
                state[buffer].copy_(value)


def _state_of(stack: Stack, name: str, index: int) -> dict[str, Tensor]:
    """Return the buffers of a head's loss part, to be changed in place."""
    part = stack.objectives[index].parts.of(name)
    return {buffer: stack.buffer(f"parts.{name}.{buffer}")[index] for buffer, _ in part.named_buffers()}


def metrics_of_heads(
    log_p: Tensor, labels: Tensor, train_counts: Tensor, background: Sequence[int] = ()
) -> list[dict[str, float | None]]:
    """Return the metrics of `frostbench.training.metrics.classification` for each of K heads.

    Args:
        log_p: log-probabilities [K, M, C].
        labels: class indices [M].
        train_counts: training rows per class [C].
        background: class indices excluded from the foreground.
    """
    top, predicted = log_p.max(-1)
    metrics = _decisions(predicted, labels, train_counts, background) | _probabilities(log_p, top, predicted, labels)
    heads = len(log_p)
    return [{name: None if values is None else values[k] for name, values in metrics.items()} for k in range(heads)]


def _decisions(
    predicted: Tensor, labels: Tensor, train_counts: Tensor, background: Sequence[int]
) -> dict[str, list[float] | None]:
    """Compute metrics of predicted classes [K, M]."""
    heads, classes = len(predicted), len(train_counts)
    support = torch.bincount(labels, minlength=classes).double()
    right = (predicted == labels).double()
    hits = _per_class(labels.expand(heads, -1), right, classes)
    predictions = _per_class(predicted, torch.ones_like(right), classes)
    recalls, f1s = recall(hits, support), f1(hits, support, predictions)
    sets = class_sets(support, train_counts, background)
    fg, weight = sets["fg"], support * sets["fg"]
    return {
        "macro_f1_fg": _means(f1s, fg),
        "macro_f1_fg_all": _means(f1s, sets["fg_known"]),
        "weighted_f1_fg": ((f1s * weight).sum(1) / weight.sum()).tolist() if fg.any() else None,
        "macro_precision_fg": _means(precision(hits, predictions), fg),
        "macro_recall_fg": _means(recalls, fg),
        "accuracy": right.mean(1).tolist(),
        "balanced_accuracy": _means(recalls, sets["seen"]),
        "recall_many": _means(recalls, sets["many"]),
        "recall_medium": _means(recalls, sets["medium"]),
        "recall_few": _means(recalls, sets["few"]),
        "n_fg_evaluated": [float(fg.sum())] * heads,
    }


def _probabilities(log_p: Tensor, top: Tensor, predicted: Tensor, labels: Tensor) -> dict[str, list[float] | None]:
    """Compute metrics of log-probabilities [K, M, C], given their maxima [K, M] and the classes of these."""
    heads, rows = top.shape
    label_log_p = log_p.gather(2, labels.view(1, -1, 1).expand(heads, -1, 1)).squeeze(2).double()
    finite = label_log_p.isfinite()
    # All heads of a stack were trained on the same classes.
    nll = -torch.where(finite, label_log_p, 0.0).sum(1) / finite.sum(1)
    label_p, confidence = label_log_p.exp(), top.double().exp()
    square = log_p.exp().square().sum(2, dtype=torch.float64)
    gap = torch.zeros(heads, ECE_BINS, dtype=torch.float64)
    gap.scatter_add_(1, confidence_bin(confidence), confidence - (predicted == labels).double())
    return {
        "nll": nll.tolist() if finite.any() else None,
        "brier": (square - label_p.square() + (1 - label_p).square()).mean(1).tolist(),
        "ece": (gap.abs().sum(1) / rows).tolist(),
        "n_untrained": (~finite).double().sum(1).tolist(),
    }


def _per_class(labels: Tensor, values: Tensor, classes: int) -> Tensor:
    """Sum values [K, M] by their class labels [K, M] into [K, C]."""
    return torch.zeros(len(labels), classes, dtype=torch.float64).scatter_add_(1, labels, values)


def _means(values: Tensor, chosen: Tensor) -> list[float] | None:
    """Return the means [K] of values [K, C] over the chosen classes [C], or None if no class is chosen."""
    return values[:, chosen].mean(1).tolist() if chosen.any() else None
