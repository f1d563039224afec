"""Outputs are checked before the work and written atomically."""

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from dying_disk import dies, runs_full

from frostbench.app.actions.benches import read_bench, train_one
from frostbench.app.actions.comparing import compare_bench, save_comparisons
from frostbench.app.demo_data import claim_folder
from frostbench.benchmarks.runs.exporting import export_row
from frostbench.embedcache.backbones.text import ClassTexts
from frostbench.heads.bundle.export import BundleError, load
from frostbench.heads.bundle.removal import remove


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def train(cache: Path, store: Path, out: Path | None) -> None:
    train_one(cache, "plain", ["head.classifier.kind=logreg"], 0, str(store), out, "cpu", simple=False)


@pytest.fixture(scope="module")
def trained(cache, tmp_path_factory):
    """A store with one run, and the bench file that names it."""
    folder = tmp_path_factory.mktemp("trained")
    train(cache, folder / "store", None)
    bench = folder / "bench.yaml"
    tree = {"name": "train", "caches": [str(cache)], "store": str(folder / "store"), "preset": "plain", "seeds": [0]}
    bench.write_text(json.dumps(tree | {"base": {"head.classifier.kind": "logreg"}}))
    return bench


@pytest.mark.parametrize("stops", [dies, runs_full])
def test_an_export_survives_a_kill_and_a_full_disk_at_every_point(
    trained: Path, tmp_path: Path, stops: Callable[..., bool]
) -> None:
    bench = read_bench(str(trained), [])
    export_row(bench, "plain", tmp_path / "whole")
    whole = {path.name: path.read_bytes() for path in (tmp_path / "whole").iterdir()}
    torch.set_num_threads(1)
    at = 1
    while True:
        folder = tmp_path / f"{at}"
        folder.mkdir()
        out = folder / "head"
        stopped = stops(lambda out=out: export_row(bench, "plain", out), at)
        if not out.exists():
            assert stopped
            export_row(bench, "plain", out)
            assert names(folder) == ["head"]
        assert {path.name: path.read_bytes() for path in out.iterdir()} == whole
        if not stopped:
            break
        at += 1
    assert at > 10
    load(out)


@pytest.mark.parametrize("stops", [dies, runs_full])
@pytest.mark.parametrize(("is_trained", "step"), [(False, 9), (True, 2)])
def test_training_into_a_bundle_goes_on_after_a_kill_and_a_full_disk(
    cache: Path,
    tmp_path: Path,
    is_trained: bool,
    step: int,
    stops: Callable[..., bool],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    torch.set_num_threads(1)
    store, out, at = tmp_path / "store", tmp_path / "head", 1
    monkeypatch.setattr("frostbench.app.actions.benches.print", lambda *_: None, raising=False)
    if is_trained:
        train(cache, store, None)
    while stops(lambda: train(cache, store, out), at):
        if out.exists():
            load(out)
            remove(out)
        at += step
    load(out)
    assert at > 4 * step
    if stops is dies:
        train(cache, store, tmp_path / "again")
        load(tmp_path / "again")
    assert [name for name in names(tmp_path) + names(store) + names(store / "runs") if ".tmp" in name] == []


def test_unwritable_outputs_are_found_before_the_work(frostbench, cache, bundle, photos, trained, tmp_path):
    taken, image = tmp_path / "taken", tmp_path / "image.csv"
    taken.mkdir()
    image.mkdir()
    (tmp_path / "file").touch()
    (tmp_path / "leaks-conflicts.csv").mkdir()
    absent = ("--backbone", "timm:no_such_model")
    refused = [
        (("embed", photos, "--cache", tmp_path / "file/x", *absent), "file is not a folder"),
        (("embed", photos, "--cache", taken.parent, *absent), "must be empty or hold a cache.json"),
        (("inspect", "leaks", cache, "--out", tmp_path / "leaks.csv"), "leaks-conflicts.csv is a folder"),
        (("train", cache, "--store", tmp_path / "store", "--out", taken), "must be a new folder, but"),
        (("train", cache, "--store", tmp_path / "store", "--out", tmp_path / "file/x"), "file is not a folder"),
        (("train", cache, "--store", tmp_path / "file"), "file is not a folder"),
        (("export", trained, "plain", "--out", taken), "must be a new folder, but"),
        (("predict", bundle, cache, "--out", image), "image.csv is a folder"),
        (("compare", trained, "--out", tmp_path / "file"), "file is not a folder"),
        (("calibration", trained, "--out", tmp_path / "file/x.html"), "file is not a folder"),
        (("inspect", "balance", cache, "--out", image), "image.csv is a folder"),
        (("cache", "export", cache, image), "exist. Choose another name"),
        (("cache", "export", cache, image, "--overwrite"), "image.csv is a folder"),
        (
            ("views", "show", "none.png", "--policy", "flip", "--out", tmp_path / "no/x.png"),
            "does not exist. Create it",
        ),
        (("texts", cache, "--out", tmp_path / "file/x.npz"), "file is not a folder"),
    ]
    for words, message in refused:
        result = frostbench(*words)
        assert (result.status, result.out) == (2, ""), (words, result)
        assert message in result.err, (words, result.err)
    assert names(tmp_path) == ["file", "image.csv", "leaks-conflicts.csv", "taken"]
    assert names(taken) == names(image) == []


@pytest.mark.parametrize("taken", ["table-0.csv", "table-1.json", "report.html"])
def test_the_tables_of_several_caches_are_checked_before_the_work(frostbench, trained, tmp_path, taken):
    (tmp_path / taken).mkdir()
    result = frostbench("compare", trained, "--set", "caches=[one, two]", "--out", tmp_path)
    assert (result.status, result.out) == (2, "")
    assert f"{taken} is a folder" in result.err
    assert names(tmp_path) == [taken]


def test_several_comparisons_are_written_to_the_files_that_are_checked(trained, tmp_path):
    bench = read_bench(str(trained), [])
    comparisons = compare_bench(bench) * 2
    written = [path.name for path in save_comparisons(bench, comparisons, tmp_path)]
    tables = [f"table-{number}.{ending}" for number in (0, 1) for ending in ("csv", "json", "md", "tex")]
    assert written == [*tables, "report.html"]
    assert names(tmp_path) == sorted(written)


def test_compare_replaces_its_table_as_a_whole(frostbench, trained, tmp_path):
    out = tmp_path / "compare"
    assert frostbench("compare", trained, "--out", out).status == 0
    assert names(out) == ["report.html", "table.csv", "table.json", "table.md", "table.tex"]
    (out / "table.csv.4194304-0123abcd.tmp").write_text("half")
    (out / "table.csv").write_text("")
    assert frostbench("compare", trained, "--out", out).status == 0
    assert names(out) == ["report.html", "table.csv", "table.json", "table.md", "table.tex"]
    assert len(pd.read_csv(out / "table.csv")) > 3


def test_class_vectors_are_written_whole_under_their_own_name(tmp_path):
    texts = ClassTexts(("a", "b"), np.eye(2, dtype=np.float32), 1.0, 0.0, "f00d")
    texts.save(tmp_path / "texts.npz")
    assert names(tmp_path) == ["texts.npz"]
    with np.load(tmp_path / "texts.npz") as arrays:
        assert arrays["class_names"].tolist() == ["a", "b"]


def test_only_a_bundle_is_removed(bundle, tmp_path):
    remove(tmp_path / "none")
    for name, content in (("winner", "notes.txt"), ("winner", "member-0/notes.txt"), ("other", "")):
        place = tmp_path / name
        place.mkdir(exist_ok=True)
        if content:
            (place / content).parent.mkdir(exist_ok=True)
            (place / content).write_text("mine")
        with pytest.raises(BundleError, match="Only a bundle can be replaced"):
            remove(place)
    assert (tmp_path / "winner/notes.txt").read_text() == "mine"
    (tmp_path / "link").symlink_to(bundle)
    with pytest.raises(BundleError, match="Only a bundle can be replaced"):
        remove(tmp_path / "link")
    assert load(bundle)


def test_the_demo_refuses_folders_with_other_files(frostbench, tmp_path):
    (tmp_path / "winner").mkdir()
    (tmp_path / "winner/notes.txt").write_text("mine")
    for text in (None, "mine"):
        if text:
            (tmp_path / "demo.txt").write_text(text)
        result = frostbench("demo", "--data", "digits", "--out", tmp_path)
        assert result.status == 2
        assert "holds other files" in result.err
    assert names(tmp_path) == ["demo.txt", "winner"]
    assert (tmp_path / "winner/notes.txt").read_text() == "mine"
    claim_folder(tmp_path / "new")
    (tmp_path / "new/digits.csv").touch()
    claim_folder(tmp_path / "new")
    assert names(tmp_path / "new") == ["demo.txt", "digits.csv"]


def test_a_bundle_is_removed_whole(trained, tmp_path):
    bench = read_bench(str(trained), [])
    export_row(bench, "plain", tmp_path / "head")
    remove(tmp_path / "head")
    assert names(tmp_path) == []
