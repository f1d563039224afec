import hashlib
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from frostbench.benchmarks.speed import cache, extract, gpu_extract, memory, peers, reading
from frostbench.benchmarks.speed.__main__ import REGISTRY, WITH_IMAGES, main
from frostbench.benchmarks.speed.harness import figure
from frostbench.benchmarks.speed.photos import photos, pieces
from frostbench.benchmarks.speed.subjects import Subject, random_timm
from frostbench.embedcache.sources.source import list_folder

TINY = "test_vit2"


@pytest.fixture(scope="module")
def subject(tmp_path_factory: pytest.TempPathFactory) -> Subject:
    return random_timm(TINY, 64, tmp_path_factory.mktemp("weights"), autocast="float32")


def folder_of(path: Path, count: int) -> Path:
    """Small images of noise, each another."""
    draw = np.random.default_rng(1)
    (path / "noise").mkdir(parents=True)
    for i in range(count):
        Image.fromarray(draw.integers(0, 256, (80, 96, 3), np.uint8)).save(path / "noise" / f"{i:03d}.jpg")
    return path


def test_reading_compares_equal_matrices(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in (("ROWS", 300), ("SHARD_ROWS", 128), ("PANDAS_ROWS", 150)):
        monkeypatch.setattr(reading, name, value)
    seen: list[np.ndarray] = []
    monkeypatch.setattr(reading, "touch", lambda x: seen.append(np.array(x)))
    names = [measured.name for measured in reading.figures(quick=True)]
    assert names == ["cache.view", "cache.copy", "cache.pandas", "cache.several.copy", "cache.several.pandas"]
    assert {x.shape for x in seen} == {(300, 1024), (150, 1024)}
    for shape in {x.shape for x in seen}:
        same = [x.astype(np.float32) for x in seen if x.shape == shape]
        assert len(same) >= 8
        for x in same[1:]:
            np.testing.assert_array_equal(x, same[0])


def test_several_columns_lie_in_fifty_shards(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    written: list[tuple[int, Sequence[str]]] = []
    write = reading.write_cache

    def spy(root: Path, x: np.ndarray, shard_rows: int, columns: Sequence[str] = ("x",)) -> list[Path]:
        paths = write(root, x, shard_rows, columns)
        written.append((len(paths), columns))
        return paths

    monkeypatch.setattr(reading, "write_cache", spy)
    monkeypatch.setattr(reading, "touch", lambda x: 0.0)
    x = np.zeros((200, reading.DIM), np.float16)
    np.save(tmp_path / "x.npy", x)
    list(reading.several_columns(tmp_path, x, 3, 100))
    assert written == [(50, ("x", "y", "z"))]


def test_touch_reads_two_values_of_a_page() -> None:
    x = np.zeros((3, 4096), np.float16)
    x[:, [0, 1024, 2048, 3072]] = 1
    assert reading.touch(x) == 12


def test_made_images_are_distinct_and_of_both_photographs(tmp_path: Path) -> None:
    listing = photos(tmp_path / "made", 6)
    contents = [item.path.read_bytes() for item in listing.items]
    assert len({hashlib.sha256(content).digest() for content in contents}) == 6
    with Image.open(listing.items[0].path) as image:
        assert (image.format, image.size) == ("JPEG", (500, 375))
    means = [np.asarray(Image.open(item.path)).mean() for item in listing.items]
    # The temple under a bright sky, and the flower before dark leaves.
    assert min(means[::2]) > max(means[1::2])


def test_a_folder_gives_images_from_all_over_it(tmp_path: Path) -> None:
    source = folder_of(tmp_path / "given", 10)
    ids = [item.id for item in photos(tmp_path / "unused", 5, source).items]
    assert ids == [f"noise/{i:03d}.jpg" for i in (0, 2, 4, 6, 8)]
    assert len(photos(tmp_path / "unused", 50, source).items) == 10
    assert not (tmp_path / "unused").exists()


def test_pieces_are_equally_long(tmp_path: Path) -> None:
    listing = list_folder(folder_of(tmp_path, 7))
    assert [len(piece.items) for piece in pieces(listing, 3)] == [3, 3]
    assert [piece.items[0] for piece in pieces(listing, 3)] == [listing.items[0], listing.items[3]]
    assert [len(piece.items) for piece in pieces(listing, 100)] == [7]


def test_every_loop_gives_our_vectors(tmp_path: Path, subject: Subject) -> None:
    listing = list_folder(folder_of(tmp_path, 5))
    mine = extract.ours(subject, listing)
    assert mine.shape == (5, subject.backbone.dims["patch_mean"])
    loops = peers.loops(subject)
    assert list(loops) == ["hf_pipeline", "embetter", "data_loader", "clip_retrieval"]
    for name, loop in loops.items():
        vectors = loop([item.path for item in listing.items])
        assert vectors.shape == mine.shape, name
        assert extract.least_cosine(mine, vectors) > 0.999, name
    # Which row is whose is seen too: other images have other vectors once the mean is off.
    assert extract.least_cosine(mine, mine[::-1]) < 0.9


def test_every_backbone_has_a_share_a_figure_for_each_peer_and_the_best(
    tmp_path: Path, subject: Subject, monkeypatch: pytest.MonkeyPatch
) -> None:
    listing = list_folder(folder_of(tmp_path, 12))

    def fake_turns(sides, rounds):
        for run in sides.values():
            run(1)
        spent = {"ours": 2.0, "bfloat16": 1.0, "ideal": 1.9, "hf_pipeline": 8.0, "embetter": 9.0, "data_loader": 3.0}
        return {name: [spent.get(name, 5.0)] * rounds for name in sides}

    monkeypatch.setattr(extract, "turns", fake_turns)
    plan = extract.Plan(4, 3, 2)
    found = {each.name: each for each in extract.measured("x", subject, listing, plan)}
    peers = ["x.hf_pipeline", "x.embetter", "x.data_loader", "x.clip_retrieval"]
    assert list(found) == ["x.share", *peers, "x.best_peer"]
    share, best = found["x.share"], found["x.best_peer"]
    assert (share.ratio, share.goal, share.ok) == (0.95, 0.9, True)
    assert share.unit == "ideal seconds / our seconds for 4 images, 12 in all"
    assert (best.ratio, best.goal, best.ok) == (1.5, 2.0, False)
    assert best.unit == "data_loader seconds / our seconds for 4 images"
    assert found["x.hf_pipeline"].ratio == 4.0
    assert "cosine 1.0000" in found["x.hf_pipeline"].unit


def test_bfloat16_is_compared_with_peers_only_where_its_vectors_are_theirs(
    tmp_path: Path, subject: Subject, monkeypatch: pytest.MonkeyPatch
) -> None:
    listing, spent = list_folder(folder_of(tmp_path, 8)), {"ours": 2.0, "bfloat16": 1.0, "data_loader": 2.5}

    def fake_turns(sides, rounds):
        for run in sides.values():
            run(1)
        return {name: [spent.get(name, 5.0)] * rounds for name in sides}

    monkeypatch.setattr(extract, "turns", fake_turns)
    halved = random_timm(TINY, 64, tmp_path, autocast="bfloat16")
    found = {each.name: each for each in extract.measured("x", subject, listing, extract.Plan(4, 1, 1), halved)}
    cosine, _, centred = found["x.bfloat16"].unit.partition("cosine ")[2].partition(", centred ")
    assert 0.9 < float(centred) <= float(cosine) <= 1
    assert found["x.bfloat16"].ratio == 2.0
    assert ("x.best_peer_bfloat16" in found) == (float(centred) > 0.999)

    monkeypatch.setattr(extract, "ALIKE", (1 + float(centred)) / 2)
    strict = [each.name for each in extract.measured("x", subject, listing, extract.Plan(4, 1, 1), halved)]
    assert strict[-1] == "x.bfloat16"

    monkeypatch.setattr(extract, "ALIKE", 0.5)
    best = {each.name: each for each in extract.measured("x", subject, listing, extract.Plan(4, 1, 1), halved)}[
        "x.best_peer_bfloat16"
    ]
    assert (best.ratio, best.goal, best.ok) == (2.5, 2.0, True)
    assert best.unit.startswith("data_loader seconds / our seconds for 4 images, cosine 0.99")


def test_another_vector_stops_the_benchmark(tmp_path: Path, subject: Subject, monkeypatch: pytest.MonkeyPatch) -> None:
    listing = list_folder(folder_of(tmp_path, 4))
    wrong = {"swapped": lambda paths: extract.ours(subject, listing)[::-1]}
    monkeypatch.setattr(extract, "loops", lambda subject: wrong)
    with pytest.raises(ValueError, match=r"cosine with ours above 0\.999, got {'swapped'"):
        list(extract.measured("x", subject, listing, extract.Plan(4, 1, 1)))


def test_the_ideal_embeds_every_image(tmp_path: Path, subject: Subject) -> None:
    seen: list[int] = []

    class Counting:
        batch = 2
        recipes = subject.backbone.recipes
        prepare = staticmethod(subject.backbone.prepare)

        def embed(self, batch: torch.Tensor) -> None:
            seen.append(len(batch))

    extract.ideal(replace(subject, backbone=Counting()), list_folder(folder_of(tmp_path, 5)))
    assert seen == [2, 2, 1]


def test_memory_is_the_peak_less_the_listing(monkeypatch: pytest.MonkeyPatch) -> None:
    found = {1_000: memory.Memory(100.0, 1.0, 161.0), 10_000: memory.Memory(100.0, 10.0, 210.0)}
    monkeypatch.setattr(memory, "measured", lambda folder, count: found[count])
    (flat,) = memory.figures(quick=True)
    assert (flat.name, flat.ratio, flat.ok, flat.ours, flat.peer) == ("memory.flat", 0.8, False, 200.0, 160.0)
    assert flat.goal == pytest.approx(1 / 1.15)
    assert "less 1.0 and 10.0 MiB of listing" in flat.unit
    assert "grew the process by 60 and 100 MiB" in flat.unit


def test_the_stub_is_embedded_like_a_backbone(tmp_path: Path) -> None:
    found = memory.memory_of(tmp_path, 600)
    assert found.peak >= found.start > 0
    rows = reading.read_vectors(sorted((tmp_path / "cache-600" / "shards").glob("*.parquet")), "x", memory.DIM)
    assert rows.shape == (600, memory.DIM)
    assert (rows == 127).all()


def test_the_registry_holds_the_cache_and_its_parts() -> None:
    assert REGISTRY["cache"] is cache.figures
    assert [REGISTRY[name] for name in ("extract", "memory", "reading")] == [
        extract.figures,
        memory.figures,
        reading.figures,
    ]


def test_the_whole_is_its_parts(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def part(name: str):
        def figures(quick: bool, images: Path | None = None):
            yield figure(name, [(1.0, 1.0)], [1.0], goal=1.0, unit=f"{quick} {images}")

        return figures

    for module in (extract, memory, reading):
        monkeypatch.setattr(module, "figures", part(module.__name__.rpartition(".")[2]))
    found = [(each.name, each.unit) for each in cache.figures(True, tmp_path)]
    assert found == [("reading", "True None"), ("memory", "True None"), ("extract", f"True {tmp_path}")]


def test_images_are_passed_on_where_they_belong(capsys, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Path | None] = []

    def figures(quick: bool, images: Path | None = None):
        asked.append(images)
        return iter(())

    assert set(WITH_IMAGES) == {"cache", "extract"}
    monkeypatch.setattr("frostbench.benchmarks.speed.__main__.WITH_IMAGES", {"cache": figures})
    assert main(["cache", "--images", "some/where"]) == 0
    assert asked == [Path("some/where")]
    with pytest.raises(SystemExit) as stopped:
        main(["heads", "--images", "some/where"])
    assert stopped.value.code == 2
    assert "--images is only for cache" in capsys.readouterr().err


def test_a_card_is_needed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    told: list[str] = []
    assert gpu_extract.main([], told.append) == 2
    assert told == ["This benchmark needs a CUDA device, but torch sees none. Nothing was measured."]


def test_the_table_of_a_card_has_a_row_for_each_model_and_size(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gpu_extract, "REPEATS", 1)
    source = folder_of(tmp_path, 6)
    lines = list(gpu_extract.table("cpu", [TINY], [64, 96], gpu_extract.Counts(6, 4), source))
    assert lines[:2] == list(gpu_extract.HEADER)
    cells = [line.strip("| ").split(" | ") for line in lines[2:]]
    assert [row[:2] for row in cells] == [[TINY, "64"], [TINY, "96"]]
    assert {len(row) for row in cells} == {lines[0].count(" | ") + 1} == {9}
    assert all(float(cell) > 0 for row in cells for cell in row[2:])


def test_decoded_images_all_become_rows(tmp_path: Path, subject: Subject) -> None:
    decoded = gpu_extract.decode_all(subject, list_folder(folder_of(tmp_path, 5)))
    assert [one.item.id for one in decoded] == [f"noise/{i:03d}.jpg" for i in range(5)]
    assert gpu_extract.embed_decoded(subject, decoded) == 5
