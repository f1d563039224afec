"""Measures every data set, strategy and draw once, and keeps what was measured in files."""

import hashlib
import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from frostbench.benchmarks.results.labels.loop import Curve, chooser_of, simulate
from frostbench.benchmarks.results.labels.planted import Found, planted_errors
from frostbench.benchmarks.results.labels.pools import Pool, pool_of
from frostbench.embedcache.index.next_labels import STRATEGIES, Strategy
from frostbench.embedcache.outputs.writing import write_text

DRAWS = 10
HERE = Path(__file__).resolve()
CODE = (
    *(HERE.parent / f"{name}.py" for name in ("loop", "planted", "pools")),
    *(
        HERE.parents[3] / "embedcache" / "index" / f"{name}.py"
        for name in ("acquisition", "next_labels", "suspects", "confident", "out_of_sample")
    ),
    *(HERE.parents[3] / "heads" / "closed_form" / f"{name}.py" for name in ("lda", "eigen")),
)
"""Files that decide what is measured; a change of one of them measures anew."""


@dataclass(frozen=True)
class Measured:
    """What was measured on a data set.

    Attributes:
        name: the data set.
        rows: rows of the pool of the first draw, and of its test rows.
        classes: number of classes.
        overlap: of each draw, see `Pool`.
        curves: the curve of each draw, by strategy.
        found: what checking found, for each draw.
    """

    name: str
    rows: tuple[int, int]
    classes: int
    overlap: tuple[float, ...]
    curves: dict[Strategy, tuple[Curve, ...]]
    found: tuple[tuple[Found, ...], ...]


def measure(work: Path, name: str, draws: int) -> Iterator[str | Measured]:
    """Yield a line per draw that is not in the work folder, and then everything measured on a data set."""
    sizes, curves, found = list[Any](), {one: list[Curve]() for one in STRATEGIES}, list[tuple[Found, ...]]()
    for draw in range(draws):
        path = work / "labels" / f"{name.replace(' ', '_')}-{draw}-{_digest()}.json"
        if not path.is_file():
            path.parent.mkdir(parents=True, exist_ok=True)
            write_text(path, json.dumps(_measured(pool_of(work, name, draw), draw)))
            yield f"{name}, draw {draw + 1} of {draws} measured"
        kept = json.loads(path.read_text(encoding="utf-8"))
        sizes.append(kept["size"])
        for strategy in STRATEGIES:
            curves[strategy].append(_curve(kept["curves"][strategy]))
        found.append(tuple(Found(**one) for one in kept["found"]))
    rows, tested, classes, _ = sizes[0]
    overlaps = tuple(size[3] for size in sizes)
    yield Measured(
        name, (rows, tested), classes, overlaps, {one: tuple(all_) for one, all_ in curves.items()}, tuple(found)
    )


def _measured(pool: Pool, draw: int) -> dict[str, Any]:
    curves = {one: asdict(simulate(pool, chooser_of(one), draw)) for one in STRATEGIES}
    size = (len(pool.labels), len(pool.test_labels), pool.classes, pool.overlap)
    return {"size": size, "curves": curves, "found": [asdict(one) for one in planted_errors(pool, draw)]}


def _curve(kept: dict[str, Any]) -> Curve:
    return Curve(tuple(kept["labels"]), tuple(kept["scores"]), kept["full"], kept["rows"])


def _digest() -> str:
    return hashlib.sha256(b"".join(path.read_bytes() for path in sorted(CODE))).hexdigest()[:12]
