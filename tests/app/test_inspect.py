"""The commands of `frostbench inspect` on a small cache."""

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

from frostbench.app.cli import app
from frostbench.app.frames import WIDE
from frostbench.embedcache.recipe import Recipe
from frostbench.embedcache.sources.source import Item
from frostbench.embedcache.storage import store


@pytest.fixture
def cache(tmp_path: Path) -> Path:
    """Sixty images of three classes; number 59 is the file of number 0 and has another label."""
    rng = np.random.default_rng(0)
    labels = np.arange(60) % 3
    x = (rng.normal(size=(3, 8))[labels] * 2 + rng.normal(size=(60, 8))).astype(np.float16)
    x[59] = x[0]
    x[58] = x[1] + np.float16(0.004)
    content = [bytes([i]) * 32 for i in range(59)] + [bytes([0]) * 32]
    items = [Item(f"[b]{i:02d}.png", Path(f"/data/{i:02d}.png"), "abc"[labels[i]], None, None) for i in range(60)]
    columns = {"avg": Recipe(provider="external", model="m")}
    path = tmp_path / "cache"
    about = {
        "format_version": store.FORMAT_VERSION,
        "source": {"kind": "test"},
        "class_names": ["a", "b", "c"],
        "columns": store.describe_columns(columns, {"avg": 8}),
        "shard_rows": 100,
    }
    store.write_json(path / "cache.json", about)
    store.write_items(path, items)
    store.write_shard(path, 0, [item.id for item in items], content, {"avg": x}, [], columns, {"avg": 8})
    store.write_manifest(path)
    return path


def output_of(*words: object) -> str:
    """Return the output of a command, including notes."""
    result = CliRunner().invoke(app, ["inspect", *map(str, words)])
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    assert result.exit_code == 0
    return result.output


def test_neighbours_of_a_row_and_of_all(cache: Path, tmp_path: Path) -> None:
    out = output_of("neighbours", cache, "--id", "[b]00.png", "-k", 2)
    assert out.splitlines()[0] == "[b]00.png (a)"
    assert "1   1.0000   c                 [b]59.png" in out
    assert "60 rows" not in output_of("neighbours", cache, "--id", "[b]00.png", "--out", tmp_path / "one.csv")
    assert "120 rows" in output_of("neighbours", cache, "-k", 2, "--out", tmp_path / "all.parquet")
    assert pd.read_parquet(tmp_path / "all.parquet")["id"].value_counts().tolist() == [2] * 60


def test_neighbours_need_a_query(cache: Path) -> None:
    result = CliRunner().invoke(app, ["inspect", "neighbours", str(cache)])
    assert "Give either --id or --image, or only --out for all rows; got 0 rows, 0 images and no output file." in str(
        result.exception
    )


def test_duplicates(cache: Path, tmp_path: Path) -> None:
    out = output_of("duplicates", cache, "--threshold", 0.999, "--out", tmp_path / "d.json")
    assert out.startswith("2 groups with 4 of 60 rows (1 identical, 1 near), by avg")
    rows = json.loads((tmp_path / "d.json").read_text())
    assert [(row["id"], row["kind"]) for row in rows] == [
        ("[b]00.png", "identical"),
        ("[b]59.png", "identical"),
        ("[b]01.png", "near"),
        ("[b]58.png", "near"),
    ]


def test_a_single_group_is_named_in_the_singular(cache: Path) -> None:
    out = output_of("duplicates", cache, "--threshold", 1)
    assert out.startswith("1 group with 2 of 60 rows (1 identical), by avg")


def test_leaks_and_conflicts(cache: Path, tmp_path: Path) -> None:
    roles = tmp_path / "roles.csv"
    held = {1, 4, 7, 59}
    roles.write_text("id,role\n" + "".join(f"[b]{i:02d}.png,{'test' if i in held else 'train'}\n" for i in range(60)))
    sets = ["--split", f"roles_from={roles}", "--split", "select=0", "--split", "calibrate=0"]
    out = output_of("leaks", cache, "--threshold", 0.999, *sets, "--out", tmp_path / "l.csv")
    assert "test      4           1      1   50.00%" in out
    assert "2 of 4 test rows (50.0%) have a duplicate in training" in out
    assert "The split from the file divides 1 group or set of identical images between roles." in out
    assert pd.read_csv(tmp_path / "l.csv")["id"].tolist() == ["[b]59.png", "[b]01.png"]
    conflicts = pd.read_csv(tmp_path / "l-conflicts.csv")
    assert conflicts[["label", "other_label", "kind"]].to_numpy().tolist() == [["a", "c", "identical"]]
    clean = output_of("leaks", cache, "--threshold", 0.999, "--split", "duplicates=0.999")
    assert "0.00%" in clean
    assert "%) have a duplicate in training" not in clean


def test_the_help_of_suspects_says_what_ranks_the_rows() -> None:
    text = " ".join(CliRunner().invoke(app, ["inspect", "suspects", "--help"], env={"COLUMNS": "200"}).output.split())
    assert "Ranks rows by the probability of their label, by ridge regression on other folds." in text
    assert "Number of neighbours whose votes for a label are shown as agreement." in text


def test_suspects(cache: Path, tmp_path: Path) -> None:
    out = output_of("suspects", cache, "-k", 5, "--out", tmp_path / "s.csv")
    assert out.startswith("1 of 60 labels is suspect, by avg")
    rows = pd.read_csv(tmp_path / "s.csv")
    assert len(rows) == 60
    assert "[b]59.png" in rows["id"][:6].tolist()


def test_balance(cache: Path, tmp_path: Path) -> None:
    out = output_of("balance", cache, "--out", tmp_path / "b.csv")
    assert f"{tmp_path / 'b.csv'}: 3 rows" in out.splitlines()
    assert "60 rows, 3 classes (3 few by training rows)" in out
    assert "imbalance ratio 1.0, effective number of classes 3.0" in out
    assert pd.read_csv(tmp_path / "b.csv")["rows"].tolist() == [20, 20, 20]


def test_balance_without_a_possible_split_notes_that(cache: Path) -> None:
    out = output_of("balance", cache, "--split", "source=given")
    assert "note: roles are not counted: source=given needs splits stated by the image source" in out
    assert "3 classes (3 medium by all rows)" in out


def test_map_is_kept_and_drawn(cache: Path, tmp_path: Path) -> None:
    assert "--out map.html draws it" in output_of("map", cache)
    [kept] = (cache / "maps").iterdir()
    assert pd.read_parquet(kept).columns.tolist() == ["id", "x", "y"]
    for name in ("m.html", "m.svg", "m.csv"):
        output_of("map", cache, "--out", tmp_path / name)
    page, drawing = (tmp_path / "m.html").read_text(), (tmp_path / "m.svg").read_text()
    assert drawing in page
    assert "<script" not in page
    assert drawing.count("<title>[b]") == 60
    assert "<title>[b]59.png: c</title>" in drawing
    assert pd.read_csv(tmp_path / "m.csv")["label"].value_counts().tolist() == [20, 20, 20]


@pytest.mark.parametrize("name", ["t.txt", "nowhere/t.csv"])
def test_files_that_cannot_be_written_are_refused_first(cache: Path, tmp_path: Path, name: str) -> None:
    for command in ("duplicates", "leaks", "suspects", "balance", "map", "neighbours"):
        result = CliRunner().invoke(app, ["inspect", command, str(cache), "--out", str(tmp_path / name)])
        assert isinstance(result.exception, ValueError)
        assert Path(name).parts[0] in str(result.exception)
    assert not (cache / "splits").exists()


def test_lines_are_not_cut_in_a_pipe(capsys: pytest.CaptureFixture[str]) -> None:
    from frostbench.app.frames import print_frame

    print_frame(pd.DataFrame({"id": ["x" * 300, "[red]y[/red]"], "share": [0.25, 1.0], "odd": [True, False]}), 1)
    out = capsys.readouterr().out
    assert "x" * 300 in out
    assert "0.2500   yes" in out
    assert "red" not in out
    assert "and 1 more; --out writes all rows" in out
    assert WIDE > 300
