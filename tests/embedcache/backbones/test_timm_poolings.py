"""Further poolings of timm models: layers, tokens, generalised means and the model's own output."""

from pathlib import Path

import numpy as np
import pytest
import timm
import torch
from network_outputs import assert_same_outputs
from tiny_models import DINOV3

from frostbench.embedcache.backbones import load_backbone
from frostbench.embedcache.backbones.pooling import choose_poolings, generalised_mean, name_of, parse_pooling
from frostbench.embedcache.backbones.rebuild import rebuild
from frostbench.embedcache.backbones.timm_tower import TimmTower
from frostbench.embedcache.recipe import Recipe


def images(size: int, n: int = 2) -> torch.Tensor:
    return torch.randint(0, 256, (n, 3, size, size), dtype=torch.uint8, generator=torch.Generator().manual_seed(size))


def reference(name: str, path: Path, recipe: Recipe, **arguments: object):
    """Return the model and the normalised images from timm only."""
    model = timm.create_model(name, pretrained=True, pretrained_cfg_overlay={"file": str(path)}, **arguments).eval()
    mean, std = (torch.tensor(v).view(1, 3, 1, 1) for v in (recipe.mean, recipe.std))
    return model, (images(recipe.size) / 255 - mean) / std


@pytest.mark.parametrize(("name", "prefix"), [("test_vit", 1), (DINOV3, 5), ("test_vit2", 1), ("test_vit3", 1)])
def test_layers_and_tokens_are_timms_own(random_weights, name: str, prefix: int) -> None:
    path = random_weights(name)
    wanted = ["patch_mean", "tokens", "gem:2", "patch_mean@-3", "tokens@-2", "output"]
    ours = load_backbone("timm", name, weights=path, pooling=wanted, size=64, autocast="float32")
    model, x = reference(name, path, ours.recipe, img_size=64)
    depth = len(model.blocks)
    with torch.inference_mode():
        end, earlier = model.forward_intermediates(x, indices=[depth - 3, depth - 2], norm=True, output_fmt="NLC")
        own = model.forward_head(end, pre_logits=True)
        fc_norm = model.fc_norm
        patches = end[:, prefix:]
        expected = {
            "patch_mean": fc_norm(patches.mean(1)),
            "tokens": patches,
            "gem:2": patches.clamp(min=1e-6).square().mean(1).sqrt(),
            "patch_mean@-3": fc_norm(earlier[0].mean(1)),
            "tokens@-2": earlier[1],
            "output": own,
        }
    vectors = ours.embed(images(64))
    assert set(vectors) == set(expected)
    for column, value in expected.items():
        assert_same_outputs(vectors[column], value)
    assert ours.tokens == {"tokens": 16, "tokens@-2": 16}
    assert rebuild(ours.recipes, weights=path).recipes == ours.recipes


def test_timms_default_for_dinov3_is_the_patch_mean_and_is_not_stored_by_default(random_weights) -> None:
    # huggingface/pytorch-image-models issue 2681: the checkpoint's own pooling is avg, but Meta uses cls.
    path = random_weights(DINOV3)
    ours = load_backbone(
        "timm", DINOV3, weights=path, pooling=["cls", "patch_mean", "output"], size=64, autocast="float32"
    )
    assert list(load_backbone("timm", DINOV3, weights=path, size=64).recipes) == ["cls", "patch_mean"]
    vectors = ours.embed(images(64))
    assert ours.model.global_pool == "avg"
    assert_same_outputs(vectors["output"], vectors["patch_mean"])
    assert (vectors["output"] - vectors["cls"]).abs().max() > 1e-3


@pytest.mark.parametrize("name", ["test_resnet", "test_convnext", "test_efficientnet"])
def test_maps_are_tokens_in_rows(random_weights, name: str) -> None:
    path = random_weights(name)
    ours = load_backbone("timm", name, weights=path, pooling=["gem", "tokens", "avg"], size=64, autocast="float32")
    model, x = reference(name, path, ours.recipe)
    with torch.inference_mode():
        maps = model.forward_features(x)
        average = model.forward_head(maps, pre_logits=True)
    vectors = ours.embed(images(64))
    assert list(vectors) == ["avg", "gem", "tokens"]
    side = maps.shape[2]
    for row in range(side):
        for column in range(side):
            place = vectors["tokens"][:, row * side + column]
            torch.testing.assert_close(place, maps[:, :, row, column], rtol=1e-4, atol=1e-4)
    gem = (maps.clamp(min=1e-6) ** 3).mean((2, 3)) ** (1 / 3)
    torch.testing.assert_close(vectors["gem"], gem, rtol=1e-4, atol=1e-4)
    torch.testing.assert_close(vectors["avg"], average, rtol=1e-4, atol=1e-4)


def test_maps_with_channels_last_are_read_in_the_right_order() -> None:
    class Fake(torch.nn.Module):
        output_fmt = "NHWC"

    features = {0: torch.arange(2 * 3 * 3 * 5.0).reshape(2, 3, 3, 5)}
    tokens = TimmTower(Fake(), "fake").pool(features, parse_pooling("tokens"))
    assert torch.equal(tokens, features[0].reshape(2, 9, 5))


def test_layers_do_not_change_the_end(random_weights) -> None:
    path = random_weights("test_vit")
    plain = load_backbone("timm", "test_vit", weights=path, autocast="float32")
    more = load_backbone("timm", "test_vit", weights=path, pooling=["cls", "cls@-2", "cls@-6"], autocast="float32")
    batch = images(160)
    assert more.recipes["cls"].hash == plain.recipes["cls"].hash
    torch.testing.assert_close(more.embed(batch)["cls"], plain.embed(batch)["cls"], rtol=1e-6, atol=1e-6)
    with pytest.raises(ValueError, match=r"also from a layer @-2 … @-6\), .*cls@-7"):
        load_backbone("timm", "test_vit", weights=path, pooling=["cls@-7"])


def test_a_model_with_infinity_in_a_token_is_refused(random_weights) -> None:
    backbone = load_backbone("timm", "test_vit", weights=random_weights("test_vit"), pooling=["tokens"], size=32)
    with torch.no_grad():
        backbone.model.norm.bias[0] = float("inf")
    with pytest.raises(ValueError, match=r"column 'tokens' of test_vit has NaN or infinity in rows \[0, 1\]"):
        backbone.embed(images(32))


@pytest.mark.parametrize("text", ["cls", "gem", "gem:2.5", "gem:4@-3", "output:a.b/c:0", "patch_mean@-12", "tokens@-2"])
def test_names_of_poolings_go_there_and_back(text: str) -> None:
    name = parse_pooling(text)
    assert str(name) == text
    assert name_of(Recipe(provider="external", model="m", **name.fields())) == text


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("mean", "a pooling must be one of cls, patch_mean, avg, gem, tokens, projection, output, gem with"),
        ("unknown", "a pooling must be one of"),
        ("cls:3", "a pooling must be one of"),
        ("cls@", "a pooling must be one of"),
        ("", "a pooling must be one of"),
        ("cls@-1", r"@-2 is the last but one, got 'cls@-1'\. Leave the layer out for the last one: cls\."),
        ("cls@3", "counted from the end"),
        ("gem:0.5", r"must be in 1\.\.100"),
        ("gem:p", r"must be in 1\.\.100"),
        ("gem:nan", r"must be in 1\.\.100"),
    ],
)
def test_wrong_names_are_explained(text: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        parse_pooling(text)


def test_the_order_of_columns_does_not_depend_on_the_order_of_asking() -> None:
    requested = ["tokens", "gem:4", "cls@-4", "gem", "cls", "cls@-2"]
    available = ("cls", "patch_mean", "gem", "tokens")
    for wanted in (requested, requested[::-1]):
        found = [str(name) for name in choose_poolings(wanted, available, ("cls",), 12, "m")]
        assert found == ["cls", "cls@-2", "cls@-4", "gem", "gem:4", "tokens"]
    with pytest.raises(ValueError, match="each at most once"):
        choose_poolings(["gem", "gem:3"], available, ("cls",), 12, "m")


def test_the_generalised_mean_lies_between_mean_and_maximum() -> None:
    tokens = torch.rand(3, 50, 7, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    torch.testing.assert_close(generalised_mean(tokens, 1.0), tokens.mean(1))
    by_numpy = np.mean(tokens.numpy() ** 3.0, axis=1) ** (1 / 3)
    np.testing.assert_allclose(generalised_mean(tokens, 3.0).numpy(), by_numpy, rtol=1e-12)
    assert (generalised_mean(tokens, 3.0) > tokens.mean(1)).all()
    torch.testing.assert_close(generalised_mean(tokens, 100.0), tokens.amax(1), rtol=0.05, atol=0)
