"""Figures from run records: the gate of FeDLaS, temperatures by epoch, and gains by class scatter."""

import math
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch

from frostbench.benchmarks.report.charts import WIDTH, Curve, learning_curves
from frostbench.benchmarks.report.svg import INK, MUTED, SERIES, Scale, figure, line, mark, text, ticks
from frostbench.benchmarks.results.parts import Part
from frostbench.benchmarks.runs.record import RunRecord
from frostbench.benchmarks.runs.store import read_record
from frostbench.embedcache.splits.making import load_or_make_split
from frostbench.embedcache.table import read_table
from frostbench.training.losses.vace import scatter_of

GATE = (
    ("gate_share", "mean a / alpha"),
    ("gate_positive", "positive signs"),
    ("gate_greedy", "signs that lower the loss"),
    ("gate_flipped", "signs that changed"),
)
TRACES = (("tau_least", "least"), ("tau_mean", "mean"), ("tau_most", "largest"))


def gate_curves(parts: Sequence[Part]) -> str:
    """Draw the gate of FeDLaS-LS over the epochs, on the last cache with an MLP; empty if there is none."""
    return _courses(_records(parts, "mlp", "fedlas_ls"), GATE, "The gate of FeDLaS-LS, mean of the seeds", "share")


def temperature_curves(parts: Sequence[Part]) -> str:
    """Draw VACE's temperatures by epoch if the scatter is taken from single batches; empty without such runs."""
    scatter = _records(parts, "linear", "vace batch scatter")
    return _courses(scatter, TRACES, "Temperatures from single batches, at the end of each epoch", "tau")


def _courses(records: Sequence[RunRecord], names: Sequence[tuple[str, str]], title: str, axis: str) -> str:
    """Draw logged values by epoch, given their names and labels; empty without runs."""
    if not records:
        return ""
    return learning_curves([Curve(words, _mean_course(records, name)) for name, words in names], title, axis)


def _records(parts: Sequence[Part], head: str, row: str) -> list[RunRecord]:
    matching = [part for part in parts if part.head == head and row in part.chosen.rows]
    return (
        [read_record(Path(matching[-1].bench.store), key) for key in matching[-1].chosen.rows[row]] if matching else []
    )


def _mean_course(records: Sequence[RunRecord], name: str) -> list[float]:
    """Return the mean over runs of a logged value, up to the end of the shortest run."""
    courses = [record.curve[name] for record in records]
    return [
        float(np.mean([math.nan if v is None else v for v in evaluations]))
        for evaluations in zip(*courses, strict=False)
    ]


def gain_by_scatter(parts: Sequence[Part]) -> str:
    """Draw the F1 gain of VACE over cross entropy on test rows by class, against relative class scatter."""
    points: list[tuple[float, float, int]] = []
    matching = [part for part in parts if part.head == "linear" and "vace" in part.chosen.rows]
    for number, part in enumerate(matching):
        scatter = _scatter(part)
        gains = _gains(part)
        points += [(x, y, number) for x, y in zip(scatter, gains, strict=True) if math.isfinite(x) and math.isfinite(y)]
    if not points:
        return ""
    left, top, bottom = 52.0, 12.0, 232.0
    across = Scale(0, max(x for x, _, _ in points) * 1.05, left, WIDTH - 12)
    most = max(abs(y) for _, y, _ in points) * 1.1 or 0.1
    up = Scale(-most, most, bottom, top)
    body = [line(left, up(v), WIDTH - 12, up(v)) for v in ticks(-most, most)]
    body += [text(left - 6, up(v) + 4, f"{v:+g}" if v else "0", anchor="end", size=11) for v in ticks(-most, most)]
    body += [text(across(v), bottom + 16, f"{v:g}", anchor="middle", size=11) for v in ticks(0, across.high)]
    body.append(line(left, up(0), WIDTH - 12, up(0), color=INK, width=1.5))
    body += [mark(across(x), up(y), "circle", color=SERIES[n % 4], hollow=True, size=3) for x, y, n in points]
    r = float(np.corrcoef([x for x, _, _ in points], [y for _, y, _ in points])[0, 1]) if len(points) > 2 else math.nan
    body.append(text(left, bottom + 36, f"scatter of a class over the mean; correlation {r:+.2f}", color=MUTED))
    title = "Gain of F1 by VACE against class scatter, linear heads"
    return figure(body, WIDTH, bottom + 48, title, f"{len(points)} classes; correlation {r:+.2f}")


def _scatter(part: Part) -> list[float]:
    """Return the scatter of each class's training rows, divided by the mean over the classes, [C]."""
    table = read_table(Path(part.chosen.cache))
    split = load_or_make_split(Path(part.chosen.cache), table, part.bench.split, Path(part.bench.store))
    chosen = split.roles == "train"
    x = torch.from_numpy(table.columns[next(iter(table.columns))][chosen]).float()
    scatter = scatter_of(lambda: [x], torch.from_numpy(table.labels[chosen]), len(table.class_names))
    return (scatter / scatter[scatter.isfinite()].mean()).tolist()


def _gains(part: Part) -> list[float]:
    """Return the F1 gain of VACE over cross entropy by class, mean over seeds; NaN for a class without test rows."""
    sides = []
    for row in ("vace", part.report.baseline):
        evaluations = [read_record(Path(part.bench.store), key).evaluations["test"] for key in part.chosen.rows[row]]
        sides.append(np.mean([evaluation.per_class["f1"] for evaluation in evaluations], axis=0))
    support = np.asarray(evaluations[0].per_class["support"])
    return [float(v) if s > 0 else math.nan for v, s in zip(sides[0] - sides[1], support, strict=True)]
