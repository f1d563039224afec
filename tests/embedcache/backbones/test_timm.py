"""Class tokens, patch means and pooled features equal those of timm."""

from pathlib import Path

import pytest
import timm
import timm.data
import torch
from network_outputs import assert_same_outputs
from noise import batch_for
from tiny_models import DINOV3

from frostbench.embedcache.backbones import Backbone, load_backbone


def reference_features(name: str, path: Path, backbone: Backbone, batch: torch.Tensor, **arguments: object):
    """Build and run the same model with timm only."""
    model = timm.create_model(name, pretrained=True, pretrained_cfg_overlay={"file": str(path)}, **arguments).eval()
    mean, std = (torch.tensor(v).view(1, 3, 1, 1) for v in (backbone.recipe.mean, backbone.recipe.std))
    with torch.inference_mode():
        return model, model.forward_features((batch.float() / 255 - mean) / std)


@pytest.mark.parametrize(("name", "prefix"), [("test_vit", 1), (DINOV3, 5)])
def test_cls_and_patch_mean_come_in_one_pass_without_registers(random_weights, name: str, prefix: int) -> None:
    path = random_weights(name)
    ours = load_backbone("timm", name, weights=path, size=64, autocast="float32")
    batch = batch_for(ours)
    model, features = reference_features(name, path, ours, batch, img_size=64)
    assert model.num_prefix_tokens == prefix
    assert features.shape[1] == 16 + prefix
    vectors = ours.embed(batch)
    assert list(vectors) == list(ours.recipes) == ["cls", "patch_mean"]
    assert_same_outputs(vectors["cls"], features[:, 0])
    by_hand = sum(features[:, token] for token in range(prefix, 16 + prefix)) / 16
    assert_same_outputs(vectors["patch_mean"], by_hand)
    assert ours.dims == {"cls": features.shape[2], "patch_mean": features.shape[2]}
    assert {column: recipe.pooling for column, recipe in ours.recipes.items()} == {c: c for c in ours.recipes}
    assert len({recipe.hash for recipe in ours.recipes.values()}) == 2


@pytest.mark.parametrize("name", ["test_vit2", "eva02_tiny_patch14_224"])
def test_a_norm_behind_the_pooling_is_applied(random_weights, name: str) -> None:
    path = random_weights(name)
    ours = load_backbone("timm", name, weights=path, pooling=("patch_mean",), autocast="float32")
    batch = batch_for(ours, 1)
    model, features = reference_features(name, path, ours, batch)
    assert not isinstance(model.fc_norm, torch.nn.Identity)
    expected = model.forward_head(features, pre_logits=True)
    assert_same_outputs(ours.embed(batch)["patch_mean"], expected)


@pytest.mark.parametrize("name", ["test_resnet", "test_convnext", "mobilenetv3_small_050"])
def test_convolutional_models_give_their_pooled_features(random_weights, name: str) -> None:
    path = random_weights(name)
    ours = load_backbone("timm", name, weights=path, autocast="float32", size=64)
    batch = batch_for(ours)
    model, features = reference_features(name, path, ours, batch)
    expected = features.mean((2, 3)) if name == "test_resnet" else model.forward_head(features, pre_logits=True)
    vectors = ours.embed(batch)
    assert_same_outputs(vectors["avg"], expected)
    assert ours.dims == {"avg": expected.shape[1]}
