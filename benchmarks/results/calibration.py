"""Generate docs/results/calibration.md: which losses give calibrated probabilities on frozen features."""

from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from itertools import repeat
from multiprocessing import get_context
from pathlib import Path

from frostbench.benchmarks.calibration.report import calibration
from frostbench.benchmarks.comparison.compare import compare
from frostbench.benchmarks.results.images import BACKBONES, SOURCES, cache_of, embedded
from frostbench.benchmarks.results.page import write_page
from frostbench.benchmarks.results.parts import Part
from frostbench.benchmarks.results.winners import first_round, last_round
from frostbench.benchmarks.runs.events import RowStarted, RunFailed
from frostbench.benchmarks.runs.runner import run_bench
from frostbench.benchmarks.runs.tuning import ChosenRows, chosen_rows
from frostbench.benchmarks.settings.parsing import packaged_bench, parse
from frostbench.benchmarks.settings.plan import BenchSpec
from frostbench.embedcache.extraction.pipeline import usable_cores

STEPS = ("embed", "train", "report")
HEADS = ("linear", "mlp")
EXPERIMENTAL = "experimental"


def regenerate(
    data: Path, work: Path, out: Path, steps: Sequence[str], parts: Sequence[str] | None = None
) -> Iterator[str]:
    """Run the steps and yield progress; existing runs and vectors are reused.

    Args:
        data: folder of the images.
        work: folder of caches and runs.
        out: folder of the page.
        steps: which of STEPS.
        parts: HEAD/CACHE to train and report, in this order; None means all.

    Raises:
        ValueError: images are missing, an earlier step is missing, or a part does not exist.
    """
    if "embed" in steps:
        yield from embedded(data, work)
    benches = chosen_benches(work, parts)
    if "train" in steps:
        for head, bench in benches:
            yield from _trained(head, first_round(bench))
            yield from _trained(head, _decided(bench)[0])
    if "report" in steps:
        finished = []
        with ProcessPoolExecutor(usable_cores(), get_context("spawn")) as pool:
            for part in pool.map(_part, *zip(*benches, strict=True), repeat(work)):
                finished.append(part)
                yield f"measured {part.head} on {part.cache}"
        yield f"wrote {write_page(finished, out)}"


def benches_of(work: Path) -> Iterator[tuple[str, BenchSpec]]:
    """Yield every head on every cache, and the experimental losses on the smallest source with the first backbone."""
    combinations = [(head, source, backbone) for source in SOURCES for backbone in BACKBONES for head in HEADS]
    for head, source, backbone in (*combinations, (EXPERIMENTAL, SOURCES[0], BACKBONES[0])):
        paths = {"caches": [str(cache_of(work, source, backbone))], "store": str(work / "store")}
        yield head, parse(BenchSpec, packaged_bench(f"calibration_{head}") | paths)


def chosen_benches(work: Path, parts: Sequence[str] | None) -> list[tuple[str, BenchSpec]]:
    """Return the benches of the named parts, in that order, or all if none are named.

    Raises:
        ValueError: a part does not exist.
    """
    benches = {f"{head}/{Path(bench.caches[0]).name}": (head, bench) for head, bench in benches_of(work)}
    unknown = [part for part in parts or () if part not in benches]
    if unknown:
        raise ValueError(f"A part must be one of {', '.join(benches)}, got {', '.join(unknown)}. Name one of them.")
    return [benches[part] for part in parts or benches]


def _decided(bench: BenchSpec) -> tuple[BenchSpec, ChosenRows]:
    (chosen,) = chosen_rows(first_round(bench))
    return last_round(bench, chosen.tuned), chosen


def _trained(head: str, bench: BenchSpec) -> Iterator[str]:
    for event in run_bench(bench):
        if isinstance(event, RowStarted) and event.number == 1:
            yield f"{head} on {event.cache}: {event.rows} settings"
        elif isinstance(event, RunFailed):
            yield f"  failed: {event.row}, seed {event.seed}: {event.message}"


def _part(head: str, bench: BenchSpec, work: Path) -> Part:
    """Measure a bench; the MLP on groceries also gets images of another source for OOD detection."""
    last, first = SOURCES[-1], SOURCES[0]
    is_paired = head == "mlp" and bench.caches[0] == str(cache_of(work, last, BACKBONES[0]))
    final, tried = _decided(bench)
    (report,) = calibration(final, "test", others=cache_of(work, first, BACKBONES[0]) if is_paired else None)
    (chosen,) = chosen_rows(final)
    comparison = compare(Path(bench.store), chosen.rows, bench.preset, "test", tuned=tried.tuned)
    return Part(head, final, ChosenRows(chosen.cache, chosen.rows, tried.tuned), report, comparison)
