import csv
import shutil

import pytest
from short_benches import bench_of

from frostbench.benchmarks.comparison.appending import append_runs
from frostbench.benchmarks.comparison.compare import compare
from frostbench.benchmarks.runs.runner import bench_rows, run_bench
from frostbench.benchmarks.runs.store import read_record
from frostbench.embedcache.outputs.places import OutputError


@pytest.fixture
def store(cache):
    return cache.parent / "runs"


@pytest.fixture
def compared(cache, store):
    """Compares a bench whose rows are named by these toggles."""

    def compared(role="select", **fields):
        bench = bench_of(cache, **fields)
        list(run_bench(bench))
        return compare(store, bench_rows(bench)[0].rows, role=role, title="a bench", resamples=50)

    return compared


def read(path):
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


FULL = {"full": {"preset": "ridge"}, "=lda": {"preset": "lda"}}


def test_one_line_per_run_with_differences_from_full(compared, store, tmp_path):
    comparison, path = compared(toggles=FULL), tmp_path / "metrics.csv"
    assert append_runs(store, comparison, path).added == 6
    lines = read(path)
    assert [(line["row"], line["seed"]) for line in lines] == [
        (row, seed) for row in ("baseline", "full", "'=lda") for seed in ("0", "1")
    ]
    facts = {(line["reference"], line["role"], line["comparison"]) for line in lines}
    assert facts == {("full", "validation", "a bench")}
    for line in lines:
        metrics = read_record(store, line["key"]).evaluations["select"].metrics
        full = read_record(store, comparison.rows["full"][int(line["seed"])]).evaluations["select"].metrics
        for name in ("macro_f1_fg", "weighted_f1_fg", "macro_precision_fg", "macro_recall_fg", "ece"):
            assert float(line[name]) == pytest.approx(metrics[name], abs=1e-6)
            assert float(line[f"delta_{name}"]) == pytest.approx(metrics[name] - full[name], abs=2e-6)


def test_twice_is_once(compared, store, tmp_path):
    comparison, path = compared(toggles=FULL), tmp_path / "metrics.csv"
    append_runs(store, comparison, path)
    before = path.read_bytes()
    again = append_runs(store, comparison, path)
    assert (again.added, again.replaced) == (0, 6)
    assert path.read_bytes() == before


def test_without_full_differences_are_from_the_baseline(compared, store, tmp_path):
    comparison, path = compared(toggles={"lda": {"preset": "lda"}}), tmp_path / "metrics.csv"
    append_runs(store, comparison, path)
    lines = read(path)
    assert {line["reference"] for line in lines} == {"baseline"}
    assert [line["delta_macro_f1_fg"] for line in lines if line["row"] == "baseline"] == ["+0.000000"] * 2


def test_columns_are_matched_by_name_and_those_of_others_stay(compared, store, tmp_path):
    path = tmp_path / "metrics.csv"
    path.write_text('comment,ece,row\n"a, b",0.1,old\n', encoding="utf-8")
    append_runs(store, compared(), path)
    old, *new = read(path)
    assert (old["comment"], old["ece"], old["row"], old["key"]) == ("a, b", "0.1", "old", "")
    assert path.read_text().startswith("comment,ece,row,key,seed,")
    assert [(line["comment"], line["row"]) for line in new] == [("", "baseline")] * 2
    assert all(float(line["ece"]) > 0 for line in new)


def test_runs_of_another_split_or_role_are_refused(compared, store, cache, tmp_path):
    path = tmp_path / "metrics.csv"
    append_runs(store, compared(), path)
    before = path.read_bytes()
    with pytest.raises(OutputError, match="must have the same role, since others are computed on other images"):
        append_runs(store, compared(role="test"), path)
    with pytest.raises(OutputError, match="must have the same split"):
        append_runs(store, compared(split={"seed": 7}), path)
    assert path.read_bytes() == before


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("row,row\na,b\n", "has row twice"),
        ("row,ece\na\n", "line 2 has another number of cells"),
        ('row\n"a\n', "must be readable CSV"),
    ],
)
def test_files_that_cannot_be_extended_are_refused(compared, store, tmp_path, text, message):
    path = tmp_path / "metrics.csv"
    path.write_text(text)
    with pytest.raises(OutputError, match=message):
        append_runs(store, compared(), path)
    assert path.read_text() == text


def test_other_endings_are_refused(compared, store, tmp_path):
    with pytest.raises(OutputError, match="csv"):
        append_runs(store, compared(), tmp_path / "metrics.xlsx")


def test_nothing_but_the_file_and_its_lock_is_written(compared, store, tmp_path):
    folder = tmp_path / "out"
    append_runs(store, compared(), folder / "metrics.csv")
    assert sorted(path.name for path in folder.iterdir()) in ([".metrics.csv.lock", "metrics.csv"], ["metrics.csv"])
    shutil.rmtree(folder)
