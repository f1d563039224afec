"""The tables of docs/results/defaults.md on few rows."""

import numpy as np
import pytest

from benchmarks.results import defaults
from benchmarks.results.tables import Table, drawn, drawn_as_clip


def test_drawn_tables_are_long_tailed_and_those_of_clip_have_length_1():
    clip, plain = drawn_as_clip(np.random.default_rng(0), rows=600), drawn(np.random.default_rng(0), rows=600)
    assert np.linalg.norm(clip.x, axis=1) == pytest.approx(np.ones(600), abs=1e-5)
    assert (clip.x.shape, plain.x.shape) == ((600, 512), (600, 384))
    counts = np.bincount(plain.labels)
    assert counts[0] > 5 * counts[-1]


def test_roles_are_cut_class_by_class_and_few_rows_train():
    labels = np.repeat(np.arange(4), 100)
    roles = defaults._cut(labels, defaults.SHARES)
    for label in range(4):
        assert {role: int((roles[labels == label] == role).sum()) for role in defaults.SHARES} == {
            "train": 60,
            "select": 15,
            "calibrate": 10,
            "test": 15,
        }
    few = defaults._few(labels)
    assert [(few == role).sum() for role in ("train", "select", "calibrate", "test")] == [120, 60, 60, 160]


def test_a_table_at_every_scale_is_a_line_of_scores(tmp_path, monkeypatch):
    draw = np.random.default_rng(0)
    labels = np.repeat(np.arange(3), 40)
    table = Table((3 * np.eye(3, 8)[labels] + 0.1 * draw.normal(size=(120, 8))).astype(np.float32), labels)
    monkeypatch.setattr(defaults, "tables", lambda data, work: {"toy": lambda: table})
    monkeypatch.setattr(defaults, "LENGTHS", (None, 1))
    monkeypatch.setattr(defaults, "PRESETS", ("plain",))
    (row,) = [line for line in defaults._by_scale({"toy": lambda: table}) if line.startswith("| toy")]
    cells = [cell.strip() for cell in row.strip("|").split("|")]
    assert cells[:3] == ["toy, 8-D", "plain", "18"]
    assert [cell.split("/")[:2] for cell in cells[3:]] == [["1.000", "1.000"]] * 5
    with pytest.raises(ValueError, match=r"one of \['toy'\], however: \['coins'\] came"):
        next(defaults.written(None, tmp_path, tmp_path, ["coins"]))
