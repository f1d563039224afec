"""The scale of cosine logits: how sharp a softmax over cosines can get."""

import math

WIDEST_SCALE = 30.0
"""The largest scale that follows from a number of classes."""


def default_scale(classes: int) -> float:
    """The scale for cosine logits of that many classes over frozen features, between 10 and 30.

    Twice the larger of two known values: AdaCos' fixed scale sqrt(2) log(C - 1) (Zhang et al., "AdaCos: adaptively
    scaling cosine logits", CVPR 2019) and the least scale under which a class can reach the probability
    0.999 (Wang et al., "CosFace", CVPR 2018, section 3.3). Both assume class directions at right angles or better.
    Frozen features rarely allow that: the gap between the own and the other cosines stays smaller, so the scale
    must be larger. AdaCos' own value is 0 for two classes.

    Raises:
        ValueError: fewer than two classes.

    >>> [round(default_scale(classes), 1) for classes in (2, 10, 100, 1000, 10_000)]
    [10.0, 16.4, 22.8, 27.6, 30.0]
    """
    if classes < 2:
        raise ValueError(f"a scale needs at least 2 classes, however: there are {classes}. Add rows of another class.")
    adacos = math.sqrt(2) * math.log(classes - 1)
    cosface = least_scale(classes, 0.999)
    return min(max(2 * max(adacos, cosface), 10.0), WIDEST_SCALE)


def least_scale(classes: int, probability: float) -> float:
    """The least scale under which class directions spread as far as they can give the own class that probability.

    Wang et al., "CosFace", CVPR 2018, section 3.3: (C - 1) / C log((C - 1) P / (1 - P)).

    >>> round(least_scale(10, 0.99), 3)
    6.113
    """
    return (classes - 1) / classes * math.log((classes - 1) * probability / (1 - probability))
