"""Tiny random checkpoints of transformers, saved by the tests and loaded by path without a hub."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch
import transformers
from PIL import Image

from embedcache.backbones import Backbone, Preparation, load_backbone
from embedcache.backbones.rebuild import rebuild, rebuild_all
from embedcache.extraction.together import Together

LVD = ((0.485, 0.456, 0.406), (0.229, 0.224, 0.225))
SAT = ((0.430, 0.411, 0.296), (0.213, 0.156, 0.143))
SMALL = {"hidden_size": 32, "num_attention_heads": 2, "num_hidden_layers": 4}


def dinov3_vit() -> torch.nn.Module:
    config = transformers.DINOv3ViTConfig(**SMALL, intermediate_size=64, num_register_tokens=4, layerscale_value=0.5)
    return transformers.DINOv3ViTModel(config)


def dinov3_plus() -> torch.nn.Module:
    """With the gated MLP of S+, H+ and 7B."""
    config = transformers.DINOv3ViTConfig(**SMALL, intermediate_size=64, num_register_tokens=4, use_gated_mlp=True)
    return transformers.DINOv3ViTModel(config)


def dinov3_convnext() -> torch.nn.Module:
    return transformers.DINOv3ConvNextModel(
        transformers.DINOv3ConvNextConfig(hidden_sizes=[8, 8, 16, 16], depths=[1] * 4)
    )


def dinov2() -> torch.nn.Module:
    return transformers.Dinov2Model(transformers.Dinov2Config(**SMALL, patch_size=14, image_size=70))


def dinov2_registers() -> torch.nn.Module:
    config = transformers.Dinov2WithRegistersConfig(**SMALL, patch_size=14, image_size=70, num_register_tokens=3)
    return transformers.Dinov2WithRegistersModel(config)


def dinov3_processor(mean: tuple[float, ...] = LVD[0], std: tuple[float, ...] = LVD[1]) -> object:
    return transformers.DINOv3ViTImageProcessor(image_mean=list(mean), image_std=list(std))


def dinov2_processor() -> object:
    return transformers.BitImageProcessor(
        size={"shortest_edge": 256}, crop_size={"height": 224, "width": 224}, image_mean=LVD[0], image_std=LVD[1]
    )


MODELS = {
    "dinov3_vit": (dinov3_vit, dinov3_processor, 5),
    "dinov3_plus": (dinov3_plus, dinov3_processor, 5),
    "dinov2": (dinov2, dinov2_processor, 1),
    "dinov2_registers": (dinov2_registers, dinov2_processor, 4),
    "dinov3_convnext": (dinov3_convnext, dinov3_processor, 1),
}


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory: pytest.TempPathFactory):
    """A folder as the hub would give it, by the name of a tiny model, every tensor away from its neutral value."""
    root = tmp_path_factory.mktemp("checkpoints")

    def make(name: str) -> Path:
        folder = root / name
        if not folder.exists():
            build, processor, _ = MODELS[name]
            torch.manual_seed(0)
            model = build()
            with torch.no_grad():
                for tensor in model.parameters():
                    tensor.add_(0.1 * torch.rand_like(tensor))
            model.save_pretrained(folder)
            processor().save_pretrained(folder)
        return folder

    return make


@pytest.fixture(autouse=True)
def no_hub(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path / "hub"))


def pixels(height: int, width: int) -> np.ndarray:
    """Smooth and sharp, so that filters differ."""
    row, column = np.mgrid[0:height, 0:width]
    noise = np.random.default_rng(height).integers(0, 256, (height, width, 3))
    waves = 127 + 127 * np.sin(row[..., None] / np.array([5, 7, 11]) + column[..., None] / 13)
    return (0.5 * noise + 0.5 * waves).astype(np.uint8)


def embedded(backbone: Backbone, folder: Path) -> tuple[dict[str, torch.Tensor], object]:
    """Ours, and what the library makes of the same pixels."""
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
        # Of 4 blocks, and the embedding before them: the third block's output is hidden state 3.
        "cls@-2": norm(theirs.hidden_states[3])[:, 0],
        "patch_mean@-3": norm(theirs.hidden_states[2])[:, prefix:].mean(1),
    }
    assert set(vectors) == set(expected)
    for column, value in expected.items():
        torch.testing.assert_close(vectors[column], value, rtol=1e-5, atol=1e-5)
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
    torch.testing.assert_close(vectors["avg"], theirs.pooler_output, rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(vectors["tokens"], theirs.last_hidden_state[:, 1:], rtol=1e-5, atol=1e-5)
    assert ours.tokens == {"tokens": 49}
    assert list(load_backbone("huggingface", str(folder)).recipes) == ["avg"]
    with pytest.raises(ValueError, match="has the poolings avg, gem, tokens; each can be stored once"):
        load_backbone("huggingface", str(folder), pooling=("cls",))


def test_the_three_default_embeddings_of_one_dinov3_checkpoint_differ_and_are_named(checkpoint) -> None:
    # Meta's evaluation and transformers' pooler_output take the class token (at other sizes and filters), timm the mean
    # of the patch tokens. Nothing is stored by default of a library: both are columns, each under its own name.
    folder = checkpoint("dinov3_vit")
    ours = load_backbone("huggingface", str(folder), autocast="float32")
    vectors, theirs = embedded(ours, folder)
    assert list(vectors) == ["cls", "patch_mean"]
    torch.testing.assert_close(vectors["cls"], theirs.pooler_output, rtol=1e-5, atol=1e-5)
    timm_default = theirs.last_hidden_state[:, 5:].mean(1)
    torch.testing.assert_close(vectors["patch_mean"], timm_default, rtol=1e-5, atol=1e-5)
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


def test_a_size_that_cuts_patches_is_refused(checkpoint) -> None:
    # transformers would drop the last pixels without a word: 250 is 15 patches of 16, and 10 pixels.
    with pytest.raises(ValueError, match=r"patches of 16 pixels and size 250 was asked for. Nearest: 240 or 256"):
        load_backbone("huggingface", str(checkpoint("dinov3_vit")), size=250)
    bigger = load_backbone("huggingface", str(checkpoint("dinov2")), size=70, pooling=["tokens"])
    assert (bigger.tokens, bigger.recipe.size, bigger.recipe.resize) == ({"tokens": 25}, 70, 80)
    own = load_backbone("huggingface", str(checkpoint("dinov2")))
    assert own.recipe.weights_sha256 == bigger.recipe.weights_sha256


def test_float16_is_refused_whatever_the_folder_is_called(checkpoint, tmp_path: Path) -> None:
    folder = tmp_path / "mine"
    folder.symlink_to(checkpoint("dinov3_convnext"))
    with pytest.raises(ValueError, match="DINOv3 models must not run in float16"):
        load_backbone("huggingface", str(folder), autocast="float16")


def test_weights_may_lie_elsewhere_under_the_same_name(checkpoint) -> None:
    by_name = load_backbone("huggingface", "facebook/dinov3-vits16-pretrain-lvd1689m", weights=checkpoint("dinov3_vit"))
    assert by_name.recipe.model == "facebook/dinov3-vits16-pretrain-lvd1689m"
    assert by_name.provenance["transformers"] == transformers.__version__


def test_what_cannot_be_loaded_is_explained(checkpoint, tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"accept the licence on its page .*`--weights`"):
        load_backbone("huggingface", "facebook/dinov3-vits16-pretrain-lvd1689m")
    with pytest.raises(FileNotFoundError, match=r"weights are a folder with config\.json"):
        load_backbone("huggingface", "facebook/dinov2-small", weights=tmp_path / "gone")
    (tmp_path / "bert").mkdir()
    (tmp_path / "bert" / "config.json").write_text(json.dumps({"model_type": "bert"}))
    with pytest.raises(ValueError, match=r"are of type dinov2, .* of type 'bert'"):
        load_backbone("huggingface", str(tmp_path / "bert"))
    deeper = transformers.DINOv3ViTConfig(
        **SMALL | {"num_hidden_layers": 5}, intermediate_size=64, num_register_tokens=4
    )
    dinov3_vit().save_pretrained(tmp_path / "holes")
    dinov3_processor().save_pretrained(tmp_path / "holes")
    deeper.save_pretrained(tmp_path / "holes")
    with pytest.raises(ValueError, match=r"lacks 1\d tensors of a dinov3_vit"):
        load_backbone("huggingface", str(tmp_path / "holes"))


def test_a_processor_that_is_not_understood_is_refused(tmp_path: Path) -> None:
    dinov2().save_pretrained(tmp_path)
    transformers.BitImageProcessor(do_normalize=False).save_pretrained(tmp_path)
    with pytest.raises(ValueError, match=r"unnormalised.*State size, crop"):
        load_backbone("huggingface", str(tmp_path))
    stated = Preparation(size=70, crop="squash", crop_fraction=1, interpolation="bicubic", mean=LVD[0], std=LVD[1])
    assert load_backbone("huggingface", str(tmp_path), preparation=stated).recipe.resize == 70


def test_a_backbone_is_rebuilt_from_its_recipes(checkpoint) -> None:
    folder = str(checkpoint("dinov3_vit"))
    wanted = ("patch_mean", "gem:4", "cls@-2", "tokens")
    made = load_backbone(
        "huggingface", folder, pooling=wanted, size=64, preparation=Preparation(crop="center", crop_fraction=0.9)
    )
    again = rebuild({f"a.{name}": recipe for name, recipe in made.recipes.items()})
    batch = made.prepare(pixels(90, 70))[None]
    vectors = again.embed(batch)
    assert list(vectors) == [f"a.{name}" for name in made.recipes]
    for name, value in made.embed(batch).items():
        assert torch.equal(value, vectors[f"a.{name}"])
    assert (again.tokens, again.dims["a.gem:4"]) == ({"a.tokens": 16}, 32)
    other = {"a.cls": made.recipes["patch_mean"].model_copy(update={"weights_sha256": "0" * 64})}
    with pytest.raises(ValueError, match="weights_sha256: wanted '0000"):
        rebuild(other)


def test_several_backbones_are_rebuilt_by_prefix(checkpoint) -> None:
    made = Together(
        {name: load_backbone("huggingface", str(checkpoint(name)), size=112) for name in ("dinov3_vit", "dinov2")}
    )
    with pytest.raises(ValueError, match=r"are of several\. Use rebuild_all"):
        rebuild(made.recipes)
    again = Together(rebuild_all(made.recipes))
    assert again.recipes == made.recipes
    one = {name: recipe for name, recipe in made.recipes.items() if name.startswith("dinov2.")}
    assert Together(rebuild_all(one)).recipes == one
    found = rebuild_all(one, weights={"dinov2": checkpoint("dinov2")})
    assert list(found) == [""]


@pytest.mark.slow
def test_a_compiled_forward_pass_gives_the_same(checkpoint, monkeypatch: pytest.MonkeyPatch) -> None:
    folder, compiler = str(checkpoint("dinov3_vit")), torch.compile
    monkeypatch.setattr(torch, "compile", lambda function: compiler(function, backend="eager"))
    plain, compiled = (
        load_backbone("huggingface", folder, size=64, autocast="float32", compile=choice) for choice in (False, True)
    )
    batch = torch.stack([plain.prepare(pixels(90, 70 + extra)) for extra in range(3)])
    for name, value in plain.embed(batch).items():
        torch.testing.assert_close(compiled.embed(batch)[name], value, rtol=1e-5, atol=1e-5)


def test_compiling_is_provenance_and_explained_where_it_fails(checkpoint, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = str(checkpoint("dinov3_vit"))
    plain = load_backbone("huggingface", folder, size=64)
    monkeypatch.setattr(torch, "compile", lambda function: function)
    compiled = load_backbone("huggingface", folder, size=64, compile=True)
    assert compiled.recipe.hash == plain.recipe.hash
    assert compiled.provenance["compiler"] == "torch.compile"
    assert "compiler" not in plain.provenance

    def broken(function: object) -> object:
        def run(x: torch.Tensor) -> None:
            raise RuntimeError("no C++ compiler")

        return run

    monkeypatch.setattr(torch, "compile", broken)
    with pytest.raises(ValueError, match=r"RuntimeError: no C\+\+ compiler Leave compile out"):
        load_backbone("huggingface", folder, compile=True)
