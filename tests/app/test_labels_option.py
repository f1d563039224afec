"""`--labels`: corrected labels on the command line."""

from pathlib import Path

import pytest

from frostbench.embedcache.labels.corrections import Correction, add_corrections
from frostbench.embedcache.table import read_table
from frostbench.heads.bundle.export import load

NAMES = ("digit 0", "digit 1", "digit 8")


@pytest.fixture
def files(cache, tmp_path):
    """A bench of one quick row, and corrections of all images of a class but one."""
    table = read_table(Path(cache), stored=True)
    moved = table.ids[table.labels == 0].tolist()[1:]
    add_corrections(tmp_path / "labels.csv", [Correction(image, NAMES[0], "digit 9") for image in moved])
    (tmp_path / "bench.yaml").write_text(
        f"{{caches: ['{cache}'], store: '{tmp_path / 'results'}', preset: ridge, toggles: {{lda: {{preset: lda}}}}}}"
    )
    return tmp_path / "bench.yaml", tmp_path / "labels.csv", moved


def test_every_command_of_a_bench_uses_them(frostbench, files, tmp_path):
    bench, labels, moved = files
    ran = frostbench("bench", "run", bench, "--labels", labels)
    assert ran.status == 0, ran.err
    assert f"Labels: {len(moved)} corrected." in ran.err
    assert frostbench("compare", bench, "--labels", labels).status == 0
    uncorrected = frostbench("compare", bench)
    assert (uncorrected.status != 0, "run" in uncorrected.err) == (True, True)
    assert frostbench("calibration", bench, "--labels", labels).status == 0
    exported = frostbench("export", bench, "lda", "--labels", labels, "--out", tmp_path / "head")
    assert exported.status == 0, exported.err
    assert load(tmp_path / "head").head.class_names == (*NAMES, "digit 9")


def test_train_uses_them(frostbench, cache, files, tmp_path):
    trained = frostbench("train", cache, "--preset", "ridge", "--labels", files[1], "--store", tmp_path / "own")
    assert trained.status == 0, trained.err
    assert f"Labels: {len(files[2])} corrected." in trained.err


def test_an_outdated_line_is_an_error_that_names_the_image(frostbench, files):
    bench, labels, moved = files
    add_corrections(labels, [Correction("no_such_image", "x", "y")])
    labels.write_text(labels.read_text().replace(f"{moved[0]},digit 0,", f"{moved[0]},digit 7,"))
    wrong = frostbench("bench", "run", bench, "--labels", labels)
    assert wrong.status == 2
    wanted = f"but 1 image has another one by now: {moved[0]} (digit 7, now digit 0). Correct or delete their lines."
    assert wanted in " ".join(wrong.err.split())
