"""Vectors and preparation of tiny random checkpoints equal those of transformers."""

from pathlib import Path

import numpy as np
import pytest
import torch
import transformers
from network_outputs import assert_same_outputs
from PIL import Image
from tiny_transformers import LVD, MODELS, SAT, dinov2_processor, dinov3_processor, dinov3_vit

from frostbench.embedcache.backbones import Backbone, Preparation, load_backbone


def pixels(height: int, width: int) -> np.ndarray:
    """Draw smooth and sharp structures, so that filters differ."""
    row, column = np.mgrid[0:height, 0:width]
    noise = np.random.default_rng(height).integers(0, 256, (height, width, 3))
    waves = 127 + 127 * np.sin(row[..., None] / np.array([5, 7, 11]) + column[..., None] / 13)
    return (0.5 * noise + 0.5 * waves).astype(np.uint8)


def embedded(backbone: Backbone, folder: Path) -> tuple[dict[str, torch.Tensor], object]:
    """Return our vectors and those of the library for the same pixels."""
    batch = torch.stack([backbone.prepare(pixels(90, 70)), backbone.prepare(pixels(64, 128))])
    mean, std = (torch.tensor(v).view(1, 3, 1, 1) for v in (backbone.recipe.mean, backbone.recipe.std))
    model = transformers.AutoModel.from_pretrained(folder).eval()
    with torch.inference_mode():
        theirs = model(pixel_values=(batch / 255 - mean) / std, output_hidden_states=True)
    return backbone.embed(batch), theirs


@pytest.mark.parametrize("name", ["dinov3_vit", "dinov3_plus", "dinov2", "dinov2_registers"])
def test_vectors_are_those_of_the_library(checkpoint, name: str) -> None:
    folder, prefix = checkpoint(name), MODELS[name][2]
    wanted = ["cls", "patch_mean", "gem", "gem:1.5", "tokens", "cls@-2", "patch_mean@-3"]
    ours = load_backbone("huggingface", str(folder), pooling=wanted, autocast="float32")
    vectors, theirs = embedded(ours, folder)
    patches = theirs.last_hidden_state[:, prefix:]
    norm = ours.model.norm if name.startswith("dinov3") else ours.model.layernorm
    side = 224 // (16 if name.startswith("dinov3") else 14)
    expected = {
        "cls": theirs.pooler_output,
        "patch_mean": sum(patches[:, place] for place in range(side * side)) / side**2,
        "gem": (patches.clamp(min=1e-6) ** 3).mean(1) ** (1 / 3),
        "gem:1.5": (patches.clamp(min=1e-6) ** 1.5).mean(1) ** (1 / 1.5),
        "tokens": patches,
        # Hidden states are the embedding and the outputs of 4 blocks, so the third block's is hidden state 3.
        "cls@-2": norm(theirs.hidden_states[3])[:, 0],
        "patch_mean@-3": norm(theirs.hidden_states[2])[:, prefix:].mean(1),
    }
    assert set(vectors) == set(expected)
    for column, value in expected.items():
        assert_same_outputs(vectors[column], value)
    assert ours.tokens == {"tokens": side * side}
    assert set(ours.dims.values()) == {32}
    assert {recipe.prefix_tokens for recipe in ours.recipes.values()} == {prefix}
    assert len({recipe.hash for recipe in ours.recipes.values()}) == len(wanted)
    about = ours.recipes["patch_mean@-3"]
    assert (about.pooling, about.layer, about.final_norm, ours.recipe.final_norm) == ("patch_mean", -3, True, None)


def test_a_convnext_gives_its_normalised_average(checkpoint) -> None:
    folder = checkpoint("dinov3_convnext")
    ours = load_backbone("huggingface", str(folder), pooling=("avg", "tokens"), autocast="float32")
    vectors, theirs = embedded(ours, folder)
    assert_same_outputs(vectors["avg"], theirs.pooler_output)
    assert_same_outputs(vectors["tokens"], theirs.last_hidden_state[:, 1:])
    assert ours.tokens == {"tokens": 49}
    assert list(load_backbone("huggingface", str(folder)).recipes) == ["avg"]
    with pytest.raises(ValueError, match="must be among avg, gem, tokens, each at most once"):
        load_backbone("huggingface", str(folder), pooling=("cls",))


def test_the_three_default_embeddings_of_one_dinov3_checkpoint_differ_and_are_named(checkpoint) -> None:
    # Meta's evaluation and transformers' pooler_output take the class token (at other sizes and filters), timm the mean
    # of the patch tokens. We do not rely on a library's default: both are columns, each under its own name.
    folder = checkpoint("dinov3_vit")
    ours = load_backbone("huggingface", str(folder), autocast="float32")
    vectors, theirs = embedded(ours, folder)
    assert list(vectors) == ["cls", "patch_mean"]
    assert_same_outputs(vectors["cls"], theirs.pooler_output)
    timm_default = theirs.last_hidden_state[:, 5:].mean(1)
    assert_same_outputs(vectors["patch_mean"], timm_default)
    meta = load_backbone(
        "huggingface",
        str(folder),
        autocast="float32",
        preparation=Preparation(size=224, crop="center", crop_fraction=0.875, interpolation="bicubic"),
    )
    assert (meta.recipe.resize, meta.recipe.crop, meta.recipe.interpolation) == (256, "center", "bicubic")
    image = pixels(90, 70)
    three = [
        ours.embed(ours.prepare(image)[None])["cls"],
        meta.embed(meta.prepare(image)[None])["cls"],
        ours.embed(ours.prepare(image)[None])["patch_mean"],
    ]
    for first, second in ((0, 1), (0, 2), (1, 2)):
        assert (three[first] - three[second]).abs().max() > 1e-3
    hashes = {ours.recipes["cls"].hash, meta.recipes["cls"].hash, ours.recipes["patch_mean"].hash}
    assert len(hashes) == 3


@pytest.mark.parametrize(("mean", "std"), [LVD, SAT])
def test_the_checkpoint_says_how_images_are_prepared(tmp_path: Path, mean, std) -> None:
    dinov3_vit().save_pretrained(tmp_path)
    dinov3_processor(mean, std).save_pretrained(tmp_path)
    recipe = load_backbone("huggingface", str(tmp_path)).recipe
    assert (recipe.size, recipe.resize, recipe.crop, recipe.interpolation) == (224, 224, "squash", "bilinear")
    assert (recipe.mean, recipe.std) == (mean, std)
    assert recipe.rope_periods == "float32"


# transformers resizes tensors by torchvision and, for DINOv3, before it rounds; Pillow rounds after each direction. Its
# center crop rounds half pixels down where torchvision's transforms round them to even, so these sizes leave none.
@pytest.mark.parametrize(("name", "processor"), [("dinov3_vit", dinov3_processor), ("dinov2", dinov2_processor)])
@pytest.mark.parametrize("shape", [(300, 400), (224, 224), (64, 48), (1000, 750)])
def test_preparation_is_that_of_transformers_within_two_grey_levels(checkpoint, name: str, processor, shape) -> None:
    backbone = load_backbone("huggingface", str(checkpoint(name)))
    image = pixels(*shape)
    mean, std = (torch.tensor(v).view(3, 1, 1) for v in (backbone.recipe.mean, backbone.recipe.std))
    theirs = processor()(Image.fromarray(image), return_tensors="pt")["pixel_values"][0] * std + mean
    far = (255 * theirs - backbone.prepare(image).float()).abs()
    assert far.max() < 2
    assert far.mean() < 0.4


def test_training_mode_never_jitters_the_positions(checkpoint) -> None:
    # facebookresearch/dinov3 issue 99: in training mode the rotary positions are random.
    backbone = load_backbone("huggingface", str(checkpoint("dinov3_vit")), autocast="float32")
    assert not any(module.training for module in backbone.model.modules())
    batch = backbone.prepare(pixels(90, 70))[None]
    first, second = backbone.embed(batch)["cls"], backbone.embed(batch)["cls"]
    assert torch.equal(first, second)
    backbone.model.train()
    assert (backbone.embed(batch)["cls"] - first).abs().max() > 1e-4


def test_code_that_comes_with_a_model_is_never_run(tmp_path, monkeypatch):
    # transformers would prompt on the terminal before running it.
    monkeypatch.setattr("builtins.input", lambda *_: "y")
    ran = tmp_path / "ran"
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "own.py").write_text(
        f"open({str(ran)!r}, 'w').close()\n"
        "from transformers import PretrainedConfig\nclass Own(PretrainedConfig):\n    model_type = 'dinov2'\n"
    )
    (tmp_path / "model" / "config.json").write_text('{"model_type": "own", "auto_map": {"AutoConfig": "own.Own"}}')
    with pytest.raises(ValueError, match="code that comes with a model is not run"):
        load_backbone("huggingface", str(tmp_path / "model"))
    assert not ran.exists()
