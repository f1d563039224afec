"""Loading of backbones: recipes, weights, devices, number types and refusals."""

from pathlib import Path

import pytest
import timm
import timm.data
import torch
from noise import batch_for
from safetensors.torch import save_file
from tiny_models import DINOV3

from frostbench.embedcache.backbones import NotFiniteError, load_backbone, weights_sha256
from frostbench.embedcache.backbones import backbone as backbone_module
from frostbench.embedcache.backbones.backbone import resolve_autocast, resolve_device


def test_the_recipe_is_resolved_from_the_model(random_weights) -> None:
    recipe = load_backbone("timm", "test_vit", weights=random_weights("test_vit"), alpha_background=(1, 2, 3)).recipe
    assert recipe.model_dump(exclude={"weights_sha256", "autocast"}) == {
        "version": 1,
        "provider": "timm",
        "model": "test_vit",
        "size": 160,
        "resize": 168,
        "crop": "center",
        "crop_fraction": 0.95,
        "interpolation": "bicubic",
        "antialias": True,
        "resizer": "pillow",
        "decoder": "pillow",
        "alpha_background": (1, 2, 3),
        "mean": (0.5, 0.5, 0.5),
        "std": (0.5, 0.5, 0.5),
        "pooling": "cls",
        "normalised": False,
        "storage": "float16",
        "view": "original",
        "reduction": "none",
    }


def test_the_weights_hash_ignores_file_format_classifier_and_size(random_weights, tmp_path: Path) -> None:
    path = random_weights("test_vit")
    model = timm.create_model("test_vit", checkpoint_path=str(path))
    torch.save(model.state_dict(), tmp_path / "same.pth")
    model.reset_classifier(7)
    torch.save(model.state_dict(), tmp_path / "seven.pth")
    model.reset_classifier(0)
    save_file(model.state_dict(), tmp_path / "none.safetensors")
    found = {
        load_backbone("timm", "test_vit", weights=tmp_path / name, size=size).recipe.weights_sha256
        for name, size in (("same.pth", None), ("seven.pth", 64), ("none.safetensors", 96))
    }
    assert found == {load_backbone("timm", "test_vit", weights=path).recipe.weights_sha256}
    with torch.no_grad():
        model.blocks[0].attn.proj.bias[0] += 1e-3
    assert weights_sha256(model) not in found


def test_incomplete_or_foreign_weights_are_refused(random_weights, tmp_path: Path) -> None:
    state = timm.create_model("test_vit", checkpoint_path=str(random_weights("test_vit"))).state_dict()
    state.pop("blocks.0.attn.proj.weight")
    torch.save(state, tmp_path / "holes.pth")
    (tmp_path / "text.pth").write_text("hello")
    for path in (tmp_path / "holes.pth", random_weights("test_resnet"), tmp_path / "text.pth"):
        with pytest.raises(ValueError, match="the weights must match the model"):
            load_backbone("timm", "test_vit", weights=path)
    with pytest.raises(FileNotFoundError, match="weights must be a file"):
        load_backbone("timm", "test_vit", weights=tmp_path / "gone.pth")


def test_without_a_hub_the_error_says_what_to_do() -> None:
    with pytest.raises(
        FileNotFoundError, match=r"LocalEntryNotFoundError.*licence.*`--weights` .*`weights=`.*'bundled'"
    ):
        load_backbone("timm", "vit_small_patch16_dinov3.lvd1689m")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"size": 50}, "got 50, but .* has patches of 16 pixels. Nearest: 48 or 64"),
        ({"pooling": ("avg",)}, "must be among cls, patch_mean"),
        ({"pooling": ("cls", "cls")}, "each at most once"),
        ({"autocast": "half"}, "autocast must be"),
        ({"device": "gpu"}, "must be cpu, cuda, cuda:N or mps, got 'gpu'"),
        ({"device": "meta"}, "must be cpu, cuda, cuda:N or mps, got 'meta'"),
    ],
)
def test_wrong_arguments_are_explained(random_weights, arguments: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        load_backbone("timm", "test_vit", weights=random_weights("test_vit"), **arguments)


@pytest.mark.parametrize("size", [-16, 0, 31, 8193])
def test_a_size_out_of_bounds_is_refused_before_anything_is_loaded(monkeypatch, size: int) -> None:
    monkeypatch.setattr("frostbench.embedcache.backbones.load_tower", lambda *_: pytest.fail("the model was loaded"))
    with pytest.raises(ValueError, match=rf"must be 32..8192 pixels, got {size}"):
        load_backbone("timm", "test_vit", size=size)


def test_a_device_that_is_absent_is_refused(monkeypatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(ValueError, match=r"got 'cuda', but torch .* finds 0 cuda devices\. Choose cpu, or install a"):
        resolve_device("cuda")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    assert resolve_device("cuda:1") == torch.device("cuda:1")
    with pytest.raises(ValueError, match=r"got 'cuda:2', .* finds 2 cuda devices\. Choose cuda:0 to cuda:1\.$"):
        resolve_device("cuda:2")
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    with pytest.raises(ValueError, match=r"got 'cuda:1', .* finds 1 cuda device\. Choose cuda\.$"):
        resolve_device("cuda:1")
    with pytest.raises(ValueError, match=r"got 'cpu:1', .* finds 1 cpu device\. Choose cpu\.$"):
        resolve_device("cpu:1")


def test_unknown_names_are_explained(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"similar: .*resnet18"):
        load_backbone("timm", "resnet18x")
    with pytest.raises(ValueError, match="provider must be"):
        load_backbone("torchvision", "resnet18")
    with pytest.raises(ValueError, match="a bundled model must be one of efficientnet_lite0"):
        load_backbone("bundled", "resnet18")
    with pytest.raises(ValueError, match="include their weights"):
        load_backbone("bundled", "efficientnet_lite0", weights=tmp_path / "w.pth")


def test_models_whose_tokens_are_not_understood_are_refused(random_weights) -> None:
    with pytest.raises(ValueError, match="with a known number of class and register tokens"):
        load_backbone("timm", "pit_ti_224", weights=random_weights("pit_ti_224"))


def test_float16_is_refused_for_dinov3() -> None:
    with pytest.raises(ValueError, match="DINOv3 models cannot run in float16"):
        load_backbone("timm", DINOV3, autocast="float16")
    assert resolve_autocast("float16", torch.device("cuda"), "resnet18") == "float16"


@pytest.mark.parametrize(("has", "resolved"), [(True, "bfloat16"), (False, "float32")])
def test_auto_is_bfloat16_where_the_hardware_has_it(monkeypatch, has: bool, resolved: str) -> None:
    monkeypatch.setattr(torch.cpu, "_is_amx_tile_supported", lambda: has)
    monkeypatch.setattr(torch.cpu, "_is_avx512_bf16_supported", lambda: False)
    assert resolve_autocast("auto", torch.device("cpu"), "resnet18") == resolved
    monkeypatch.setattr(torch.cuda, "is_bf16_supported", lambda including_emulation=True: has)
    assert resolve_autocast("auto", torch.device("cuda"), "resnet18") == resolved


def test_bfloat16_is_close_and_gives_float32(random_weights) -> None:
    path = random_weights(DINOV3)
    exact, rough = (
        load_backbone("timm", DINOV3, weights=path, size=64, autocast=kind) for kind in ("float32", "bfloat16")
    )
    batch = batch_for(exact)
    for name, value in rough.embed(batch).items():
        assert value.dtype == torch.float32
        like = torch.nn.functional.cosine_similarity(value, exact.embed(batch)[name])
        assert 0.99 < like.min() < 0.9999999
    assert rough.recipe.hash != exact.recipe.hash


def test_embedding_is_evaluation_and_repeats(random_weights) -> None:
    backbone = load_backbone("timm", "test_resnet", weights=random_weights("test_resnet"), size=64)
    batch = batch_for(backbone)
    before = weights_sha256(backbone.model)
    first, second = backbone.embed(batch)["avg"], backbone.embed(batch)["avg"]
    assert torch.equal(first, second)
    assert weights_sha256(backbone.model) == before
    with pytest.raises(TypeError, match="must be uint8"):
        backbone.embed(batch.float())


@pytest.mark.parametrize(("autocast", "advice"), [("float32", "Check that"), ("bfloat16", "Use autocast float32, and")])
def test_nan_is_an_error_that_names_the_rows(random_weights, autocast: str, advice: str) -> None:
    path = random_weights("test_resnet")
    backbone = load_backbone("timm", "test_resnet", weights=path, size=64, autocast=autocast)
    with torch.no_grad():
        backbone.model.conv1[0].weight[0, 0, 0, 0] = float("nan")
    told = rf"rows \[0, 1\] of the batch under autocast {autocast}\. {advice}"
    with pytest.raises(NotFiniteError, match=told) as caught:
        backbone.embed(batch_for(backbone))
    assert caught.value.rows == [0, 1]


def test_every_number_type_of_a_recipe_has_a_torch_type() -> None:
    assert {"float32", "bfloat16", "float16"} == set(backbone_module._DTYPES)
