"""From vectors to classes and probabilities, and why a row has none."""

from collections.abc import Mapping, Sequence

import pandas as pd
import torch
from torch import Tensor

from frostbench.heads.ensemble import Predictive
from frostbench.heads.vectors import NOT_FINITE, finite_rows

TOO_LARGE = "its vector is so large that its scores are not finite, so no class can be named"
"""Why a row with a finite vector has no prediction."""


def classified(head: Predictive, vectors: Mapping[str, Tensor]) -> tuple[tuple[Tensor, Tensor], list[str | None]]:
    """Probabilities [N, C] and classes [N] of vectors [N, D], and why a row has none, [N].

    A row whose vector is not finite, or so large that its scores are not, has probabilities NaN and class -1.
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
    reasons = [NOT_FINITE if not ok else TOO_LARGE if place < 0 else None for ok, place in rows]
    return (probabilities, chosen), reasons


def as_frame(
    images: Sequence[str], names: Sequence[str], found: tuple[Tensor, Tensor], reasons: Sequence[str | None]
) -> pd.DataFrame:
    """A row for each image: its class and probabilities, or the reason why it has none."""
    probabilities, chosen = found
    own = probabilities.gather(1, chosen.clamp(min=0)[:, None]).squeeze(1)
    rows = {
        "image": list(images),
        "class": [None if place < 0 else names[place] for place in chosen.tolist()],
        "probability": [None if place < 0 else p for p, place in zip(own.tolist(), chosen.tolist(), strict=True)],
        "error": list(reasons),
    }
    return pd.DataFrame(rows | {f"p:{name}": probabilities[:, i].tolist() for i, name in enumerate(names)})
