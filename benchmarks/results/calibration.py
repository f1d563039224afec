"""The page docs/results/calibration.md: which losses leave calibrated probabilities on frozen features."""

from collections.abc import Iterator, Sequence
from pathlib import Path

from benchmarks.calibration.report import calibration
from benchmarks.compare import compare
from benchmarks.events import RowStarted, RunFailed
from benchmarks.plan import BenchSpec
from benchmarks.results.images import BACKBONES, SOURCES, cache_of, embedded
from benchmarks.results.page import write_page
from benchmarks.results.parts import Part
from benchmarks.results.winners import first_round, last_round
from benchmarks.runner import run_bench
from benchmarks.settings import packaged_bench, parse
from benchmarks.tuning import ChosenRows, chosen_rows

STEPS = ("embed", "train", "report")
HEADS = ("linear", "mlp")
EXPERIMENTAL = "experimental"


def regenerate(data: Path, work: Path, out: Path, steps: Sequence[str]) -> Iterator[str]:
    """Do the steps, and say what was done; runs and vectors that are there already are not made again.

    Raises:
        ValueError: images are missing, or a step needs one before it.
    """
    if "embed" in steps:
        yield from embedded(data, work)
    benches = list(benches_of(work))
    if "train" in steps:
        for head, bench in benches:
            yield from _trained(head, first_round(bench))
            yield from _trained(head, _decided(bench)[0])
    if "report" in steps:
        parts = []
        for head, bench in benches:
            parts.append(_part(head, bench, work))
            yield f"measured {head} on {bench.caches[0]}"
        yield f"wrote {write_page(parts, out)}"


def benches_of(work: Path) -> Iterator[tuple[str, BenchSpec]]:
    """Every head on every cache, and the experimental losses on the smallest source with the first backbone."""
    places = [(head, source, backbone) for source in SOURCES for backbone in BACKBONES for head in HEADS]
    for head, source, backbone in (*places, (EXPERIMENTAL, SOURCES[0], BACKBONES[0])):
        where = {"caches": [str(cache_of(work, source, backbone))], "store": str(work / "store")}
        yield head, parse(BenchSpec, packaged_bench(f"calibration_{head}") | where)


def _decided(bench: BenchSpec) -> tuple[BenchSpec, ChosenRows]:
    """The bench of the winners, and what became of all settings."""
    (chosen,) = chosen_rows(first_round(bench))
    return last_round(bench, chosen.tuned), chosen


def _trained(head: str, bench: BenchSpec) -> Iterator[str]:
    for event in run_bench(bench):
        if isinstance(event, RowStarted) and event.number == 1:
            yield f"{head} on {event.cache}: {event.rows} settings"
        elif isinstance(event, RunFailed):
            yield f"  failed: {event.row}, seed {event.seed}: {event.message}"


def _part(head: str, bench: BenchSpec, work: Path) -> Part:
    """What is measured of a bench; the images of another source are told apart from groceries by an MLP."""
    last, first = SOURCES[-1], SOURCES[0]
    is_paired = head == "mlp" and bench.caches[0] == str(cache_of(work, last, BACKBONES[0]))
    final, tried = _decided(bench)
    (report,) = calibration(final, "test", others=cache_of(work, first, BACKBONES[0]) if is_paired else None)
    (chosen,) = chosen_rows(final)
    comparison = compare(Path(bench.store), chosen.rows, bench.preset, "test", tuned=tried.tuned)
    return Part(head, final, ChosenRows(chosen.cache, chosen.rows, tried.tuned), report, comparison)
