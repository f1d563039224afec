"""Existing caches refuse other settings and listings, and folders that are not a cache are refused."""

from dataclasses import dataclass, replace
from pathlib import Path

import pytest
import torch
from colour_images import RECIPE, Colours, files_of, make_folder, run

from frostbench.embedcache.extraction.extract import extract
from frostbench.embedcache.storage.store import CacheError


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            {"recipes": {"cls": RECIPE.model_copy(update={"size": 9}), "patch_mean": RECIPE}},
            "size of column cls was 8 and is 9",
        ),
        ({"recipes": {"cls": RECIPE}, "dims": {"cls": 3}}, "column patch_mean is missing"),
    ],
)
def test_another_recipe_is_refused(tmp_path: Path, change: dict[str, object], message: str) -> None:
    listing = make_folder(tmp_path / "images", 6)
    run(listing, tmp_path / "cache")
    with pytest.raises(CacheError, match=message):
        run(listing, tmp_path / "cache", replace(Colours(), **change))


def test_another_listing_is_refused(tmp_path: Path) -> None:
    run(make_folder(tmp_path / "images", 6), tmp_path / "cache")
    more = make_folder(tmp_path / "images", 8)
    with pytest.raises(CacheError, match=r"2 images are new \['a/006.png', 'b/007.png'\]") as caught:
        run(more, tmp_path / "cache")
    assert "are gone" not in str(caught.value)
    assert "another path" not in str(caught.value)
    assert "the source's" not in str(caught.value)


def test_another_source_is_reported_with_its_differences(tmp_path: Path) -> None:
    listing = make_folder(tmp_path / "images", 6)
    run(listing, tmp_path / "cache")
    moved = replace(listing, description=listing.description | {"kind": "manifest"})
    with pytest.raises(CacheError, match=r"the source's kind was 'folder' and is 'manifest'\.") as caught:
        run(moved, tmp_path / "cache")
    assert "'root'" not in str(caught.value)


@pytest.mark.parametrize("change", [{"shard_rows": 6}, {"pixel_limit": 100}])
def test_another_cut_or_limit_is_refused(tmp_path: Path, change: dict[str, int]) -> None:
    listing = make_folder(tmp_path / "images", 6)
    run(listing, tmp_path / "cache")
    with pytest.raises(CacheError, match=f"{next(iter(change))} was"):
        list(extract(listing, Colours(), tmp_path / "cache", **{"shard_rows": 5} | change))


def test_shards_without_a_description_are_refused(tmp_path: Path) -> None:
    listing = make_folder(tmp_path / "images", 6)
    run(listing, tmp_path / "cache")
    (tmp_path / "cache" / "cache.json").unlink()
    with pytest.raises(CacheError, match=r"must be empty or hold a cache.json, but .* holds items.parquet"):
        run(listing, tmp_path / "cache")


def test_another_environment_warns_and_other_vectors_refuse(tmp_path: Path) -> None:
    listing = make_folder(tmp_path / "images", 6)
    run(listing, tmp_path / "cache", Colours(provenance={"torch": "1"}))
    started = run(listing, tmp_path / "cache", Colours(provenance={"torch": "2"}))[0]
    assert any("torch was 1 and is 2" in warning for warning in started.warnings)

    @dataclass
    class Swapped(Colours):
        def embed(self, batch: torch.Tensor) -> dict[str, torch.Tensor]:
            return {name: value.flip(1) for name, value in super().embed(batch).items()}

    with pytest.raises(CacheError, match=r"in column cls the relative distance is 0\.\d+, more than"):
        run(listing, tmp_path / "cache", Swapped())


def test_files_of_others_are_left_alone(tmp_path: Path) -> None:
    listing = make_folder(tmp_path / "images", 6)
    (tmp_path / "cache" / "mine").mkdir(parents=True)
    (tmp_path / "cache" / "mine" / "notes.tmp").write_text("mine")
    with pytest.raises(CacheError, match=r"must be empty or hold a cache.json, but .* holds mine and no cache.json"):
        run(listing, tmp_path / "cache")
    assert files_of(tmp_path / "cache") == {"mine/notes.tmp": b"mine"}
    (tmp_path / "file").write_text("mine")
    with pytest.raises(CacheError, match="must be a folder"):
        run(listing, tmp_path / "file")


@pytest.mark.parametrize("name", ["images", "images/cache", "images/a/.cache", ".", "linked/cache"])
def test_a_cache_in_or_around_the_images_is_refused(tmp_path: Path, name: str) -> None:
    listing = make_folder(tmp_path / "images", 2)
    (tmp_path / "linked").symlink_to(tmp_path / "images")
    before = files_of(tmp_path)
    with pytest.raises(CacheError, match="must be in separate folders"):
        run(listing, tmp_path / name)
    assert files_of(tmp_path) == before
