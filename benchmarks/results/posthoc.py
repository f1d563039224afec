"""Print how many rows each post-hoc calibration needs: the table of docs/calibration.md, from simulated logits."""

from collections.abc import Iterator, Mapping
from types import MappingProxyType

import torch
from torch import Tensor

from frostbench.heads.posthoc.calibrators.isotonic import Isotonic
from frostbench.heads.posthoc.calibrators.matrix import Matrix
from frostbench.heads.posthoc.calibrators.none import NoCalibration
from frostbench.heads.posthoc.calibrators.temperature import Temperature
from frostbench.heads.posthoc.calibrators.vector import Vector

CLASSES, SEEDS, FRESH = 10, 5, 10_000
SIZES = (100, 300, 1000, 5000)
CASES = ("all alike", "class by class")
KINDS: Mapping[str, NoCalibration | Temperature | Vector | Matrix | Isotonic] = MappingProxyType(
    {
        "none": NoCalibration(),
        "temperature": Temperature(),
        "vector": Vector(),
        "matrix": Matrix(size="any"),
        "one_vs_rest": Isotonic(),
        "top_label": Isotonic(form="top_label"),
    }
)


def lines() -> Iterator[str]:
    """Yield the lines of the table: excess NLL on fresh rows over that of the true probabilities."""
    yield "| calibration rows | case | " + " | ".join(KINDS) + " |"
    yield "|" + "---|" * (len(KINDS) + 2)
    for case in CASES:
        for size in SIZES:
            draws = [_excess(case, size, seed) for seed in range(SEEDS)]
            means = [sum(values) / SEEDS for values in zip(*draws, strict=True)]
            yield f"| {size} | {case} | " + " | ".join(f"{mean:.3f}" for mean in means) + " |"


def _excess(case: str, size: int, seed: int) -> list[float]:
    draw = torch.Generator().manual_seed(seed)
    fitted, labels, _ = _drawn(case, size, draw)
    fresh, fresh_labels, true = _drawn(case, FRESH, draw)
    lowest = _nll(true.log_softmax(1), fresh_labels)
    return [_nll(kind.apply(fresh, kind.fit(fitted, labels)), fresh_labels) - lowest for kind in KINDS.values()]


def _drawn(case: str, rows: int, draw: torch.Generator) -> tuple[Tensor, Tensor, Tensor]:
    """Draw logits [N, C] of a head, labels [N], and the true logits [N, C] from which the labels are drawn."""
    true = 1.5 * torch.randn(rows, CLASSES, generator=draw, dtype=torch.float64)
    labels = torch.multinomial(true.softmax(1), 1, generator=draw).squeeze(1)
    wide = 2 * true
    if case == CASES[1]:
        wide = wide * torch.linspace(0.5, 1.5, CLASSES).double() + torch.linspace(-1, 1, CLASSES).double()
    return wide, labels, true


def _nll(log_p: Tensor, labels: Tensor) -> float:
    return float(-log_p.gather(1, labels[:, None]).mean())
