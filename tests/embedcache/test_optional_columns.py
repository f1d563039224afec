"""Group, split and time in every kind of table are never silently ignored, and missing cells are reported."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from frostbench.embedcache.cells import as_texts, known_cells
from frostbench.embedcache.exchange.external import import_vectors
from frostbench.embedcache.sources.source import list_source
from frostbench.embedcache.table import read_table

LABELS = ["bee", "ant", "bee", "ant"]
Entrance = Callable[[Path, dict[str, Any]], tuple[list[str | None], list[str]]]


def from_manifest(folder: Path, columns: dict[str, Any]) -> tuple[list[str | None], list[str]]:
    (folder / "0.png").write_bytes(b"x")
    table = pa.table({"path": [f"{i}.png" for i in range(4)], "label": LABELS} | columns)
    pq.write_table(table, folder / "m.parquet")
    listing = list_source(folder / "m.parquet")
    return [item.group for item in listing.items], list(listing.warnings)


def from_images(folder: Path, columns: dict[str, Any]) -> tuple[list[str | None], list[str]]:
    pq.write_table(pa.table({"image": [b"x"] * 4, "label": LABELS} | columns), folder / "m.parquet")
    listing = list_source(folder / "m.parquet")
    return [item.group for item in listing.items], list(listing.warnings)


def from_dataset(folder: Path, columns: dict[str, Any]) -> tuple[list[str | None], list[str]]:
    datasets = pytest.importorskip("datasets")
    from datasets.features.features import generate_from_arrow_type

    datasets.disable_progress_bars()
    kinds = {"image": datasets.Image(decode=False), "label": datasets.ClassLabel(names=["ant", "bee"])}
    rows: dict[str, Any] = {"image": [{"bytes": b"x", "path": None}] * 4, "label": [1, 0, 1, 0]}
    for name, cells in columns.items():
        kinds[name] = generate_from_arrow_type(pa.array(cells).type)
        rows[name] = pa.array(cells).to_pylist()
    dataset = datasets.Dataset.from_dict(rows, features=datasets.Features(kinds))
    dataset.save_to_disk(folder / "data")
    listing = list_source(folder / "data")
    return [item.group for item in listing.items], list(listing.warnings)


def from_import(folder: Path, columns: dict[str, Any]) -> tuple[list[str | None], list[str]]:
    np.save(folder / "x.npy", np.eye(4, 3, dtype=np.float32) + 1)
    pq.write_table(pa.table({"label": LABELS} | columns), folder / "m.parquet")
    report = import_vectors(folder / "x.npy", folder / "m.parquet", folder / "c", "m")
    table = read_table(folder / "c")
    groups = zip(table.groups.tolist(), table.content.tolist(), strict=True)
    return [None if group == content else group for group, content in groups], list(report.warnings)


ENTRANCES = [from_manifest, from_images, from_dataset, from_import]


@pytest.mark.parametrize("read", ENTRANCES)
def test_integers_with_a_gap_which_pandas_stores_as_floats_are_the_integers(tmp_path: Path, read: Entrance) -> None:
    groups, warnings = read(tmp_path, {"group": pa.array([7.0, None, 7.0, 10.0])})
    assert groups == ["7", None, "7", "10"]
    assert "1 of 4 images has no group and counts as independent." in warnings


@pytest.mark.parametrize("read", ENTRANCES)
@pytest.mark.parametrize(
    ("cells", "message"),
    [
        (pa.array([1.5, 2.0, 3.0, 4.0]), r"column 'group' must hold text or whole numbers.*holds 1\.5 of type float"),
        (pa.array([True, False, True, False]), r"column 'group' must hold text or whole numbers.*its type is bool"),
        (pa.array([[1], [2], [1], [2]]), r"column 'group' must hold text or whole numbers.*its type is list"),
    ],
)
def test_a_named_column_of_another_type_is_an_error(
    tmp_path: Path, read: Entrance, cells: pa.Array, message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        read(tmp_path, {"group": cells})


@pytest.mark.parametrize("read", ENTRANCES)
def test_words_for_unknown_are_no_group_and_are_reported(tmp_path: Path, read: Entrance) -> None:
    groups, warnings = read(tmp_path, {"group": ["p1", "NA", "NA", " \u00a0"]})
    assert groups == ["p1", None, None, None]
    assert any(w.startswith("Cells of column 'group' were treated as missing: 2 × NA.") for w in warnings)
    assert "3 of 4 images have no group; each of them counts as independent." in warnings


@pytest.mark.parametrize("read", ENTRANCES)
def test_a_header_that_is_nearly_group_is_an_error_and_another_is_reported(tmp_path: Path, read: Entrance) -> None:
    with pytest.raises(ValueError, match=r"must be exact, but .* has 'Group' for 'group'\. Rename it"):
        read(tmp_path, {"Group": ["p", "p", "q", "q"]})
    _, warnings = read(tmp_path, {"colour": ["p", "p", "q", "q"]})
    assert "Unknown columns were ignored: colour." in warnings


@pytest.mark.parametrize("read", ENTRANCES)
def test_groups_that_look_alike_are_warned_of(tmp_path: Path, read: Entrance) -> None:
    _, warnings = read(tmp_path, {"group": ["p1", "p1\u200b", "q", "q"]})
    assert any(w.startswith("Some groups differ only by") and r"'p1' and 'p1\u200b'" in w for w in warnings)


def test_cells_of_arrays_follow_the_same_rule() -> None:
    missing = [None, float("nan"), np.float32("nan"), pd.NA, pd.NaT, ""]
    cells, notes = known_cells(
        as_texts([*missing, "NA", 3.0, np.int64(4), np.str_("p"), "007"], "group", "rows"), "group"
    )
    assert cells == [None] * 7 + ["3", "4", "p", "007"]
    assert notes == [
        "Cells of column 'group' were treated as missing: 1 × NA. If such a word is a real name, rename it."
    ]
    for wrong in (1.5, True, np.bool_(True), b"p", float("inf"), 2.0**53, [1]):
        with pytest.raises(ValueError, match=r"column 'group' must hold .* row 1 of rows .* holds"):
            as_texts(["p", wrong], "group", "rows")


def test_a_csv_of_r_with_unknown_times_and_splits(tmp_path: Path) -> None:
    (tmp_path / "1.png").write_bytes(b"x")
    rows = '"path","label","split","time"\n"1.png","NA",NA,NA\n"2.png","b","test","2024-01-31"\n'
    (tmp_path / "m.csv").write_text(rows)
    listing = list_source(tmp_path / "m.csv")
    assert [(i.label, i.split, i.time) for i in listing.items] == [("NA", None, None), ("b", "test", "2024-01-31")]
    assert sum("were treated as missing" in warning for warning in listing.warnings) == 2


def test_vectors_and_rows_in_one_file_and_times_that_do_not_go_together(tmp_path: Path) -> None:
    vectors = pa.array(np.eye(4, 3).tolist(), pa.list_(pa.float32()))
    times = ["2024-01-31", "2024-01-31T10:00Z", None, None]
    pq.write_table(pa.table({"v": vectors, "label": LABELS, "note": LABELS}), tmp_path / "one.parquet")
    report = import_vectors(tmp_path / "one.parquet", tmp_path / "one.parquet", tmp_path / "c", "m")
    assert "Unknown columns were ignored: note." in report.warnings
    pq.write_table(pa.table({"v": vectors, "label": LABELS, "time": times}), tmp_path / "two.parquet")
    with pytest.raises(ValueError, match="all times must have a UTC offset or none"):
        import_vectors(tmp_path / "two.parquet", tmp_path / "two.parquet", tmp_path / "d", "m")


def test_folders_named_like_columns_add_none(tmp_path: Path) -> None:
    folder = tmp_path / "group=3"
    folder.mkdir()
    groups, _ = from_manifest(folder, {})
    assert groups == [None] * 4
