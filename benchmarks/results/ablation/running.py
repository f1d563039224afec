"""Embeds the images and trains the runs of the pages on the shipped benches."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from frostbench.benchmarks.comparison.compare import Comparison, compare
from frostbench.benchmarks.results.ablation.data_sets import DATA_SETS, Trial, short, trials
from frostbench.benchmarks.results.images import embedded
from frostbench.benchmarks.runs.events import BenchDone, RunFailed
from frostbench.benchmarks.runs.runner import run_bench
from frostbench.benchmarks.runs.store import StoreError
from frostbench.benchmarks.runs.tuning import chosen_rows
from frostbench.embedcache.storage.files import CacheError

PAGES = {
    "phases": ("phase1", "phase2", "phase3"),
    "full": ("full_ablation",),
    "factorial": ("factorial",),
    "tuned": ("long_tail_linear", "long_tail_mlp", "heads", "calibration_mlp"),
}
"""Shipped benches of each page."""


def embed(data: Path, work: Path, parts: Sequence[str]) -> Iterator[str]:
    """Embed the images of all parts, or of those named, and yield a line per cache.

    Raises:
        ValueError: a source is missing.
    """
    pairs = {
        (one.source, backbone): None
        for one in DATA_SETS
        for backbone in one.backbones
        if not parts or f"{one.name}/{short(backbone)}" in parts
    }
    for source, backbone in pairs:
        yield from embedded(data, work, (source,), (backbone,))


def train(page: str, work: Path, parts: Sequence[str]) -> Iterator[str]:
    """Train the missing runs of a page and yield a line per bench and per failed run."""
    for bench in PAGES[page]:
        for trial in trials(bench, work, tuple(parts)):
            for event in run_bench(trial.bench):
                if isinstance(event, RunFailed):
                    yield f"  failed: {event.row}, seed {event.seed}: {event.message}"
                elif isinstance(event, BenchDone):
                    yield f"{bench} on {trial.name}: {event.trained} runs trained, {event.skipped} found"


@dataclass(frozen=True)
class LeftOut:
    """A trial without a comparison, and why: its cache is missing or unfinished, or runs are missing or damaged."""

    trial: Trial
    reason: str


def compared(bench: str, work: Path, baseline: str | None = None) -> Iterator[tuple[Trial, Comparison] | LeftOut]:
    """Yield the comparison on test rows of each trial, or why it has none."""
    for trial in trials(bench, work):
        cache = Path(trial.bench.caches[0])
        if not cache.is_dir():
            yield LeftOut(trial, f"the cache {cache} does not exist")
            continue
        try:
            (chosen,) = chosen_rows(trial.bench)
            yield trial, compare(Path(trial.bench.store), chosen.rows, baseline, "test", title=bench)
        except (StoreError, CacheError) as error:
            yield LeftOut(trial, str(error))
