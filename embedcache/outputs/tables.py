"""Writing of tables to files."""

from pathlib import Path

import pandas as pd

from frostbench.embedcache.outputs.places import OutputError
from frostbench.embedcache.outputs.spreadsheets import write_csv
from frostbench.embedcache.outputs.writing import new_file

TABLES = (".csv", ".json", ".parquet")


def write_frame(frame: pd.DataFrame, out: Path) -> None:
    """Write a table atomically as .csv, .json (records) or .parquet, depending on the file's ending.

    In .csv, texts that a spreadsheet would evaluate get a leading apostrophe; see
    `frostbench.embedcache.outputs.spreadsheets`.

    Raises:
        OutputError: the ending is not supported.
    """
    ending = out.suffix.lower()
    if ending not in TABLES:
        raise OutputError(f"a table must end in {' or '.join(TABLES)}, got {out.name!r}. Change its ending.")
    with new_file(out) as partial:
        if ending == ".csv":
            write_csv(frame, partial)
        elif ending == ".json":
            frame.to_json(partial, orient="records", indent=1, force_ascii=False)
        else:
            frame.to_parquet(partial, index=False)
