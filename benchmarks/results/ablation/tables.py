"""Result tables of the shipped benches: one CSV file per trial, which the pages and the explorer read.

Pages are made from these files, so results stay on the pages when the runs they were computed from are gone.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from frostbench.benchmarks.comparison.compare import Comparison
from frostbench.benchmarks.results.ablation.data_sets import DATA_SETS, Trial, short
from frostbench.benchmarks.runs.store import read_record
from frostbench.embedcache.outputs.tables import write_frame

COLUMNS = ("row", "metric", "value", "delta", "low", "high", "sd_groups", "sd_seeds", "p_holm", "verdict")
"""Columns taken from the comparison."""
FACTS = ("bench", "data", "backbone", "baseline", "seeds", "rows", "groups", "seconds")


def frame_of(trial: Trial, comparison: Comparison) -> pd.DataFrame:
    """Return the results of a trial, one line per row and metric, with the seconds of one run of the row."""
    store = Path(trial.bench.store)
    seconds = {name: _seconds(store, keys) for name, keys in comparison.rows.items()}
    frame = comparison.table[list(COLUMNS)].copy()
    facts: dict[str, Any] = {
        "bench": trial.bench.name,
        "data": trial.data,
        "backbone": short(trial.backbone),
        "baseline": comparison.baseline,
        "seeds": len(comparison.seeds),
        "rows": comparison.n_rows,
        "groups": comparison.n_groups,
    }
    frame = frame.assign(**facts, seconds=frame["row"].map(seconds))
    return frame[[*FACTS[:3], *COLUMNS, *FACTS[3:]]]


def _seconds(store: Path, keys: Sequence[str]) -> float:
    """Return the mean time of a run; runs that were trained together share their time equally."""
    records = [read_record(store, key) for key in keys]
    return sum(record.seconds / record.together for record in records) / len(records)


def path_of(trial: Trial, out: Path, against: str | None = None) -> Path:
    """Return the file of a trial's results: OUT/tables/NAME.csv.

    With another baseline than that of the bench: OUT/tables/against/NAME_BASELINE.csv.
    """
    if against is None:
        return out / "tables" / f"{trial.file_name}.csv"
    return out / "tables" / "against" / f"{trial.file_name}_{against.replace(' ', '_')}.csv"


def save(frame: pd.DataFrame, path: Path) -> None:
    """Write the results of a trial, rounded to five decimals."""
    write_frame(frame.round(5), path)


def read_tables(out: Path, benches: Sequence[str] | None = None) -> pd.DataFrame:
    """Read the results of all trials, or of those of some benches, in the order of the data sets.

    Raises:
        ValueError: there are none.
    """
    # Pages that are not about benches keep their tables beside these.
    frames = [frame for path in sorted((out / "tables").glob("*.csv")) if "bench" in (frame := pd.read_csv(path))]
    kept = [frame for frame in frames if benches is None or frame["bench"].iloc[0] in benches]
    if not kept:
        raise ValueError(
            f"{out / 'tables'} has no results of {', '.join(benches or ['any bench'])}. Run `--step train`."
        )
    kept.sort(key=_place)
    return pd.concat(kept, ignore_index=True)


def _place(frame: pd.DataFrame) -> int:
    """Return the place of a trial among those of all data sets and backbones; unknown ones are last."""
    data, backbone = frame[["data", "backbone"]].iloc[0]
    places = [(d.name, short(b)) for d in DATA_SETS for b in d.backbones]
    return places.index((data, backbone)) if (data, backbone) in places else len(places)
