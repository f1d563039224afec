"""Parallel forward passes on a CPU."""

import threading
import time
from dataclasses import replace

import numpy as np
import pytest
import timm
import torch
from PIL import Image
from seeing import Halves

from frostbench.embedcache.backbones import Backbone, load_backbone
from frostbench.embedcache.extraction.backbone_group import BackboneGroup, backbone_group
from frostbench.embedcache.extraction.extract import extract
from frostbench.embedcache.extraction.forward_pool import ForwardPool, pool_size_for
from frostbench.embedcache.sources.folders import list_folder
from frostbench.embedcache.storage.store import shard_path


@pytest.fixture
def three_threads():
    before = torch.get_num_threads()
    torch.set_num_threads(3)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="module")
def backbone(tmp_path_factory) -> Backbone:
    weights = tmp_path_factory.mktemp("weights") / "tiny.pth"
    torch.manual_seed(0)
    torch.save(timm.create_model("test_vit3", num_classes=0).state_dict(), weights)
    return load_backbone("timm", "test_vit3", weights=weights, pooling=["patch_mean", "patch_mean@-2"])


def test_results_keep_the_order_of_the_things():
    begun = threading.Barrier(3)

    def slow(thing: int) -> tuple[int, str, int]:
        if thing < 3:
            begun.wait(timeout=20)  # breaks unless three run at the same time
            time.sleep(0.05 * (3 - thing))
        return thing, threading.current_thread().name, torch.get_num_threads()

    with ForwardPool(3) as pool:
        found = list(pool.map(slow, range(10)))
    assert [thing for thing, _, _ in found] == list(range(10))
    assert {name.rpartition("_")[0] for _, name, _ in found} == {"forward"}
    assert {threads for _, _, threads in found} == {1}


def test_no_more_than_twice_the_lanes_are_taken_ahead():
    taken: list[int] = []

    def things():
        for i in range(20):
            taken.append(i)
            yield i

    with ForwardPool(2) as pool:
        found = pool.map(lambda thing: thing, things())
        assert next(found) == 0
        assert taken == [0, 1, 2, 3]
        assert list(found) == list(range(1, 20))


def test_one_lane_is_the_thread_of_the_caller():
    with ForwardPool() as pool:
        found = list(pool.map(lambda _: threading.current_thread(), [1, 2]))
    assert found == [threading.current_thread()] * 2


def test_threads_of_torch_are_as_before(three_threads):
    with ForwardPool(2) as pool:
        assert list(pool.map(lambda _: torch.get_num_threads(), range(4))) == [1] * 4
        assert torch.get_num_threads() == 3
    later: list[int] = []
    thread = threading.Thread(target=lambda: later.append(torch.get_num_threads()))
    thread.start()
    thread.join()
    assert later == [3]


def test_an_error_in_a_lane_reaches_the_caller_and_ends_the_others():
    def fails(thing: int) -> int:
        if thing == 1:
            raise ValueError("no such thing")
        return thing

    with pytest.raises(ValueError, match="no such thing"), ForwardPool(2) as pool:
        list(pool.map(fails, range(100)))
    assert not any(thread.name.startswith("forward") for thread in threading.enumerate())


def test_who_runs_beside_itself(backbone, three_threads):
    assert pool_size_for(backbone_group(backbone)) == 3
    assert pool_size_for(backbone_group({"a": backbone, "b": backbone})) == 3
    others = {
        "compiled": replace(backbone, compiled=True),
        "onnx": replace(
            backbone, recipes={n: r.model_copy(update={"provider": "onnx"}) for n, r in backbone.recipes.items()}
        ),
        "card": replace(backbone, device=torch.device("cuda")),
        "not ours": Halves(),
    }
    assert {name: pool_size_for(backbone_group(one)) for name, one in others.items()} == dict.fromkeys(others, 1)
    assert pool_size_for(BackboneGroup({"": backbone}, using=threading.Lock())) == 1


def test_a_cache_has_the_same_bytes_with_any_number_of_lanes(backbone, tmp_path, three_threads):
    rng = np.random.default_rng(0)
    for i in range(60):
        place = tmp_path / "images" / "ab"[i % 2]
        place.mkdir(parents=True, exist_ok=True)
        Image.fromarray(rng.integers(0, 256, (40, 50, 3), dtype=np.uint8)).save(place / f"{i:02d}.png")
    (tmp_path / "images" / "a" / "00.png").write_bytes(b"broken")
    listing, found = list_folder(tmp_path / "images"), {}
    for threads in (1, 3):
        torch.set_num_threads(threads)
        cache = tmp_path / f"cache{threads}"
        events = list(extract(listing, backbone, cache, shard_rows=25, batch=4))
        assert (events[-1].n_ok, events[-1].n_bad) == (59, 1)
        found[threads] = [shard_path(cache, i).read_bytes() for i in range(3)]
    assert found[1] == found[3]
