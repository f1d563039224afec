"""A comparison of two settings as JSON values."""

import math
from pathlib import Path
from typing import Any

import numpy as np

from frostbench.app.workbench.compare.metrics import METRICS, by_metric
from frostbench.benchmarks.comparison.ab import SIDES, Pair, Side
from frostbench.benchmarks.comparison.deltas import REASONS
from frostbench.benchmarks.comparison.tables import settling_words
from frostbench.benchmarks.runs.store import read_outcomes

MOST_CELLS = 200
"""Largest number of changed cells of the confusion matrix that are sent."""


def as_tree(store: Path, pair: Pair) -> dict[str, Any]:
    """Return a comparison as JSON values; what is undefined is None."""
    comparison = pair.comparison
    return {
        "role": comparison.role,
        "images": comparison.n_rows,
        "groups": comparison.n_groups,
        "seeds": list(comparison.seeds),
        "class_names": list(pair.class_names),
        "metrics": _metrics(pair),
        "classes": _classes(pair),
        "cells": [[cell.label, cell.predicted, round(cell.rows, 3)] for cell in pair.confusion[:MOST_CELLS]],
        "more_cells": max(0, len(pair.confusion) - MOST_CELLS),
        "options": [
            {"path": one.path, "title": one.title or one.path, "a": one.before, "b": one.after} for one in pair.options
        ],
        "notes": [*pair.left_out, *comparison.notes],
        "sides": {side.name.lower(): _side(store, side, comparison.role) for side in pair.sides},
        **_images(store, pair),
    }


def _metrics(pair: Pair) -> list[dict[str, Any]]:
    found = []
    for key, (a, b) in by_metric(pair).items():
        verdict = str(b["verdict"])
        found.append(
            {
                "key": key,
                "title": METRICS[key].name,
                "hint": METRICS[key].hint,
                "share": METRICS[key].is_share,
                "a": _number(a["value"]),
                "b": _number(b["value"]),
                **{name: _number(b[name]) for name in ("delta", "low", "high")},
                "verdict": verdict,
                "why": next((why for word, why in REASONS.items() if verdict.endswith(f"({word})")), ""),
                "settle": settling_words(pair.comparison, "B", key),
            }
        )
    return found


def _classes(pair: Pair) -> list[dict[str, Any]]:
    return [
        {
            "name": one.name,
            "train": one.train,
            "images": one.support,
            "thin": one.thin,
            "background": one.background,
            "a": _number(one.f1[0]),
            "b": _number(one.f1[1]),
            "recall_a": _number(one.recall[0]),
            "recall_b": _number(one.recall[1]),
            "delta": _number(one.delta),
            "low": _number(one.low),
            "high": _number(one.high),
        }
        for one in pair.classes
    ]


def _side(store: Path, side: Side, role: str) -> dict[str, Any]:
    runs = [read_outcomes(store, key, role) for key in side.keys]
    bins = side.after
    return {
        "keys": list(side.keys),
        "cache": side.cache,
        "seconds": side.seconds,
        "parameters": side.parameters,
        "temperatures": list(side.temperatures),
        "bins": {"rows": bins.rows, "confidence": bins.confidence, "accuracy": bins.accuracy},
        "said": [run["predicted"].tolist() for run in runs],
        "confidence": [_numbers(run["confidence"].to_numpy()) for run in runs],
    }


def _images(store: Path, pair: Pair) -> dict[str, Any]:
    """Return ids and labels of the compared images, in the order of what each side says."""
    first = read_outcomes(store, pair.sides[SIDES.index("A")].keys[0], pair.comparison.role)
    return {"ids": first["id"].tolist(), "labels": first["label"].tolist()}


def _numbers(values: np.ndarray) -> list[float | None]:
    return [_number(value) for value in values.round(4).tolist()]


def _number(value: Any) -> float | None:
    return None if value is None or not math.isfinite(value) else float(value)
