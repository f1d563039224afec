"""CSV files that are safe in spreadsheets, and names that cannot break lines."""

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.csv
import pytest

from frostbench.app.frames import print_frame, write_frame
from frostbench.benchmarks.comparison.tables import aligned, write_table
from frostbench.benchmarks.inference.predict import write_predictions
from frostbench.embedcache.exchange.external import import_vectors
from frostbench.embedcache.exchange.interop import export_cache
from frostbench.embedcache.names import one_line
from frostbench.embedcache.outputs.spreadsheets import formula_note, guarded
from frostbench.embedcache.table import read_table

FORMULAS = ["=1+1", "+a", "-b", "@SUM(A1)", "\tx", "\rx", "\nx", "＝1", "＋1", "－1", "＠x"]
HARMLESS = ["-1.5", "+3", "1e5", "-inf", "a=b", " =1", "'=1", "größe", ""]


def table() -> pd.DataFrame:
    names = [*FORMULAS, *HARMLESS]
    n = len(names)
    return pd.DataFrame(
        {"image": names, "class": names, "probability": -np.arange(n) / n, "error": [None] * n, "=p": ["x"] * n}
    )


def test_texts_that_are_formulas_get_an_apostrophe_and_nothing_else_changes() -> None:
    found = guarded(table())
    assert found["image"].tolist() == [f"'{text}" for text in FORMULAS] + HARMLESS
    assert list(found) == ["image", "class", "probability", "error", "'=p"]
    assert found["probability"].equals(table()["probability"])
    assert found["error"].isna().all()
    note = formula_note(table())
    assert note is not None
    assert note.startswith(f"{2 * len(FORMULAS) + 1} texts that a spreadsheet would evaluate as formulas")
    assert formula_note(pd.DataFrame({"a": HARMLESS})) is None


@pytest.mark.parametrize("write", [write_predictions, write_frame, lambda frame, out: write_table(frame, dict, out)])
def test_every_csv_for_people_is_guarded_and_other_forms_are_exact(tmp_path: Path, write) -> None:
    write(table(), tmp_path / "x.csv")
    whole = pyarrow.csv.ConvertOptions(column_types={"image": pa.string()}, strings_can_be_null=False)
    parse = pyarrow.csv.ParseOptions(newlines_in_values=True)
    cells = pyarrow.csv.read_csv(tmp_path / "x.csv", parse_options=parse, convert_options=whole).to_pydict()
    assert cells["image"] == [f"'{text}" for text in FORMULAS] + HARMLESS
    assert list(cells)[-1] == "'=p"
    write(table(), tmp_path / "x.parquet")
    assert pd.read_parquet(tmp_path / "x.parquet")["image"].tolist() == [*FORMULAS, *HARMLESS]


def test_rows_of_an_exported_cache_are_exact_for_they_are_imported_again(tmp_path: Path) -> None:
    names = [*FORMULAS, "two\nlines"]
    pa.parquet.write_table(pa.table({"id": names, "label": names}), tmp_path / "m.parquet")
    np.save(tmp_path / "x.npy", np.random.default_rng(0).standard_normal((len(names), 3)))
    import_vectors(tmp_path / "x.npy", tmp_path / "m.parquet", tmp_path / "c", "m")
    export_cache(tmp_path / "c", tmp_path / "out", to="npy")
    import_vectors(tmp_path / "out" / "features.npy", tmp_path / "out" / "rows.csv", tmp_path / "again", "m")
    first, again = read_table(tmp_path / "c"), read_table(tmp_path / "again")
    assert again.ids.tolist() == first.ids.tolist() == names
    assert again.class_names == first.class_names


def test_no_name_breaks_a_line(capsys: pytest.CaptureFixture[str]) -> None:
    odd = "a\nb\r\t\x1b[31m\u2028\u202e\x85"
    assert one_line(odd) == r"a\nb\r\t\x1b[31m\u2028\u202e\x85"
    assert len(aligned([["row", "f1"], [odd, "0.5"]]).splitlines()) == 2
    print_frame(pd.DataFrame({"class": [odd], odd: [1.0]}), 5)
    printed = capsys.readouterr().out
    assert printed.count(r"a\nb\r\t\x1b[31m\u2028\u202e\x85") == 2
    assert len(printed.splitlines()) == 3
    assert json.loads(json.dumps(one_line("größe 日本"))) == "größe 日本"
