"""Tables of rows as files."""

from pathlib import Path

import pandas as pd

from frostbench.embedcache.outputs.places import OutputError
from frostbench.embedcache.outputs.spreadsheets import write_csv
from frostbench.embedcache.outputs.writing import new_file

TABLES = (".csv", ".json", ".parquet")


def write_frame(frame: pd.DataFrame, out: Path) -> None:
    """Write a table as .csv, .json (records) or .parquet, by the file's ending, whole or not at all.

    Texts of .csv that a spreadsheet would take for formulas get an apostrophe; see
    `frostbench.embedcache.outputs.spreadsheets`.

    Raises:
        OutputError: it has another ending.
    """
    ending = out.suffix.lower()
    if ending not in TABLES:
        raise OutputError(f"a table ends in {' or '.join(TABLES)}, however: {out.name!r} came. Change its ending.")
    with new_file(out) as partial:
        if ending == ".csv":
            write_csv(frame, partial)
        elif ending == ".json":
            frame.to_json(partial, orient="records", indent=1, force_ascii=False)
        else:
            frame.to_parquet(partial, index=False)
