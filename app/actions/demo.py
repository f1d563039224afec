"""The demo: the whole path on real images, from files to a head that predicts."""

from pathlib import Path
from time import perf_counter
from typing import Literal

from frostbench.app.actions.benches import compare_bench, run_rows, save_comparisons
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
from frostbench.training.metrics.classification import Preference, preferred

SHOWN = 6
"""Held-out images that are predicted."""


def run_demo(data: Literal["solar", "digits"], out: Path) -> None:
    """Images to a cache, settings over seeds, an A/B table, a report, and the winner's predictions.

    Raises:
        OutputError: the folder holds files that no demo made.
    """
    began = perf_counter()
    claim_folder(out)
    images = solar_cells(out) if data == "solar" else digits(out)
    _say("1. Images to vectors", images.notice)
    listing = list_source(images.manifest, root=images.root)
    if embed_listing(listing, load_backbone("bundled", "efficientnet_lite0"), out / "cache") is None:
        return
    _say("2. Settings × seeds", "Every run is kept by what it is; what is there already is not trained again.")
    bench = _bench(out)
    if run_rows(bench) is None:
        return
    _say("3. What made a difference", "Compared on validation rows; the test rows have not been looked at.")
    (comparison,) = compare_bench(bench)
    print(to_text(comparison))
    *_, report = save_comparisons(bench, [comparison], out / "compare")
    winner = _winner(comparison)
    _say("4. The winner on the test rows", f"{winner!r} has the best {MAIN} on validation; now the test is revealed.")
    _reveal(bench, comparison.baseline, winner)
    _say("5. Export, and prediction from the bundle alone")
    bundle = out / "winner"
    remove(bundle)
    print(export_row(bench, winner, bundle))
    _predict(bundle, _held_out(out / "cache", bench, listing.items))
    _next(out, bundle, report, winner, perf_counter() - began)


def _say(title: str, text: str = "") -> None:
    print(f"\n== {title}" + (f"\n{text}" if text else ""))


def _bench(out: Path) -> BenchSpec:
    places = {"caches": [str(out / "cache")], "store": str(out / "results")}
    return parse(BenchSpec, packaged_bench("demo") | places)


def _winner(comparison: Comparison) -> str:
    """The row with the best validation macro F1; of equals the one of lower NLL."""
    return max(comparison.rows, key=lambda row: _preference(comparison, row))


def _preference(comparison: Comparison, row: str) -> Preference:
    return preferred(comparison.line(row, MAIN)["value"], comparison.line(row, "nll")["value"])


def _reveal(bench: BenchSpec, baseline: str, winner: str) -> None:
    if winner == baseline:
        print("The baseline won, so there is no difference to test.")
        return
    (test,) = compare_bench(bench, baseline, "test", only=[baseline, winner])
    print(to_text(test))


def _held_out(cache: Path, bench: BenchSpec, items: tuple[Item, ...]) -> list[Item]:
    """Images of the test rows, of as many classes as there are places."""
    table = read_table(cache)
    roles = load_or_make_split(cache, table, bench.split, Path(bench.store)).roles
    held_out = {str(id_) for id_ in table.ids[roles == "test"]}
    first_of_class = {item.label: item for item in reversed(items) if item.id in held_out}
    return list(first_of_class.values())[:SHOWN]


def _predict(bundle: Path, items: list[Item]) -> None:
    files = [item.path for item in items if item.path is not None]
    table = predict_images(open_predictor(bundle), files)
    for item, name, share in zip(items, table["class"], table["probability"], strict=True):
        print(f"  {item.id:24} is {item.label:14} predicted {name:14} {share:.2f}")


def _next(out: Path, bundle: Path, report: Path, winner: str, seconds: float) -> None:
    _say("Next", f"That took {seconds:.0f} s. Try:")
    places = ""
    if out != Path("frostbench-demo"):
        places = f" --set 'caches=[{out / 'cache'}]' --set store={out / 'results'}"
    for line in (
        f"open {report}",
        f"frostbench bench run configs/benches/demo.yaml{places}   # trains nothing: all runs are there",
        f"frostbench compare configs/benches/demo.yaml --baseline full{places}",
        f"frostbench predict {bundle} IMAGE… --prior uniform",
        "frostbench embed YOUR_IMAGES/ --cache mine && frostbench train mine --preset full --out head",
        "frostbench options",
    ):
        print(f"  {line}")
