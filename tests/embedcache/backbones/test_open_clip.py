"""open_clip towers, tested with tiny random models in folders and with tags, without a hub."""

from pathlib import Path

import numpy as np
import open_clip
import pytest
import torch
from network_outputs import assert_same_outputs
from PIL import Image
from tiny_models import write_clip

from frostbench.embedcache.backbones import load_backbone
from frostbench.embedcache.backbones.rebuild import rebuild

TEXT = {"context_length": 8, "vocab_size": 49408, "width": 16, "heads": 2, "layers": 1}
PREPROCESS = {"size": 32, "mode": "RGB", "mean": [0.5] * 3, "std": [0.5] * 3, "interpolation": "bicubic"}
VIT = {"image_size": 32, "layers": 3, "width": 32, "patch_size": 16, "head_width": 16}
TIMM = {"image_size": 32, "timm_model_name": "test_vit", "timm_pool": "token", "timm_proj": "linear"}
RESNET = {"image_size": 32, "layers": [1, 1, 1, 1], "width": 8, "patch_size": None}
TOWERS = {
    "clip": {"embed_dim": 24, "vision_cfg": VIT, "text_cfg": TEXT},
    "clip_avg": {
        "embed_dim": 24,
        "vision_cfg": VIT | {"pool_type": "avg", "final_ln_after_pool": True},
        "text_cfg": TEXT,
    },
    "coca_like": {"embed_dim": 24, "vision_cfg": VIT | {"attentional_pool": True}, "text_cfg": TEXT},
    "timm": {"embed_dim": 24, "custom_text": True, "vision_cfg": TIMM, "text_cfg": TEXT},
    "resnet": {"embed_dim": 24, "vision_cfg": RESNET, "text_cfg": TEXT},
}


def write_folder(folder: Path, tower: str, resize_mode: str = "squash", **changes: object) -> Path:
    """Write a folder with one of the towers and its preprocessing."""
    return write_clip(folder, TOWERS[tower], PREPROCESS | {"resize_mode": resize_mode} | changes)


def pixels(height: int, width: int) -> np.ndarray:
    return np.random.default_rng(height + width).integers(0, 256, (height, width, 3), dtype=np.uint8)


def theirs(folder: Path, size: int | None = None):
    """Load the model and the transform of the folder with open_clip itself."""
    model, _, transform = open_clip.create_model_and_transforms(f"local-dir:{folder}", force_image_size=size)
    return model.eval(), transform


@pytest.mark.parametrize("tower", TOWERS)
def test_the_projection_is_encode_image_unnormalised(tmp_path: Path, tower: str) -> None:
    folder = write_folder(tmp_path, tower)
    sizes = (None,) if tower == "resnet" else (None, 48)
    hashes = set()
    for size in sizes:
        ours = load_backbone("open_clip", f"local-dir:{folder}", size=size, autocast="float32")
        model, transform = theirs(folder, size)
        assert list(ours.recipes) == ["projection"]
        images = [pixels(60, 90), pixels(33, 20)]
        x = torch.stack([transform(Image.fromarray(image)) for image in images])
        with torch.inference_mode():
            expected = model.encode_image(x, normalize=False)
        vectors = ours.embed(torch.stack([ours.prepare(image) for image in images]))["projection"]
        assert_same_outputs(vectors, expected)
        assert ours.dims == {"projection": 24}
        assert (vectors.norm(dim=1) - 1).abs().min() > 1e-3
        assert ours.recipe.normalised is False
        hashes.add(ours.recipe.weights_sha256)
    assert len(hashes) == 1


@pytest.mark.parametrize("resize_mode", ["shortest", "squash"])
@pytest.mark.parametrize("shape", [(60, 90), (33, 20), (32, 32), (7, 50), (129, 64)])
def test_preparation_is_that_of_open_clip_pixel_for_pixel(tmp_path: Path, resize_mode: str, shape) -> None:
    folder = write_folder(
        tmp_path, "clip", resize_mode, interpolation="bilinear", mean=[0.1, 0.2, 0.3], std=[1, 1, 0.5]
    )
    ours = load_backbone("open_clip", f"local-dir:{folder}")
    _, transform = theirs(folder)
    mean, std = (torch.tensor(v).view(3, 1, 1) for v in (ours.recipe.mean, ours.recipe.std))
    image = pixels(*shape)
    expected = transform(Image.fromarray(image))
    torch.testing.assert_close((ours.prepare(image).float() / 255 - mean) / std, expected, rtol=0, atol=0)


def test_tokens_before_the_projection(tmp_path: Path) -> None:
    folder = write_folder(tmp_path, "clip")
    wanted = ("projection", "cls", "patch_mean", "tokens", "cls@-2", "gem@-3")
    ours = load_backbone("open_clip", f"local-dir:{folder}", pooling=wanted, autocast="float32")
    model, transform = theirs(folder)
    image = pixels(60, 90)
    with torch.inference_mode():
        output = model.visual.forward_intermediates(
            transform(Image.fromarray(image))[None],
            normalize_intermediates=True,
            output_fmt="NLC",
            output_extra_tokens=True,
        )
    vectors = ours.embed(ours.prepare(image)[None])
    patches, prefix = output["image_intermediates"], output["image_intermediates_prefix"]
    expected = {
        "projection": output["image_features"],
        "cls": prefix[2][:, 0],
        "patch_mean": patches[2].mean(1),
        "tokens": patches[2],
        "cls@-2": prefix[1][:, 0],
        "gem@-3": (patches[0].clamp(min=1e-6) ** 3).mean(1) ** (1 / 3),
    }
    assert list(vectors) == ["projection", "cls", "cls@-2", "patch_mean", "gem@-3", "tokens"]
    for name, value in expected.items():
        assert_same_outputs(vectors[name], value)
    # The class token precedes the projection. CLIP heads can be trained on either, but the vectors differ.
    assert_same_outputs(vectors["cls"] @ model.visual.proj.detach(), vectors["projection"])
    assert (ours.recipe.prefix_tokens, ours.tokens, ours.dims["tokens"]) == (1, {"tokens": 4}, 32)
    rebuilt = rebuild(ours.recipes)
    assert torch.equal(rebuilt.embed(ours.prepare(image)[None])["cls@-2"], vectors["cls@-2"])


def test_a_tower_of_timm_gives_its_tokens(tmp_path: Path) -> None:
    folder = write_folder(tmp_path, "timm")
    ours = load_backbone("open_clip", f"local-dir:{folder}", pooling=("cls", "patch_mean@-2"), autocast="float32")
    trunk = theirs(folder)[0].visual.trunk
    batch = ours.prepare(pixels(60, 90))[None]
    with torch.inference_mode():
        tokens, earlier = trunk.forward_intermediates(batch / 127.5 - 1, indices=[4], norm=True, output_fmt="NLC")
    vectors = ours.embed(batch)
    assert_same_outputs(vectors["cls"], tokens[:, 0])
    assert_same_outputs(vectors["patch_mean@-2"], earlier[0].mean(1))


def test_a_tower_without_tokens_says_what_it_has(tmp_path: Path) -> None:
    for tower in ("resnet", "coca_like"):
        folder = write_folder(tmp_path / tower, tower)
        with pytest.raises(ValueError, match="must be among projection, each at most once, got cls"):
            load_backbone("open_clip", f"local-dir:{folder}", pooling=("cls",))


def test_weights_by_file_take_the_preprocessing_of_the_tag(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # mlfoundations/open_clip issue 1068: for a file, open_clip itself uses the default of the architecture.
    folder = write_folder(tmp_path / "model", "clip", "shortest")
    tag = {"mean": (0.1,) * 3, "std": (0.9,) * 3, "interpolation": "bilinear", "resize_mode": "squash", "url": ""}
    monkeypatch.setitem(open_clip.factory._MODEL_CONFIGS, "tiny", TOWERS["clip"])
    monkeypatch.setitem(open_clip.pretrained._PRETRAINED, "tiny", {"mine": tag})
    file = folder / "open_clip_model.safetensors"
    ours = load_backbone("open_clip", "tiny/mine", weights=file)
    assert (ours.recipe.tag, ours.recipe.model) == ("mine", "tiny/mine")
    assert (ours.recipe.mean, ours.recipe.std) == ((0.1,) * 3, (0.9,) * 3)
    assert (ours.recipe.crop, ours.recipe.interpolation) == ("squash", "bilinear")
    _, _, naive = open_clip.create_model_and_transforms("tiny", pretrained=str(file))
    assert naive.transforms[-1].mean != (0.1,) * 3
    torch.save(torch.nn.Linear(2, 2).state_dict(), tmp_path / "foreign.pt")
    with pytest.raises(ValueError, match="weights must match the model and the size"):
        load_backbone("open_clip", "tiny/mine", weights=tmp_path / "foreign.pt")
    with pytest.raises(FileNotFoundError, match="weights must be an existing file"):
        load_backbone("open_clip", "tiny/mine", weights=tmp_path / "gone.pt")
    with pytest.raises(ValueError, match=r"named MODEL/TAG.*because the tag determines"):
        load_backbone("open_clip", "tiny", weights=file)


def test_the_tags_of_siglip2_and_mobileclip_override_their_architectures() -> None:
    # This is why a file of weights alone is refused.
    siglip = open_clip.get_pretrained_cfg("ViT-B-16-SigLIP2", "webli")
    assert (siglip["mean"], siglip["resize_mode"]) == ((0.5,) * 3, "squash")
    default = open_clip.transform.PreprocessCfg()
    assert (default.mean, default.resize_mode) != (siglip["mean"], siglip["resize_mode"])


def test_an_activation_that_does_not_belong_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ValueError, match=r"openai has QuickGELU .* ViT-L-14 has GELU. Use ViT-L-14-quickgelu/openai"):
        load_backbone("open_clip", "ViT-L-14/openai")
    monkeypatch.setitem(open_clip.pretrained._PRETRAINED, "ViT-B-32-quickgelu", {"mine": {"url": "", "mean": (0,) * 3}})
    with pytest.raises(ValueError, match=r"has GELU and .*ViT-B-32-quickgelu has QuickGELU. Use ViT-B-32/mine"):
        load_backbone("open_clip", "ViT-B-32-quickgelu/mine")


def test_what_is_not_there_is_explained(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"but loading failed \(.*`--weights`.*local-dir"):
        load_backbone("open_clip", "ViT-B-16-SigLIP2/webli")
    with pytest.raises(FileNotFoundError, match=r"but loading failed \(.*`--weights`"):
        load_backbone("open_clip", "hf-hub:timm/ViT-B-16-SigLIP2")
    with pytest.raises(ValueError, match=r"got ViT-B-16/nothing. Tags of ViT-B-16: openai"):
        load_backbone("open_clip", "ViT-B-16/nothing")
    with pytest.raises(FileNotFoundError, match=r"must hold open_clip_config\.json"):
        load_backbone("open_clip", f"local-dir:{tmp_path}")
    folder = write_folder(tmp_path / "open", "clip", mean=None)
    with pytest.raises(ValueError, match=r"lacks mean, .*would be a guess"):
        load_backbone("open_clip", f"local-dir:{folder}")
    with pytest.raises(ValueError, match="has 'longest'"):
        load_backbone("open_clip", f"local-dir:{write_folder(tmp_path / 'long', 'clip', 'longest')}")
    with pytest.raises(ValueError, match=r"got 40, but .* has patches of 16 pixels"):
        load_backbone("open_clip", f"local-dir:{write_folder(tmp_path / 'ok', 'clip')}", size=40)
    with pytest.raises(ValueError, match="contains its weights"):
        load_backbone("open_clip", f"local-dir:{tmp_path / 'ok'}", weights=tmp_path)


def test_a_hub_repository_may_lie_in_a_folder(tmp_path: Path) -> None:
    folder = write_folder(tmp_path / "copy", "clip")
    by_name = load_backbone("open_clip", "hf-hub:me/mine", weights=folder)
    assert by_name.recipe.model == "hf-hub:me/mine"
    assert by_name.recipe.tag is None
    assert by_name.provenance["open_clip_torch"] == open_clip.__version__
