"""The scale of cosine logits, which limits how sharp a softmax over cosines can get."""

import math

WIDEST_SCALE = 30.0
"""Largest default scale for any number of classes."""


def default_scale(classes: int) -> float:
    """Return the default scale, from 10 to 30, for cosine logits of `classes` classes over frozen features.

    It is twice the larger of two known values: AdaCos' fixed scale sqrt(2) log(C - 1) (Zhang et al., "AdaCos:
    adaptively scaling cosine logits", CVPR 2019) and the smallest scale at which a class can reach the probability
    0.999 (Wang et al., "CosFace", CVPR 2018, section 3.3). Both assume class directions at right angles or wider.
    Frozen features rarely allow that: the gap between the true class's cosine and the others stays smaller, so the
    scale must be larger. AdaCos' value is 0 for two classes.

    Raises:
        ValueError: there are fewer than two classes.

    >>> [round(default_scale(classes), 1) for classes in (2, 10, 100, 1000, 10_000)]
    [10.0, 16.4, 22.8, 27.6, 30.0]
    """
    if classes < 2:
        raise ValueError(f"A scale needs at least 2 classes, got {classes}. Add rows of another class.")
    adacos = math.sqrt(2) * math.log(classes - 1)
    cosface = least_scale(classes, 0.999)
    return min(max(2 * max(adacos, cosface), 10.0), WIDEST_SCALE)


def least_scale(classes: int, probability: float) -> float:
    """Return the smallest scale at which maximally spread class directions give the true class that probability.

    Wang et al., "CosFace", CVPR 2018, section 3.3: (C - 1) / C log((C - 1) P / (1 - P)).

    >>> round(least_scale(10, 0.99), 3)
    6.113
    """
    return (classes - 1) / classes * math.log((classes - 1) * probability / (1 - probability))
