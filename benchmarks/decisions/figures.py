"""Figures of answers: macro F1, accuracy, log loss, ECE, coverage, risk and mean cost, as a whole and by class."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from frostbench.benchmarks.decisions.head_numbers import HeadNumbers
from frostbench.benchmarks.decisions.live import Answers
from frostbench.heads.posthoc.decisions.rule import DecisionRule, Ints
from frostbench.training.metrics.bins import BinSums
from frostbench.training.metrics.counts import class_sets, f1

Floats = npt.NDArray[np.float64]
FIGURES = ("macro_f1_fg", "accuracy", "nll", "ece", "coverage", "risk", "cost")


def figures(answers: Answers, labels: Ints, head: HeadNumbers, rule: DecisionRule) -> dict[str, float | None]:
    """Return the figures of answers [N] against labels [N]; None where there is nothing to average over.

    An image without an answer counts as not right in macro F1 (a miss of its class) and in accuracy. Risk, the share of
    wrong answers, and cost, the mean cost by the rule's costs, are those of the answered images (selective risk,
    El-Yaniv and Wiener, "On the foundations of noise-free selective classification", JMLR 2010). Log loss and ECE judge
    the probabilities of all images, answered or not.

    Raises:
        ValueError: there are no images.
    """
    if len(labels) == 0:
        raise ValueError("Figures need at least one image, got none. Choose a split with validation images.")
    answered, right = ~answers.unsure, (answers.predicted == labels) & ~answers.unsure
    finite = np.isfinite(answers.log_own)
    support = np.bincount(labels, minlength=len(head.counts))
    foreground = class_sets(support, head.counts, head.background)["fg"]
    scores = by_class(answers, labels, len(head.counts))["f1"]
    costs = rule.cost_of(labels[answered], answers.predicted[answered], head.class_names)
    bins = BinSums.of(answers.confidence, answers.predicted == labels)
    return {
        "macro_f1_fg": float(scores[foreground].mean()) if foreground.any() else None,
        "accuracy": float(right.mean()),
        "nll": float(-answers.log_own[finite].mean()) if finite.any() else None,
        "ece": float(bins.ece[0]),
        "coverage": float(answered.mean()),
        "risk": float(1 - right[answered].mean()) if answered.any() else None,
        "cost": float(costs.mean()) if answered.any() else None,
    }


def by_class(answers: Answers, labels: Ints, classes: int) -> dict[str, Floats]:
    """Return, for each class [C], its images, F1, share of its images with an answer, and wrong share of these.

    The share of wrong answers is NaN for a class without answers.
    """
    answered = ~answers.unsure
    support = np.bincount(labels, minlength=classes)
    said = np.bincount(answers.predicted[answered], minlength=classes)
    own = np.bincount(labels[answered], minlength=classes)
    right = np.bincount(labels[answered & (answers.predicted == labels)], minlength=classes)
    with np.errstate(invalid="ignore"):
        risk = np.where(own > 0, 1 - right / np.maximum(own, 1), np.nan)
    coverage = own / np.maximum(support, 1)
    return {"images": support.astype(float), "f1": f1(right, support, said), "coverage": coverage, "risk": risk}


def most_changed(
    before: Answers, after: Answers, labels: Ints, class_names: Sequence[str], most: int
) -> list[dict[str, Any]]:
    """Return the classes whose F1 changes most, at most `most`, each with its figures before and after."""
    classes = len(class_names)
    old, new = by_class(before, labels, classes), by_class(after, labels, classes)
    change = np.abs(new["f1"] - old["f1"])
    order = [i for i in np.argsort(-change, kind="stable")[:most].tolist() if change[i] > 0]
    return [
        {
            "name": class_names[i],
            "images": int(old["images"][i]),
            "f1_before": float(old["f1"][i]),
            "f1_after": float(new["f1"][i]),
            "coverage": float(new["coverage"][i]) if old["images"][i] else None,
            "risk": None if np.isnan(new["risk"][i]) else float(new["risk"][i]),
        }
        for i in order
    ]
