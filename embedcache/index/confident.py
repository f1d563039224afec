"""Label scores from out-of-sample probabilities (Northcutt, Jiang and Chuang, Confident Learning, JAIR 70, 2021)."""

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Numbers = npt.NDArray[np.int64]

SLACK = 1e-6
"""Tolerance below a threshold, so that equal probabilities are not lost by rounding."""


def self_confidence(labels: Numbers, p: Floats) -> Floats:
    """Return the probability of each row's label [N].

    >>> self_confidence(np.array([1]), np.array([[0.9, 0.1]])).tolist()
    [0.1]
    """
    return np.asarray(p[np.arange(len(labels)), labels])


def normalised_margin(labels: Numbers, p: Floats) -> Floats:
    """Return the lead of each row's label over the best other class, (own - best other + 1) / 2 in 0..1, [N].

    >>> normalised_margin(np.array([1]), np.array([[0.75, 0.25]])).tolist()
    [0.25]
    """
    others = p.copy()
    others[np.arange(len(labels)), labels] = -np.inf
    return np.asarray((self_confidence(labels, p) - others.max(axis=1) + 1) / 2)


def class_thresholds(labels: Numbers, p: Floats) -> Floats:
    """Return the confidence threshold of each class [C]: its mean probability among rows with that label (eq. 2).

    The threshold of a class without rows is infinite.
    """
    classes = p.shape[1]
    counts = np.bincount(labels, minlength=classes)
    sums = np.bincount(labels, weights=self_confidence(labels, p), minlength=classes)
    return np.asarray(np.divide(sums, counts, out=np.full(classes, np.inf), where=counts > 0))


def confident_classes(labels: Numbers, p: Floats) -> Numbers:
    """Return each row's most probable class among those that reach their threshold [N]; -1 if none does."""
    reached = p >= class_thresholds(labels, p) - SLACK
    best = np.where(reached, p, -np.inf).argmax(axis=1)
    return np.asarray(np.where(reached.any(axis=1), best, -1), dtype=np.int64)


def confident_joint(labels: Numbers, p: Floats) -> Numbers:
    """Count rows by given label and by the class they are confidently assigned to, int64 [C, C] (eq. 1).

    >>> p = np.array([[0.9, 0.1], [0.8, 0.2], [0.3, 0.7], [0.9, 0.1]])
    >>> confident_joint(np.array([0, 0, 1, 1]), p).tolist()
    [[1, 0], [1, 1]]
    """
    counted = confident_classes(labels, p)
    classes, there = p.shape[1], counted >= 0
    joint = np.bincount(labels[there] * classes + counted[there], minlength=classes * classes)
    return np.asarray(joint.reshape(classes, classes), dtype=np.int64)
