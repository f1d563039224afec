"""Predicts classes and probabilities of vectors, with a reason for each row that has no prediction."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import pandas as pd
import torch
from torch import Tensor

from frostbench.heads.ensemble import Predictive
from frostbench.heads.posthoc.decisions.rule import UNSURE
from frostbench.heads.vectors import NOT_FINITE, finite_rows

TOO_LARGE = "its vector is so large that its scores are not finite, so there is no prediction"
"""Reason why a row with a finite vector has no prediction."""


class Predicted(NamedTuple):
    """Probabilities [N, C], class indices [N], and whether the head abstains, bool [N]."""

    probabilities: Tensor
    chosen: Tensor
    unsure: Tensor

    @classmethod
    def none(cls, rows: int, classes: int) -> "Predicted":
        """Return rows without a prediction: probabilities NaN, class -1."""
        chosen = torch.full((rows,), -1, dtype=torch.int64)
        return cls(torch.full((rows, classes), torch.nan), chosen, torch.zeros(rows, dtype=torch.bool))


def classified(head: Predictive, vectors: Mapping[str, Tensor]) -> tuple[Predicted, list[str | None]]:
    """Return predictions of vectors [N, D], and reasons [N] for missing ones.

    A row whose vector or whose scores are not finite has probabilities NaN, class -1 and a reason.
    """
    good = finite_rows([vectors[name] for name in head.reads])
    found = Predicted.none(len(good), len(head.class_names))
    if good.any():
        log_p = head.log_probabilities({name: vectors[name][good] for name in head.reads})
        sound = ~log_p.isnan().any(1)
        chosen = head.decide(log_p)
        found.probabilities[good] = log_p.exp().float().masked_fill(~sound[:, None], torch.nan)
        found.chosen[good] = chosen.masked_fill(~sound, -1)
        found.unsure[good] = head.unsure(log_p, chosen) & sound
    rows = zip(good.tolist(), found.chosen.tolist(), strict=True)
    reasons = [NOT_FINITE if not is_finite else TOO_LARGE if index < 0 else None for is_finite, index in rows]
    return found, reasons


def as_frame(
    images: Sequence[str], names: Sequence[str], predicted: Predicted, reasons: Sequence[str | None]
) -> pd.DataFrame:
    """Return one row per image with its class and probabilities, or the reason why it has none.

    Where the head abstains, the class is `unsure` and the probability that of the class it would have predicted.
    """
    probabilities, chosen, unsure = predicted
    said = [None if index < 0 else names[index] for index in chosen.tolist()]
    p_chosen = probabilities.gather(1, chosen.clamp(min=0)[:, None]).squeeze(1)
    rows = {
        "image": list(images),
        "class": [UNSURE if abstains else name for name, abstains in zip(said, unsure.tolist(), strict=True)],
        "probability": [None if index < 0 else p for p, index in zip(p_chosen.tolist(), chosen.tolist(), strict=True)],
        "error": list(reasons),
    }
    return pd.DataFrame(rows | {f"p:{name}": probabilities[:, i].tolist() for i, name in enumerate(names)})
