"""OOD detection: scores separate the evaluated rows from rows of other classes."""

import math
from pathlib import Path

import numpy as np
import pytest

from frostbench.benchmarks.api import calibration
from frostbench.benchmarks.calibration.tables import to_text
from frostbench.benchmarks.runs.evaluate import predictions
from frostbench.benchmarks.runs.store import run_folder
from frostbench.embedcache.recipe import Recipe
from frostbench.embedcache.sources.source import Item
from frostbench.embedcache.splits.making import load_or_make_split
from frostbench.embedcache.storage.files import write_json
from frostbench.embedcache.storage.store import (
    FORMAT_VERSION,
    describe_columns,
    write_items,
    write_manifest,
    write_shard,
)
from frostbench.embedcache.table import read_table
from frostbench.heads.bundle.export import load_head
from frostbench.training.metrics.ood import auroc, scores


class TestOthers:
    def test_scores_of_the_heads_are_compared(self, toy, tmp_path):
        others = other_cache(tmp_path / "cache")
        (found,) = calibration(toy, others=others, resamples=50)
        store, table, far = Path(toy.store), read_table(Path(toy.caches[0])), read_table(others)
        split = load_or_make_split(Path(toy.caches[0]), table, toy.split)
        values = []
        for key in found.rows["plain"]:
            head = load_head(run_folder(store, key) / "head")
            own = scores(predictions(head, table, split.roles == "select").logits)
            other = scores(predictions(head, far, np.ones(len(far.ids), dtype=bool)).logits)
            values.append([auroc(own[name], other[name]) for name in own])
        names = ("msp", "neg_entropy", "max_logit", "energy")
        for name, wanted in zip(names, np.mean(values, 0), strict=True):
            line = found.line("before", "plain", f"auroc_{name}")
            assert line["value"] == pytest.approx(wanted, abs=1e-9)
            assert line["value_low"] <= line["value"] <= line["value_high"]
        assert found.others == len(far.ids)
        assert "rows of other classes for OOD detection" in to_text(found)
        # A temperature does not move the order of the largest logit, and an ensemble has no logits.
        assert found.line("after", "plain", "auroc_max_logit")["value"] == pytest.approx(
            np.mean(values, 0)[2], abs=1e-9
        )
        assert math.isnan(found.line("before", "both", "auroc_energy")["value"])
        assert found.line("before", "both", "auroc_msp")["value"] > 0

    def test_the_same_images_are_refused(self, toy):
        with pytest.raises(
            ValueError, match="Images for OOD detection must not be in the bench's cache, but 272 of the 272"
        ):
            calibration(toy, others=toy.caches[0], resamples=4)

    def test_vectors_of_another_recipe_are_refused(self, toy, tmp_path):
        other = other_cache(tmp_path / "cache", model="another")
        with pytest.raises(ValueError, match="This head was trained on column 'toy' of recipe"):
            calibration(toy, others=other, resamples=4)


def other_cache(folder, model="gaussian"):
    """Forty rows of a class that the bench does not have."""
    columns, dims = {"toy": Recipe(provider="external", model=model)}, {"toy": 8}
    items = [Item(id=f"x{i:03d}", path=None, label="stone", group=f"h{i // 2}", split=None) for i in range(40)]
    state = {"format_version": FORMAT_VERSION, "class_names": ["stone"], "columns": describe_columns(columns, dims)}
    write_json(folder / "cache.json", state | {"shard_rows": 10_000})
    write_items(folder, items)
    vectors = np.random.default_rng(0).normal(0, 0.3, (40, 8)).astype(np.float16)
    content = [(10_000 + i).to_bytes(32, "big") for i in range(40)]
    write_shard(folder, 0, [item.id for item in items], content, {"toy": vectors}, [], columns, dims)
    write_manifest(folder)
    return folder
