"""The demo: the full workflow on real images, from files to a head that predicts."""

from pathlib import Path
from time import perf_counter
from typing import Literal

from frostbench.app.actions.benches import run_rows
from frostbench.app.actions.comparing import compare_bench, save_comparisons
from frostbench.app.actions.embedding import embed_listing
from frostbench.app.demo_data import claim_folder, digits, solar_cells
from frostbench.benchmarks.comparison.compare import Comparison
from frostbench.benchmarks.comparison.tables import MAIN, to_text
from frostbench.benchmarks.inference.predict import open_predictor, predict_images
from frostbench.benchmarks.runs.exporting import export_row
from frostbench.benchmarks.settings.parsing import packaged_bench, parse
from frostbench.benchmarks.settings.plan import BenchSpec
from frostbench.embedcache.backbones import load_backbone
from frostbench.embedcache.items import Item
from frostbench.embedcache.sources.source import list_source
from frostbench.embedcache.splits.making import load_or_make_split
from frostbench.embedcache.table import read_table
from frostbench.heads.bundle.removal import remove
from frostbench.training.metrics.classification import preferred

SHOWN = 6
"""Number of test images to predict."""


def run_demo(data: Literal["solar", "digits"], out: Path) -> None:
    """Embed images, train every setting with several seeds, compare, and export and apply the winner.

    Raises:
        OutputError: the folder holds files that were not made by the demo.
    """
    started = perf_counter()
    claim_folder(out)
    images = solar_cells(out) if data == "solar" else digits(out)
    _print_step("1. Images to vectors", images.notice)
    listing = list_source(images.manifest, root=images.root)
    if embed_listing(listing, load_backbone("bundled", "efficientnet_lite0"), out / "cache") is None:
        return
    _print_step(
        "2. Settings × seeds", "Runs are stored under a key of their settings; existing runs are not retrained."
    )
    bench = _bench(out)
    if run_rows(bench) is None:
        return
    _print_step("3. What made a difference", "Compared on validation rows; the test rows have not been used yet.")
    (comparison,) = compare_bench(bench)
    print(to_text(comparison))
    *_, report = save_comparisons(bench, [comparison], out / "compare")
    winner = _winner(comparison)
    _print_step(
        "4. The winner on the test rows", f"{winner!r} has the best validation {MAIN}; now it is compared on test rows."
    )
    _reveal(bench, comparison.baseline, winner)
    _print_step("5. Export, and prediction from the bundle alone")
    bundle = out / "winner"
    remove(bundle)
    print(export_row(bench, winner, bundle))
    _predict(bundle, _held_out(out / "cache", bench, listing.items))
    _print_next_steps(out, bundle, report, perf_counter() - started)


def _print_step(title: str, text: str = "") -> None:
    print(f"\n== {title}" + (f"\n{text}" if text else ""))


def _bench(out: Path) -> BenchSpec:
    return parse(BenchSpec, packaged_bench("demo") | {"caches": [str(out / "cache")], "store": str(out / "results")})


def _winner(comparison: Comparison) -> str:
    """Return the row with the best validation macro F1, ties broken by lower NLL."""
    value = {
        (row, metric): comparison.line(row, metric)["value"] for row in comparison.rows for metric in (MAIN, "nll")
    }
    return max(comparison.rows, key=lambda row: preferred(value[row, MAIN], value[row, "nll"]))


def _reveal(bench: BenchSpec, baseline: str, winner: str) -> None:
    if winner == baseline:
        print("The baseline won, so there is no difference to test.")
        return
    (test,) = compare_bench(bench, baseline, "test", only=[baseline, winner])
    print(to_text(test))


def _held_out(cache: Path, bench: BenchSpec, items: tuple[Item, ...]) -> list[Item]:
    """Return test images of the first few classes, one per class."""
    table = read_table(cache)
    roles = load_or_make_split(cache, table, bench.split, Path(bench.store)).roles
    test_ids = {str(id_) for id_ in table.ids[roles == "test"]}
    first_of_class = {item.label: item for item in reversed(items) if item.id in test_ids}
    return list(first_of_class.values())[:SHOWN]


def _predict(bundle: Path, items: list[Item]) -> None:
    files = [item.path for item in items if item.path is not None]
    table = predict_images(open_predictor(bundle), files)
    for item, name, probability in zip(items, table["class"], table["probability"], strict=True):
        print(f"  {item.id:24} is {item.label:14} predicted {name:14} {probability:.2f}")


def _print_next_steps(out: Path, bundle: Path, report: Path, seconds: float) -> None:
    _print_step("Next", f"The demo took {seconds:.0f} s. Try:")
    paths = ""
    if out != Path("frostbench-demo"):
        paths = f" --set 'caches=[{out / 'cache'}]' --set store={out / 'results'}"
    for line in (
        f"open {report}",
        f"frostbench bench run demo{paths}   # trains nothing: all runs are in the store",
        f"frostbench compare demo --baseline full{paths}",
        f"frostbench predict {bundle} IMAGE… --prior uniform",
        "frostbench embed YOUR_IMAGES/ --cache mine && frostbench train mine --preset full --out head",
        "frostbench options",
    ):
        print(f"  {line}")
