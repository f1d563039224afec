"""Class priors as callers pass them: shares by class name, or one per class."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

Prior = Tensor | Mapping[str, float] | Sequence[float] | Any
"""Shares of the classes, by class name or as a tensor, array or list [C]. They need not sum to 1."""


def shares_of(prior: Prior, class_names: Sequence[str]) -> Tensor:
    """Return the shares [C] float64 of the classes, not normalised.

    >>> shares_of({"b": 3, "a": 1}, ("a", "b"))
    tensor([1., 3.], dtype=torch.float64)

    Raises:
        ValueError: a class has no share or is unknown, or a share is not a number of at least 0.
    """
    names = list(class_names)
    if isinstance(prior, Mapping):
        given = {str(name): share for name, share in prior.items()}
        missing, unknown = [name for name in names if name not in given], sorted(set(given) - set(names))
        if missing or unknown or len(given) < len(prior):
            raise ValueError(
                f"A class prior must give a share for each of the {len(names)} classes, but {missing[:8]} are missing "
                f"and {unknown[:8]} are unknown. Name each class of {names[:8]}{' …' if len(names) > 8 else ''} once."
            )
        prior = [given[name] for name in names]
    try:
        plain = prior.detach().cpu().double().numpy() if isinstance(prior, Tensor) else prior
        shares = torch.from_numpy(np.array(plain, dtype=np.float64))
    except (TypeError, ValueError):
        shares = torch.full((len(names),), torch.nan)
    if shares.shape != (len(names),) or not bool(shares.isfinite().all() and (shares >= 0).all()):
        raise ValueError(
            f"A class prior must have {len(names)} shares of at least 0, one per class of the head, got "
            f"{prior!r:.200}. Give one share for each of {names[:8]}{' …' if len(names) > 8 else ''}."
        )
    return shares
