"""Effect of class temperatures on decision boundaries, for three classes in two dimensions."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch

from frostbench.benchmarks.comparison.frame import Floats
from frostbench.benchmarks.report.svg import DASHES, INK, SERIES, figure, mark, path, text
from frostbench.training.data.part import Data, Part
from frostbench.training.engine.events import Finished
from frostbench.training.engine.fit import fit
from frostbench.training.run import RunSpec

SCATTERS = (0.15, 0.5, 1.0)
"""Standard deviations of the classes."""
CENTRES = ((-1.2, -0.6), (1.2, -0.6), (0.0, 1.4))
ROWS, SIDE, GRID = 80, 250.0, 250
LOW, HIGH = -3.2, 3.2
COSINE = {"kind": "cosine", "scale": 10, "init": "class_means"}
PANELS: Sequence[tuple[str, Mapping[str, Any]]] = (
    ("linear, no weight decay", {"head": {}, "decay": 0.0, "lr": 0.5}),
    ("linear, weight decay 0.05", {"head": {}, "decay": 0.05, "lr": 0.5}),
    ("cosine, scale 10", {"head": {"classifier": COSINE}, "decay": 0.0, "lr": 0.1}),
)
STRENGTHS = (0.0, 0.5, 1.0)


def blobs() -> tuple[torch.Tensor, torch.Tensor]:
    """Return rows [N, 2] of three classes around their centres, and labels [N]."""
    draw = torch.Generator().manual_seed(0)
    noise = torch.randn(len(CENTRES), ROWS, 2, generator=draw)
    x = torch.tensor(CENTRES)[:, None] + torch.tensor(SCATTERS)[:, None, None] * noise
    return x.flatten(0, 1), torch.arange(len(CENTRES)).repeat_interleave(ROWS)


def drawing() -> str:
    """Draw one panel per kind of head, with the boundaries at three strengths of VACE."""
    x, labels = blobs()
    body: list[str] = []
    for index, (name, options) in enumerate(PANELS):
        left, top = 10 + index * (SIDE + 16), 26.0
        body.append(text(left, 16, name))
        body += _dots(x.numpy(), labels.numpy(), left, top)
        for number, strength in enumerate(STRENGTHS):
            lines = _borders(_predicted(x, labels, options, strength), left, top)
            body += [path(line, color=SERIES[number], dash=DASHES[number]) for line in lines]
    foot = 26 + SIDE + 22
    for number, strength in enumerate(STRENGTHS):
        words = "cross entropy" if strength == 0 else f"VACE, strength {strength:g}"
        x0 = 10 + 190 * number
        body.append(path([(x0, foot - 4), (x0 + 30, foot - 4)], color=SERIES[number], dash=DASHES[number]))
        body.append(text(x0 + 36, foot, words))
    title = "Decision boundaries with class temperatures"
    return figure(body, 20 + 3 * SIDE + 32, foot + 12, title, "Boundaries of a tight, a wider and the widest class.")


def _predicted(x: torch.Tensor, labels: torch.Tensor, options: Mapping[str, Any], strength: float) -> Floats:
    sgd = {"kind": "sgd", "lr": options["lr"], "weight_decay": options["decay"]}
    schedule = {"epochs": 600, "batch_size": len(x), "min_steps": 0}
    loss = {"vace": {"strength": strength}}
    train = {"optim": sgd, "schedule": schedule, "early_stop": {"metric": "last"}, "loss": loss}
    part = Part({"x": x}, labels)
    run = RunSpec.model_validate({"head": options["head"], "train": train})
    (finished,) = [
        e for e in fit([run], Data(part, part, part, ("tight", "wider", "widest"))) if isinstance(e, Finished)
    ]
    axis = torch.linspace(LOW, HIGH, GRID)
    plane = torch.stack(torch.meshgrid(axis, axis, indexing="xy"), -1).flatten(0, 1)
    return finished.head.logits({"x": plane}).argmax(1).view(GRID, GRID).numpy().astype(np.float64)


def _to_drawing(values: Floats, left: float, top: float) -> Floats:
    share = (values - LOW) / (HIGH - LOW)
    return np.stack([left + SIDE * share[:, 0], top + SIDE * (1 - share[:, 1])], 1)


def _dots(x: Floats, labels: Floats, left: float, top: float) -> list[str]:
    shapes = ("circle", "square", "triangle")
    inside = ((x > LOW) & (x < HIGH)).all(1)
    positions = _to_drawing(x[inside], left, top)
    return [
        mark(across, down, shapes[label], color=INK, hollow=True, size=1.8)
        for (across, down), label in zip(positions.tolist(), labels[inside].tolist(), strict=True)
    ]


def _borders(classes: Floats, left: float, top: float) -> list[list[tuple[float, float]]]:
    """Return the borders between classes [GRID, GRID] as lines, one for each pair of classes, with points in order."""
    across = np.argwhere(classes[:, 1:] != classes[:, :-1])
    down = np.argwhere(classes[1:] != classes[:-1])
    pairs: dict[tuple[float, float], list[tuple[float, float]]] = {}
    for row, column in across.tolist():
        ends = sorted((classes[row, column], classes[row, column + 1]))
        pairs.setdefault((ends[0], ends[1]), []).append((column + 0.5, row))
    for row, column in down.tolist():
        ends = sorted((classes[row, column], classes[row + 1, column]))
        pairs.setdefault((ends[0], ends[1]), []).append((column, row + 0.5))
    lines = []
    for points in pairs.values():
        ordered = np.array(sorted(points, key=_along(points)))
        ordered = np.concatenate([ordered[:-1:8], ordered[-1:]])
        plane = LOW + (HIGH - LOW) * ordered / (GRID - 1)
        lines.append([(float(a), float(b)) for a, b in _to_drawing(plane, left, top)])
    return lines


def _along(points: Sequence[tuple[float, float]]) -> Any:
    spread = np.ptp(np.array(points), axis=0)
    first = int(spread[1] > spread[0])
    return lambda point: (point[first], point[1 - first])
