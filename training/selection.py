"""Metrics of the selection rows after an epoch, for all heads of a stack at once."""

import torch

from training.metrics import all_metrics
from training.setting import Setting
from training.stack import Stack


@torch.no_grad()
def selection_metrics(setting: Setting, stack: Stack) -> list[dict[str, float | None]]:
    """The metrics of each head of a stack, whose runs have the setting's data and background."""
    labels, counts = setting.data.select.labels.cpu(), setting.rows.counts
    logits = stack.logits(len(counts)).masked_fill(counts == 0, -torch.inf)
    log_p = logits.log_softmax(-1).cpu()
    return [all_metrics(each, labels, counts.cpu(), setting.background) for each in log_p]
