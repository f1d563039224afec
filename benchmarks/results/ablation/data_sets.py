"""Data sets and backbones of the pages on the shipped benches."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from frostbench.benchmarks.results.images import Source, cache_of
from frostbench.benchmarks.settings.parsing import packaged_bench, parse
from frostbench.benchmarks.settings.plan import BenchSpec

FEW_SEEDS, SEEDS = (0, 1, 2), (0, 1, 2, 3, 4)
"""Seeds on large and on small data sets."""


@dataclass(frozen=True)
class DataSet:
    """Images with a split.

    Attributes:
        name: name in tables, such as `plankton 100:1`.
        source: the images.
        split: settings of the split, by option.
        training: settings of all runs, by option.
        seeds: seeds of every run.
        backbones: backbones that embed them.
    """

    name: str
    source: Source
    split: Mapping[str, Any] = field(default_factory=dict)
    training: Mapping[str, Any] = field(default_factory=dict)
    seeds: tuple[int, ...] = SEEDS
    backbones: tuple[str, ...] = ("efficientnet_lite0", "efficientnet_lite2", "dinov2_small_saliency")


LARGE = {"blood cells": Source("blood_cells", called="blood_cells_all"), "plankton": Source("plankton")}
LITE0 = ("efficientnet_lite0",)
IMBALANCES = (10, 100, 200)
SHORTER = {"train.schedule.epochs": 20, "train.schedule.batch_size": 256}
"""Training on large data sets, to save time; `min_steps` still asks for as many steps as on small ones."""
DATA_SETS = (
    DataSet("coins", Source("coins")),
    DataSet("groceries", Source("grocery"), {"source": "given"}),
    *(DataSet(name, source, {}, SHORTER, FEW_SEEDS) for name, source in LARGE.items()),
    *(
        DataSet(f"{name} {ratio}:1", source, {"imbalance": ratio}, SHORTER, FEW_SEEDS, LITE0)
        for name, source in LARGE.items()
        for ratio in IMBALANCES
    ),
)
"""The split is by group with seed 42 and a test share of 20 %, except that of groceries, which is official."""


@dataclass(frozen=True)
class Trial:
    """A bench on a data set with a backbone.

    Attributes:
        bench: the bench, with one cache.
        data: name of the data set.
        backbone: name of the backbone.
    """

    bench: BenchSpec
    data: str
    backbone: str

    @property
    def name(self) -> str:
        """Name such as `coins, lite0`."""
        return f"{self.data}, {short(self.backbone)}"

    @property
    def file_name(self) -> str:
        """Name of the file of its results, without suffix."""
        return f"{self.bench.name}_{self.data}_{short(self.backbone)}".replace(" ", "_").replace(":", "-")


def short(backbone: str) -> str:
    """Return the short name of a backbone.

    >>> short("efficientnet_lite0"), short("dinov2_small_saliency")
    ('lite0', 'dinov2_small')
    """
    return backbone.removeprefix("efficientnet_").removesuffix("_saliency")


def trials(bench: str, work: Path, parts: tuple[str, ...] = ()) -> Iterator[Trial]:
    """Yield a shipped bench on every data set and backbone, or only on those named, such as `coins/lite0`.

    Raises:
        ValueError: a part does not exist.
    """
    known = {f"{data.name}/{short(name)}": (data, name) for data in DATA_SETS for name in data.backbones}
    unknown = [part for part in parts if part not in known]
    if unknown:
        raise ValueError(f"A part must be one of {', '.join(known)}, got {', '.join(unknown)}. Name one of them.")
    for data, backbone in (known[part] for part in parts or known):
        paths = {"caches": [str(cache_of(work, data.source, backbone))], "store": str(work / "store")}
        settings = packaged_bench(bench)
        base = {**settings.get("base", {}), **data.training}
        own = paths | {"seeds": list(data.seeds), "split": dict(data.split), "base": base}
        yield Trial(parse(BenchSpec, settings | own), data.name, backbone)
