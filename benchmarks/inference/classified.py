"""Predicts classes and probabilities of vectors, with a reason for each row that has no prediction."""

from collections.abc import Mapping, Sequence

import pandas as pd
import torch
from torch import Tensor

from frostbench.heads.ensemble import Predictive
from frostbench.heads.vectors import NOT_FINITE, finite_rows

TOO_LARGE = "its vector is so large that its scores are not finite, so there is no prediction"
"""Reason why a row with a finite vector has no prediction."""


def classified(head: Predictive, vectors: Mapping[str, Tensor]) -> tuple[tuple[Tensor, Tensor], list[str | None]]:
    """Return probabilities [N, C] and class indices [N] of vectors [N, D], and reasons [N] for missing predictions.

    A row whose vector or whose scores are not finite has probabilities NaN, class -1 and a reason.
    """
    good = finite_rows([vectors[name] for name in head.reads])
    probabilities = torch.full((len(good), len(head.class_names)), torch.nan)
    chosen = torch.full((len(good),), -1, dtype=torch.int64)
    if good.any():
        log_p = head.log_probabilities({name: vectors[name][good] for name in head.reads})
        sound = ~log_p.isnan().any(1)
        probabilities[good] = log_p.exp().float().masked_fill(~sound[:, None], torch.nan)
        chosen[good] = head.decide(log_p).masked_fill(~sound, -1)
    rows = zip(good.tolist(), chosen.tolist(), strict=True)
    reasons = [NOT_FINITE if not is_finite else TOO_LARGE if index < 0 else None for is_finite, index in rows]
    return (probabilities, chosen), reasons


def as_frame(
    images: Sequence[str], names: Sequence[str], predicted: tuple[Tensor, Tensor], reasons: Sequence[str | None]
) -> pd.DataFrame:
    """Return one row per image with its class and probabilities, or the reason why it has none."""
    probabilities, chosen = predicted
    p_chosen = probabilities.gather(1, chosen.clamp(min=0)[:, None]).squeeze(1)
    rows = {
        "image": list(images),
        "class": [None if index < 0 else names[index] for index in chosen.tolist()],
        "probability": [None if index < 0 else p for p, index in zip(p_chosen.tolist(), chosen.tolist(), strict=True)],
        "error": list(reasons),
    }
    return pd.DataFrame(rows | {f"p:{name}": probabilities[:, i].tolist() for i, name in enumerate(names)})
