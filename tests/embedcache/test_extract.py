import hashlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from io import BytesIO
from pathlib import Path

import numpy as np
import pytest
import timm
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from PIL import Image, ImageFile

from embedcache.backbones import NotFiniteError, load_backbone
from embedcache.extraction import extract as extract_module
from embedcache.extraction import pipeline
from embedcache.extraction.events import BatchDone, Event, Finished, ShardDone, Started, Stopped
from embedcache.extraction.extract import QuarantineError, extract
from embedcache.extraction.opening import embed_canary
from embedcache.items import Item, Listing, make_listing
from embedcache.preprocess import prepare_image
from embedcache.recipe import Recipe
from embedcache.sources.folders import list_folder
from embedcache.storage.store import CacheError, bad_path, finished_shards, read_bad, read_json, shard_path
from embedcache.table import read_table

RECIPE = Recipe(
    provider="external",
    model="colours",
    size=8,
    resize=8,
    crop="squash",
    interpolation="box",
    mean=(0.5, 0.5, 0.5),
    alpha_background=(255, 255, 255),
)


@dataclass
class Colours:
    """A backbone whose vector is known: the mean colour (column cls), and its double (column patch_mean)."""

    scale: float = 1.0
    recipes: dict[str, Recipe] = field(default_factory=lambda: {"cls": RECIPE, "patch_mean": RECIPE})
    dims: dict[str, int] = field(default_factory=lambda: {"cls": 3, "patch_mean": 3})
    provenance: dict[str, str] = field(default_factory=lambda: {"device": "none"})
    batch: int = 4
    embedded: int = 0
    tokens: dict[str, int] = field(default_factory=dict)

    def prepare(self, image: np.ndarray) -> torch.Tensor:
        return prepare_image(image, RECIPE)

    def embed(self, batch: torch.Tensor) -> dict[str, torch.Tensor]:
        self.embedded += len(batch)
        means = batch.float().mean(dim=(2, 3)) * self.scale
        return {"cls": means, "patch_mean": 2 * means}


def make_folder(root: Path, n: int, bad: frozenset[int] = frozenset()) -> Listing:
    """n one-colour images; the colour says which image it is. Those in `bad` are no images."""
    for i in range(n):
        path = root / "ab"[i % 2] / f"{i:03d}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        if i in bad:
            path.write_bytes(b"<html>not found</html>")
        else:
            Image.new("RGB", (8, 8), (i, 255 - i, 7)).save(path)
    return list_folder(root)


def files_of(folder: Path) -> dict[str, bytes]:
    return {p.relative_to(folder).as_posix(): p.read_bytes() for p in sorted(folder.rglob("*")) if p.is_file()}


def run(listing: Listing, cache: Path, backbone: Colours | None = None, **options: object) -> list[Event]:
    return list(extract(listing, backbone or Colours(), cache, shard_rows=5, **options))


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
    assert sizes[1:] == [3, 1, 3, 2, 2]  # behind the canary: 4 good of 5, 5 of 5, 2 of 2


@pytest.mark.parametrize("after", range(1, 7))
def test_stopped_and_resumed_is_byte_identical(tmp_path: Path, after: int) -> None:
    listing = make_folder(tmp_path / "images", 17, bad=frozenset({3, 4}))
    run(listing, tmp_path / "whole", batch=2)
    asked = iter(range(100))
    events = run(listing, tmp_path / "broken", batch=2, stop=lambda: next(asked) == after)
    assert isinstance(events[-1], Stopped)
    assert events[-1].n_done == 5 * len(finished_shards(tmp_path / "broken"))
    assert not (tmp_path / "broken" / "manifest.json").exists()
    backbone = Colours()
    resumed = run(listing, tmp_path / "broken", backbone, batch=2)
    assert resumed[0].n_done == events[-1].n_done
    assert backbone.embedded <= 1 + 17 - events[-1].n_done
    assert files_of(tmp_path / "broken") == files_of(tmp_path / "whole")


def test_a_generator_that_is_dropped_leaves_a_cache_that_resumes(tmp_path: Path) -> None:
    listing = make_folder(tmp_path / "images", 17)
    run(listing, tmp_path / "whole")
    events = extract(listing, Colours(), tmp_path / "broken", shard_rows=5)
    assert isinstance(next(events), Started)
    assert isinstance(next(events), BatchDone)
    events.close()
    (tmp_path / "broken" / "shards").mkdir(exist_ok=True)
    (tmp_path / "broken" / "shards" / "part-00009.parquet.tmp").write_bytes(b"half")
    run(listing, tmp_path / "broken")
    assert files_of(tmp_path / "broken") == files_of(tmp_path / "whole")


def test_a_finished_cache_is_left_as_it_is(tmp_path: Path) -> None:
    listing = make_folder(tmp_path / "images", 6)
    run(listing, tmp_path / "cache")
    before, backbone = files_of(tmp_path / "cache"), Colours()
    events = run(listing, tmp_path / "cache", backbone)
    assert [type(e) for e in events] == [Started, Finished]
    assert (events[-1].n_worked, events[-1].images_per_second) == (0, 0.0)
    assert backbone.embedded == 1  # the canary
    assert files_of(tmp_path / "cache") == before


CHILD = """
import sys, time
from pathlib import Path
import torch
from embedcache.backbones import load_backbone
from embedcache.extraction.extract import extract
from embedcache.sources.folders import list_folder
torch.set_num_threads(1)
images, weights, cache, ready = map(Path, sys.argv[1:])
backbone = load_backbone("timm", "test_resnet", weights=weights, size=64, autocast="float32")
for event in extract(list_folder(images), backbone, cache, shard_rows=6, batch=4):
    if type(event).__name__ == "BatchDone" and len(list(cache.glob("shards/*.parquet"))) == 2:
        (cache / "shards" / "part-00002.parquet.tmp").write_bytes(b"half a shard")
        ready.touch()
        time.sleep(600)
"""


@pytest.fixture
def one_thread() -> Iterator[None]:
    """One torch thread as in the child: sums in another order differ in their last bits."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def kill_in_third_shard(*arguments: Path, ready: Path) -> None:
    """Run CHILD until it has two shards and half of the third, then SIGKILL it."""
    child = subprocess.Popen([sys.executable, "-c", CHILD, *map(str, arguments), str(ready)])
    try:
        until = time.monotonic() + 120
        while not ready.exists():
            assert child.poll() is None, "the child ended before it could be killed"
            assert time.monotonic() < until, "the child did not come to its third shard"
            time.sleep(0.02)
    finally:
        child.send_signal(signal.SIGKILL)
        child.wait()
    assert child.returncode == -signal.SIGKILL


@pytest.mark.slow
@pytest.mark.usefixtures("one_thread")
def test_killed_and_resumed_is_byte_identical(tmp_path: Path) -> None:
    listing, weights = make_folder(tmp_path / "images", 27, bad=frozenset({5, 20})), tmp_path / "weights.pth"
    torch.save(timm.create_model("test_resnet").state_dict(), weights)
    kill_in_third_shard(tmp_path / "images", weights, tmp_path / "killed", ready=tmp_path / "ready")
    assert finished_shards(tmp_path / "killed") == {0, 1}
    assert not (tmp_path / "killed" / "manifest.json").exists()
    backbone = load_backbone("timm", "test_resnet", weights=weights, size=64, autocast="float32")
    events = list(extract(listing, backbone, tmp_path / "killed", shard_rows=6, batch=4))
    # Finished shards are not computed again: only those behind them are.
    assert [(e.shard, e.n_ok, e.n_bad) for e in events if isinstance(e, ShardDone)] == [(2, 5, 1), (3, 6, 0), (4, 3, 0)]
    list(extract(listing, backbone, tmp_path / "whole", shard_rows=6, batch=4))
    assert files_of(tmp_path / "killed") == files_of(tmp_path / "whole")
    assert read_json(tmp_path / "whole" / "manifest.json")["n_ok"] == 25


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
    with pytest.raises(CacheError, match=r"2 images are new \['a/006.png', 'b/007.png'\], 0 are gone"):
        run(more, tmp_path / "cache")


@pytest.mark.parametrize("change", [{"shard_rows": 6}, {"pixel_limit": 100}])
def test_another_cut_or_limit_is_refused(tmp_path: Path, change: dict[str, int]) -> None:
    listing = make_folder(tmp_path / "images", 6)
    run(listing, tmp_path / "cache")
    with pytest.raises(CacheError, match=f"{next(iter(change))} was"):
        list(extract(listing, Colours(), tmp_path / "cache", **{"shard_rows": 5} | change))


def test_a_listing_lost_between_two_writes_is_written_again(tmp_path: Path) -> None:
    listing = make_folder(tmp_path / "images", 6)
    run(listing, tmp_path / "whole")
    (tmp_path / "cache").mkdir()
    (tmp_path / "cache" / "cache.json").write_bytes((tmp_path / "whole" / "cache.json").read_bytes())
    run(listing, tmp_path / "cache")
    assert files_of(tmp_path / "cache") == files_of(tmp_path / "whole")


def test_shards_without_a_description_are_refused(tmp_path: Path) -> None:
    listing = make_folder(tmp_path / "images", 6)
    run(listing, tmp_path / "cache")
    (tmp_path / "cache" / "cache.json").unlink()
    with pytest.raises(CacheError, match=r"must be empty or hold a cache.json, however: .* holds items.parquet"):
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

    with pytest.raises(CacheError, match=r"cosine of column cls is 0\.9"):
        run(listing, tmp_path / "cache", Swapped())


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


@dataclass
class Picky(Colours):
    """Refuses a batch with an image whose red is among these; with `refuse` unset its vector is NaN instead."""

    reds: tuple[int, ...] = ()
    refuse: bool = True

    def embed(self, batch: torch.Tensor) -> dict[str, torch.Tensor]:
        wrong = [
            row
            for row, image in enumerate(batch)
            if int(image[0, 0, 0]) in self.reds and len(set(image[0].flatten().tolist())) == 1
        ]
        vectors = super().embed(batch)
        if wrong and self.refuse:
            raise NotFiniteError("vectors must be finite.", wrong)
        vectors["cls"][wrong] = float("nan")
        return vectors


@pytest.mark.parametrize("refuse", [True, False])
def test_an_image_without_a_finite_vector_is_quarantined(tmp_path: Path, refuse: bool) -> None:
    listing = make_folder(tmp_path / "images", 12)  # in listing order: red 0, 2, …, 10, 1, 3, …, 11
    backbone = Picky(reds=(2, 4, 11), refuse=refuse)
    finished = run(listing, tmp_path / "cache", backbone, batch=3)[-1]
    assert (finished.n_ok, finished.n_bad) == (9, 3)
    table = read_table(tmp_path / "cache", verify=True)
    assert table.columns["cls"][:, 0].tolist() == [0, 6, 8, 10, 1, 3, 5, 7, 9]
    assert [int(Path(one).stem) for one in table.ids] == [0, 6, 8, 10, 1, 3, 5, 7, 9]
    rows = [row for i in range(3) for row in read_bad(tmp_path / "cache", i)]
    assert [row["id"] for row in rows] == ["a/002.png", "a/004.png", "b/011.png"]
    assert all(("NaN or infinity" if refuse else "reaches nan") in row["reason"] for row in rows)
    # Its bytes are the same, so it is not tried again.
    assert run(listing, tmp_path / "cache", backbone, batch=3)[-1].n_worked == 0


def test_a_batch_without_any_storable_vector_is_an_error(tmp_path: Path) -> None:
    listing = make_folder(tmp_path / "images", 6)
    # 65504 / 250 = 262: the canary stays below, 2 * 255 * 255 does not.
    with pytest.raises(ValueError, match=r"none of the 4 images .* 'a/000.png': column 'patch_mean' .* reaches 130050"):
        run(listing, tmp_path / "large", Colours(scale=255.0))
    with pytest.raises(ValueError, match=r"none of the 4 images .* 'a/000.png': the backbone gives NaN"):
        run(listing, tmp_path / "nan", Picky(reds=(0, 1, 2, 3, 4, 5)))


def test_an_image_too_large_for_memory_is_quarantined_and_tried_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    listing = make_folder(tmp_path / "images", 3)
    run(listing, tmp_path / "whole")
    real, largest = pipeline.decode_bytes, (tmp_path / "images/a/002.png").read_bytes()

    def small(data: bytes, **options: object) -> np.ndarray:
        if data == largest:
            raise MemoryError
        return real(data, **options)

    monkeypatch.setattr(pipeline, "decode_bytes", small)
    assert run(listing, tmp_path / "cache")[-1].n_bad == 1
    assert "memory" in read_bad(tmp_path / "cache", 0)[0]["reason"]
    monkeypatch.undo()
    assert run(listing, tmp_path / "cache")[-1].n_bad == 0
    assert files_of(tmp_path / "cache") == files_of(tmp_path / "whole")


@pytest.mark.parametrize("finished", [True, False])
def test_changed_and_missing_images_are_embedded_anew(tmp_path: Path, finished: bool) -> None:
    listing, asked = make_folder(tmp_path / "images", 17), iter(range(100))
    run(listing, tmp_path / "cache", stop=lambda: not finished and next(asked) == 4)
    # Shard 0 is a/000 … a/008, shard 1 a/010 … b/001; stopped after the first batch of shard 2.
    Image.new("RGB", (8, 8), (200, 201, 202)).save(tmp_path / "images/a/012.png")
    (tmp_path / "images/b/001.png").unlink()
    events = run(listing, tmp_path / "cache")
    assert any(
        "changed or vanished since they were embedded: 2 (a/012.png, b/001.png)" in w for w in events[0].warnings
    )
    assert [e.shard for e in events if isinstance(e, ShardDone)] == ([1] if finished else [1, 2, 3])
    assert events[-1].n_bad == 1
    table = read_table(tmp_path / "cache", verify=True)
    assert table.columns["cls"][list(table.ids).index("a/012.png")].tolist() == [200, 201, 202]
    run(listing, tmp_path / "whole")
    assert files_of(tmp_path / "cache") == files_of(tmp_path / "whole")


def flip_last_vector(cache: Path) -> None:
    path = shard_path(cache, 1)
    data = bytearray(path.read_bytes())
    place = data.rindex(np.array([12, 243, 7], np.float16).tobytes())
    data[place] ^= 1
    path.write_bytes(data)


@pytest.mark.parametrize("finished", [True, False])
@pytest.mark.parametrize(
    "damage",
    [
        flip_last_vector,
        lambda cache: shard_path(cache, 1).write_bytes(b"PAR1"),
        lambda cache: shard_path(cache, 1).write_bytes(shard_path(cache, 0).read_bytes()),
        lambda cache: bad_path(cache, 1).unlink(),
        lambda cache: bad_path(cache, 1).write_text("[]"),
        lambda cache: bad_path(cache, 1).write_text("[3]"),
    ],
)
def test_a_damaged_shard_is_embedded_anew(tmp_path: Path, damage: Callable[[Path], object], finished: bool) -> None:
    listing = make_folder(tmp_path / "images", 17, bad=frozenset({10}))
    run(listing, tmp_path / "whole")
    run(listing, tmp_path / "cache")
    if not finished:
        (tmp_path / "cache" / "manifest.json").unlink()
    damage(tmp_path / "cache")
    events = run(listing, tmp_path / "cache")
    assert any("not as they were written: 1 (part-00001)" in warning for warning in events[0].warnings)
    assert [e.shard for e in events if isinstance(e, ShardDone)] == [1]
    assert files_of(tmp_path / "cache") == files_of(tmp_path / "whole")


def test_a_repaired_image_leaves_the_quarantine(tmp_path: Path) -> None:
    listing = make_folder(tmp_path / "images", 17, bad=frozenset({3, 10}))
    with pytest.raises(QuarantineError, match="Repair the files and run the same command again"):
        run(listing, tmp_path / "cache", strict=True)
    broken = hashlib.sha256(b"<html>not found</html>").hexdigest()
    assert [row["sha256"] for i in range(4) for row in read_bad(tmp_path / "cache", i)] == [broken, broken]
    Image.new("RGB", (8, 8), (10, 245, 7)).save(tmp_path / "images/a/010.png")
    events = run(listing, tmp_path / "cache")
    assert any("of the quarantine" in w and ": 1 (a/010.png)" in w for w in events[0].warnings)
    assert [e.shard for e in events if isinstance(e, ShardDone)] == [1]
    assert (events[-1].n_bad, events[-1].n_worked) == (1, 1)
    run(listing, tmp_path / "whole")
    assert files_of(tmp_path / "cache") == files_of(tmp_path / "whole")


def test_files_of_others_are_left_alone(tmp_path: Path) -> None:
    listing = make_folder(tmp_path / "images", 6)
    (tmp_path / "cache" / "mine").mkdir(parents=True)
    (tmp_path / "cache" / "mine" / "notes.tmp").write_text("mine")
    with pytest.raises(CacheError, match=r"must be empty or hold a cache.json, however: .* holds mine and none"):
        run(listing, tmp_path / "cache")
    assert files_of(tmp_path / "cache") == {"mine/notes.tmp": b"mine"}
    (tmp_path / "file").write_text("mine")
    with pytest.raises(CacheError, match="must be a folder"):
        run(listing, tmp_path / "file")


def test_a_folder_with_only_half_written_files_is_empty(tmp_path: Path) -> None:
    listing = make_folder(tmp_path / "images", 6)
    run(listing, tmp_path / "whole")
    (tmp_path / "cache" / "shards").mkdir(parents=True)
    for name in ("cache.json.tmp", "items.parquet.tmp", "shards/part-00007.parquet.tmp"):
        (tmp_path / "cache" / name).write_bytes(b"half")
    run(listing, tmp_path / "cache")
    assert files_of(tmp_path / "cache") == files_of(tmp_path / "whole")


@pytest.mark.parametrize("name", ["images", "images/cache", "images/a/.cache", ".", "linked/cache"])
def test_a_cache_in_or_around_the_images_is_refused(tmp_path: Path, name: str) -> None:
    listing = make_folder(tmp_path / "images", 2)
    (tmp_path / "linked").symlink_to(tmp_path / "images")
    before = files_of(tmp_path)
    with pytest.raises(CacheError, match="must lie in folders apart"):
        run(listing, tmp_path / name)
    assert files_of(tmp_path) == before


@pytest.mark.parametrize("wrong", [{"batch": 0}, {"workers": 0}, {"pixel_limit": 0}])
def test_options_are_checked(tmp_path: Path, wrong: dict[str, int]) -> None:
    with pytest.raises(ValueError, match=r"must be at least 1, however: \{'" + next(iter(wrong))):
        run(make_folder(tmp_path / "images", 1), tmp_path / "cache", **wrong)


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


def image_bytes(image: Image.Image, kind: str, **options: object) -> bytes:
    buffer = BytesIO()
    image.save(buffer, kind, **options)
    return buffer.getvalue()


def test_a_folder_of_awkward_files(tmp_path: Path) -> None:
    folder = tmp_path / "images" / "class é"
    folder.mkdir(parents=True)
    noise = Image.fromarray(np.random.default_rng(0).integers(0, 256, (40, 30, 3), np.uint8))
    turned = Image.Exif()
    turned[0x0112] = 6
    palette = noise.convert("P")
    good = {
        "plain.jpg": image_bytes(noise, "JPEG"),
        "turned.jpg": image_bytes(noise, "JPEG", exif=turned),
        "UPPER.JPEG": image_bytes(noise, "JPEG"),
        "cmyk.jpg": image_bytes(noise.convert("CMYK"), "JPEG"),
        "grey.png": image_bytes(noise.convert("L"), "PNG"),
        "bilevel.png": image_bytes(noise.convert("1"), "PNG"),
        "sixteen.png": image_bytes(Image.fromarray(np.full((9, 9), 51400, np.uint16)), "PNG"),
        "alpha.png": image_bytes(Image.new("RGBA", (9, 9), (255, 0, 0, 0)), "PNG"),
        "palette.png": image_bytes(palette, "PNG", transparency=0),
        "moving.gif": image_bytes(palette, "GIF", save_all=True, append_images=[palette.rotate(90)]),
        "page.webp": image_bytes(noise, "WEBP"),
        "scan.tif": image_bytes(noise, "TIFF"),
        "png inside.jpg": image_bytes(noise, "PNG"),
        os.fsdecode(b"caf\xe9.png"): image_bytes(noise, "PNG"),
    }
    bad = {
        "empty.jpg": (b"", "the file is empty"),
        "page.jpg": (b"<!doctype html><html></html>", "is not an image"),
        "truncated.jpg": (image_bytes(noise, "JPEG")[:-300], "truncated"),
        "truncated.png": (image_bytes(noise, "PNG")[:-900], "cannot be decoded"),
        "float.tif": (image_bytes(Image.fromarray(np.ones((9, 9), np.float32)), "TIFF"), "floating-point"),
        "large.png": (image_bytes(Image.new("1", (400, 400)), "PNG"), "160000 pixels, more than the limit of 90000"),
        "sliver.png": (image_bytes(Image.new("1", (90000, 1)), "PNG"), None),
    }
    for name, data in good.items() | {(name, content[0]) for name, content in bad.items()}:
        (folder / name).write_bytes(data)
    (folder / "linked.png").symlink_to(folder / "plain.jpg")
    (folder / "dangling.png").symlink_to(folder / "nothing")
    (folder / ".hidden.png").write_bytes(b"")
    (folder / "notes.txt").write_text("notes")
    (tmp_path / "images" / "empty class").mkdir()
    del bad["sliver.png"]  # squashed here; refused by a centre crop, which test_backbones shows
    listing = list_folder(tmp_path / "images")
    *_, finished = extract(listing, Colours(), tmp_path / "cache", pixel_limit=90000)
    assert (finished.n_listed, finished.n_ok, finished.n_bad) == (22, 16, 6)
    reasons = {Path(row["id"]).name: row["reason"] for row in read_bad(tmp_path / "cache", 0)}
    assert reasons.keys() == bad.keys()
    for name, (_, reason) in bad.items():
        assert reason in reasons[name], name
    table = read_table(tmp_path / "cache", verify=True)
    assert table.class_names == ("class é", "empty class")
    colours = dict(zip((Path(one).name for one in table.ids), table.columns["cls"].tolist(), strict=True))
    assert colours["sixteen.png"] == [200, 200, 200]
    assert colours["alpha.png"] == [255, 255, 255]
    assert colours["linked.png"] == colours["plain.jpg"] == colours["UPPER.JPEG"]
    assert colours[r"caf\xe9.png"] == colours["png inside.jpg"]


def test_quarantine_rows_hold_id_path_and_reason(tmp_path: Path) -> None:
    gone = Item("x/gone.png", tmp_path / "gone.png", "x", "g")
    listing = make_listing([gone], ["x"], [], {"kind": "test"}, None)
    run(listing, tmp_path / "cache")
    row = {"id": "x/gone.png", "path": str(tmp_path / "gone.png"), "reason": "the file does not exist"}
    row |= {"sha256": None}
    assert read_bad(tmp_path / "cache", 0) == [row]
    assert len(finished_shards(tmp_path / "cache")) == 1
