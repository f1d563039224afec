"""Class names embedded by the text tower of a cache's backbone, from the command line."""

import json

import numpy as np
import open_clip
import pytest
import torch
from safetensors.torch import save_file


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A tiny CLIP with random weights, as a folder that open_clip loads."""
    root = tmp_path_factory.mktemp("clip")
    config = {
        "embed_dim": 24,
        "vision_cfg": {"image_size": 32, "layers": 2, "width": 32, "patch_size": 16, "head_width": 16},
        "text_cfg": {"context_length": 16, "vocab_size": 49408, "width": 16, "heads": 2, "layers": 2},
    }
    preprocess = {"mean": [0.5] * 3, "std": [0.5] * 3, "interpolation": "bicubic", "resize_mode": "squash"}
    (root / "open_clip_config.json").write_text(json.dumps({"model_cfg": config, "preprocess_cfg": preprocess}))
    torch.manual_seed(0)
    state = open_clip.CLIP(**json.loads(json.dumps(config))).state_dict()
    save_file({k: v.clone().contiguous() for k, v in state.items()}, root / "open_clip_model.safetensors")
    return root


@pytest.fixture(scope="module")
def clip_cache(folder, photos, tmp_path_factory):
    from frostbench.app.actions.embedding import embed_listing
    from frostbench.app.actions.loading import load_backbones
    from frostbench.embedcache.sources.source import list_source

    cache = tmp_path_factory.mktemp("clip-cache") / "cache"
    embed_listing(list_source(photos), load_backbones([f"clip=open_clip:local-dir:{folder}"], ()), cache)
    return cache


def test_names_become_a_zero_shot_head(frostbench, clip_cache, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    result = frostbench(
        "texts", clip_cache, "--out", "texts.npz", "--template", "a photo of a {}.", "--template", "a {}"
    )
    assert result.status == 0, result.err
    found = np.load("texts.npz")
    assert found["weights"].shape == (len(found["class_names"]), 24)
    # The printed options work with `train`.
    for line, label in zip(
        result.out.splitlines()[1:], ("To use as a zero-shot head: ", "To initialise a head: "), strict=True
    ):
        sets = line.removeprefix(label).split()
        trained = frostbench("train", clip_cache, "--preset", "plain", *sets, "--out", f"head {len(sets)}")
        assert trained.status == 0, trained.err


def test_a_cache_without_a_projection_is_an_error(frostbench, cache, tmp_path):
    result = frostbench("texts", cache, "--out", tmp_path / "texts.npz")
    assert result.status == 2
    assert "this cache has the projections [] among its columns ['avg']" in result.err
    assert "Embed with open_clip:MODEL/TAG" in result.err


def test_images_are_prepared_as_a_file_says(frostbench, photos, folder, tmp_path):
    (tmp_path / "how.yaml").write_text("size: 64\ncrop: center\ncrop_fraction: 0.8\n")
    words = ("--backbone", f"open_clip:local-dir:{folder}", "--preparation", tmp_path / "how.yaml")
    result = frostbench("embed", photos, "--cache", tmp_path / "cache", *words)
    assert result.status == 0, result.err
    assert "size 64, resize 80, crop center" in result.out
    (tmp_path / "how.yaml").write_text("zoom: 2\n")
    result = frostbench("embed", photos, "--cache", tmp_path / "other", *words)
    assert result.status == 2
    assert "zoom" in result.err
