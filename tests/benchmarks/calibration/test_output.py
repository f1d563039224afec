"""A report as text and as saved tables, and its progress."""

import json
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from frostbench.benchmarks.api import calibration
from frostbench.benchmarks.calibration.page import write_calibration_page
from frostbench.benchmarks.calibration.tables import save, to_text
from frostbench.embedcache.outputs.places import OutputError


def test_progress_is_reported(toy):
    counts = []
    calibration(toy, resamples=4, progress=lambda done, total: counts.append((done, total)))
    assert counts == [(n, 10) for n in range(1, 11)]


def test_the_text_names_everything(report):
    text = to_text(report)
    for words in (
        "validation rows (select), baseline 'plain'",
        "before temperature scaling",
        "after temperature scaling",
        "as is, with the heads' own calibration",
        "Temperatures were fitted to the calibration rows.",
        "95 % intervals from 100 resamples",
        "class-wise ECE",
    ):
        assert words in text
    assert "nan" not in text


def test_single_things_are_named_in_the_singular(report, tmp_path):
    draws = replace(report.draws, groups=np.zeros(1, int), count=1)
    temperatures = {row: values[:1] for row, values in report.temperatures.items()}
    small = replace(report, draws=draws, temperatures=temperatures, seeds=(0,), runs_seen=1, others=1)
    assert (
        "\n1 row in 1 group; seed 0; 95 % intervals from 1 resample of the groups; 1 row of other classes for OOD "
        "detection\n1 run of this store was evaluated on these rows\n"
    ) in to_text(small)
    page = write_calibration_page([replace(small, draws=report.draws)], tmp_path / "page.html").read_text("utf-8")
    assert " groups, seed 0; 95&nbsp;% intervals from\n100 resamples of the groups." in page
    assert "1 row of other classes is used for out-of-distribution (OOD) detection." in page


@pytest.mark.parametrize("ending", [".csv", ".json", ".parquet"])
def test_tables_are_saved(report, tmp_path, ending):
    save([report], tmp_path / f"table{ending}")
    read = {".csv": pd.read_csv, ".parquet": pd.read_parquet}.get(ending)
    if read is None:
        (tree,) = json.loads((tmp_path / "table.json").read_text())
        assert tree["temperatures"].keys() == report.rows.keys()
        table = pd.DataFrame(tree["table"])
    else:
        table = read(tmp_path / f"table{ending}")
    assert len(table) == len(report.table)
    assert set(table["side"]) == {"before", "after", "as_is"}
    with pytest.raises(OutputError, match=r"a table must end in .csv or .json or .parquet, got 't.txt'"):
        save([report], tmp_path / "t.txt")
