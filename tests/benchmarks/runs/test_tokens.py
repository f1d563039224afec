"""Patch tokens of a cache, pooled by a trained head."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
import torch
from seeing import Halves, write_images

from frostbench.benchmarks.calibration.report import calibration
from frostbench.benchmarks.runs.keys import key_of
from frostbench.benchmarks.runs.runner import run_bench
from frostbench.benchmarks.runs.store import run_folder
from frostbench.benchmarks.runs.tuning import chosen_rows
from frostbench.benchmarks.settings.plan import BenchSpec
from frostbench.embedcache.extraction.extract import extract
from frostbench.embedcache.sources.folders import list_folder
from frostbench.embedcache.splits.making import load_or_make_split
from frostbench.embedcache.splits.spec import SplitSpec
from frostbench.embedcache.table import read_table
from frostbench.heads.bundle.export import load_head
from frostbench.training.run import RunSpec

SHORT = {"train.schedule.epochs": 3, "train.schedule.min_steps": 0, "train.schedule.batch_size": 8}
POOLED = {"columns": ["rows"], "head.body.kind": "attention_pool", "head.body.heads": 1}


@dataclass
class Rows(Halves):
    """Halves, plus the mean colour of each row of pixels as a token."""

    @property
    def recipes(self):
        own = super().recipes
        return own | {"rows": own["cls"].model_copy(update={"pooling": "tokens"})}

    @property
    def dims(self):
        return {"cls": 6, "rows": 3}

    def __post_init__(self):
        self.tokens = {"rows": self.size}

    def embed(self, batch):
        return super().embed(batch) | {"rows": batch.float().mean(3).transpose(1, 2) / 16}


@pytest.fixture(scope="module")
def bench(tmp_path_factory):
    root = tmp_path_factory.mktemp("tokens")
    write_images(root / "images", {"ash": 26, "beech": 20, "cedar": 14})
    list(extract(list_folder(root / "images"), Rows(), root / "cache"))
    spec = {"preset": "plain", "base": SHORT, "toggles": {"pooled": POOLED}, "seeds": (0,)}
    bench = BenchSpec(caches=(str(root / "cache"),), store=str(root / "store"), **spec)
    list(run_bench(bench))
    return bench


def test_a_head_pools_the_tokens_of_a_cache(bench):
    (part,) = chosen_rows(bench)
    head = load_head(run_folder(Path(bench.store), part.rows["pooled"][0]) / "head")
    table = read_table(Path(part.cache), ["rows"])
    assert table.columns["rows"].shape == (60, 8, 3)
    logits = head.logits({"rows": torch.tensor(table.columns["rows"].astype(np.float32))})
    assert logits.shape == (60, 3)
    assert head.recipes["rows"]["pooling"] == "tokens"


def test_keys_are_the_same_whether_tokens_are_read_or_not(bench):
    cache = Path(bench.caches[0])
    plain, both = read_table(cache, stored=True), read_table(cache, ["cls", "rows"], stored=True)
    split = load_or_make_split(cache, plain, SplitSpec())
    on_tokens = RunSpec.model_validate({"columns": ["rows"]})
    for run in (RunSpec(), on_tokens):
        assert key_of(plain, split, run) == key_of(both, split, run)
    assert key_of(plain, split, RunSpec()) != key_of(plain, split, on_tokens)


def test_calibration_reads_the_tokens_too(bench):
    (report,) = calibration(bench, resamples=20)
    assert set(report.rows) == {"plain", "pooled"}


def test_tokens_that_stay_on_disk_are_refused(bench):
    base = SHORT | {"train.sampler.buffer_rows": 65536}
    other = bench.model_copy(update={"store": bench.store + "2", "base": base})
    with pytest.raises(ValueError, match=r"columns=rows needs all \d+ rows at once"):
        list(run_bench(other, stream="always"))


def test_a_cache_of_tokens_alone_gives_bundles_without_a_canary(tmp_path):
    @dataclass
    class Alone(Rows):
        @property
        def recipes(self):
            return {"rows": super().recipes["rows"]}

        @property
        def dims(self):
            return {"rows": 3}

        def embed(self, batch):
            return {"rows": super().embed(batch)["rows"]}

    write_images(tmp_path / "images", {"ash": 26, "beech": 20, "cedar": 14})
    list(extract(list_folder(tmp_path / "images"), Alone(), tmp_path / "cache"))
    spec = {"preset": "plain", "base": SHORT | POOLED, "seeds": (0,)}
    bench = BenchSpec(caches=(str(tmp_path / "cache"),), store=str(tmp_path / "store"), **spec)
    list(run_bench(bench))
    (part,) = chosen_rows(bench)
    folder = run_folder(Path(bench.store), part.rows["plain"][0]) / "head"
    assert load_head(folder).columns == ("rows",)
    assert not (folder / "canary.png").exists()
