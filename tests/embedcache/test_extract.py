"""Extraction end to end: events, rows, batches, options and results."""

import hashlib
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
import torch
from colour_images import RECIPE, Colours, make_folder, run
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from PIL import ImageFile

from frostbench.embedcache.extraction import extract as extract_module
from frostbench.embedcache.extraction.events import BatchDone, Finished, ShardDone, Started
from frostbench.embedcache.extraction.extract import QuarantineError, extract
from frostbench.embedcache.extraction.opening import embed_canary
from frostbench.embedcache.storage.store import read_bad, read_json
from frostbench.embedcache.table import read_table


def test_events_and_rows(tmp_path: Path) -> None:
    listing = make_folder(tmp_path / "images", 12, bad=frozenset({2, 11}))
    events = run(listing, tmp_path / "cache", batch=2)
    assert events[0] == Started(12, 0, 3, listing.warnings)
    assert [(e.shard, e.n_ok, e.n_bad, e.n_done) for e in events if isinstance(e, ShardDone)] == [
        (0, 4, 1, 5),
        (1, 5, 0, 10),
        (2, 1, 1, 12),
    ]
    assert isinstance(events[-1], Finished)
    assert (events[-1].n_listed, events[-1].n_ok, events[-1].n_bad) == (12, 10, 2)
    assert events[-1].n_worked == 12
    assert events[-1].images_per_second == pytest.approx(12 / events[-1].seconds)
    progress = [e.n_done for e in events if isinstance(e, BatchDone)]
    assert progress == sorted(progress)
    assert progress[-1] <= 12
    table = read_table(tmp_path / "cache", verify=True)
    numbers = [int(Path(one).stem) for one in table.ids]
    expected = np.array([[i, 255 - i, 7] for i in numbers], np.float16)
    np.testing.assert_array_equal(table.columns["cls"], expected)
    np.testing.assert_array_equal(table.columns["patch_mean"], 2 * expected)
    assert [table.class_names[label] for label in table.labels] == [one[0] for one in table.ids]


@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(bad=st.frozensets(st.integers(0, 16)), batch=st.integers(1, 6), shard_rows=st.integers(1, 20))
def test_failures_never_shift_rows(
    tmp_path_factory: pytest.TempPathFactory, bad: frozenset[int], batch: int, shard_rows: int
) -> None:
    folder = tmp_path_factory.mktemp("failures")
    listing = make_folder(folder / "images", 17, bad)
    backbone = Colours()
    events = list(extract(listing, backbone, folder / "cache", batch=batch, shard_rows=shard_rows, workers=3))
    assert events[-1].n_ok == 17 - len(bad) == 17 - events[-1].n_bad
    quarantine = [row["id"] for i in range(-(-17 // shard_rows)) for row in read_bad(folder / "cache", i)]
    assert sorted(int(Path(one).stem) for one in quarantine) == sorted(bad)
    if len(bad) < 17:
        table = read_table(folder / "cache")
        assert [int(Path(one).stem) for one in table.ids] == table.columns["cls"][:, 0].astype(int).tolist()
        digests = [hashlib.sha256((folder / "images" / one).read_bytes()).hexdigest() for one in table.ids]
        assert list(table.content) == digests
        assert list(table.ids) == [item.id for item in listing.items if item.id not in quarantine]


def test_batches_never_cross_shards(tmp_path: Path) -> None:
    sizes: list[int] = []

    @dataclass
    class Watching(Colours):
        def embed(self, batch: torch.Tensor) -> dict[str, torch.Tensor]:
            sizes.append(len(batch))
            return super().embed(batch)

    run(make_folder(tmp_path / "images", 12, bad=frozenset({0})), tmp_path / "cache", Watching(), batch=3)
    assert sizes[1:] == [3, 1, 3, 2, 2]  # after the canary: 4 good of 5, 5 of 5, 2 of 2


def test_cache_json_describes_the_cache_and_holds_no_time(tmp_path: Path) -> None:
    listing = make_folder(tmp_path / "images", 6)
    run(listing, tmp_path / "cache")
    cache = read_json(tmp_path / "cache" / "cache.json")
    assert cache["class_names"] == ["a", "b"]
    assert cache["source"] == {"kind": "folder", "root": str(tmp_path / "images"), "group_regex": None}
    assert cache["columns"]["cls"] == {"recipe": RECIPE.model_dump(mode="json"), "recipe_hash": RECIPE.hash, "dim": 3}
    assert cache["provenance"] == {"device": "none", "batch": "4"}
    assert cache["canary"]["vectors"]["cls"] == pytest.approx(embed_canary(Colours())["cls"].tolist(), rel=1e-8)
    assert set(cache) == {"format_version", "source", "class_names", "columns", "provenance", "shard_rows",
                          "pixel_limit", "canary"}  # fmt: skip


def test_strict_raises_after_everything_is_stored(tmp_path: Path) -> None:
    listing = make_folder(tmp_path / "images", 12, bad=frozenset({1, 7}))
    events = []
    with pytest.raises(QuarantineError, match=r"2 of 12 .* The first: b/001.png: is not an image"):
        events += extract(listing, Colours(), tmp_path / "cache", shard_rows=5, strict=True)
    assert len(read_table(tmp_path / "cache").ids) == 10
    good = make_folder(tmp_path / "good", 3)
    assert isinstance(run(good, tmp_path / "other", strict=True)[-1], Finished)


@pytest.mark.parametrize("wrong", [{"batch": 0}, {"workers": 0}, {"pixel_limit": 0}, {"shard_rows": 0}])
def test_options_are_checked(tmp_path: Path, wrong: dict[str, int]) -> None:
    named = next(iter(wrong)).replace("_", "-")
    with pytest.raises(ValueError, match=rf"must be at least 1, got {named}=0\. Raise the value, or leave it out"):
        list(extract(make_folder(tmp_path / "images", 1), Colours(), tmp_path / "cache", **{"shard_rows": 5} | wrong))


def test_filling_up_truncated_images_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ImageFile, "LOAD_TRUNCATED_IMAGES", True)
    with pytest.raises(ValueError, match="LOAD_TRUNCATED_IMAGES"):
        run(make_folder(tmp_path / "images", 1), tmp_path / "cache")


def test_decoding_keeps_within_its_window(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    listing, started = make_folder(tmp_path / "images", 40), []
    real = extract_module.decode_ahead

    def counted(items, *arguments: object, **options: object):
        return real((started.append(item) or item for item in items), *arguments, **options)

    monkeypatch.setattr(extract_module, "decode_ahead", counted)
    events = extract(listing, Colours(), tmp_path / "cache", batch=2, workers=2, shard_rows=5)
    for event in events:
        if isinstance(event, BatchDone):
            assert len(started) <= event.n_done + 2 * 2 + 2 * 2 + 1
    assert len(started) == 40
