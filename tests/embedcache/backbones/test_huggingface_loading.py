"""Checkpoints of transformers: refusals, rebuilding from recipes, and compilation."""

import json
from pathlib import Path

import pytest
import torch
import transformers
from network_outputs import assert_same_outputs
from noise import pixels
from tiny_transformers import LVD, SMALL, dinov2, dinov3_processor, dinov3_vit

from frostbench.embedcache.backbones import Preparation, load_backbone
from frostbench.embedcache.backbones.rebuild import rebuild, rebuild_all
from frostbench.embedcache.extraction.backbone_group import BackboneGroup


def test_a_size_that_cuts_patches_is_refused(checkpoint) -> None:
    # transformers would silently drop the last pixels: 250 is 15 patches of 16, and 10 pixels.
    with pytest.raises(ValueError, match=r"got 250, but .* has patches of 16 pixels. Nearest: 240 or 256"):
        load_backbone("huggingface", str(checkpoint("dinov3_vit")), size=250)
    bigger = load_backbone("huggingface", str(checkpoint("dinov2")), size=70, pooling=["tokens"])
    assert (bigger.tokens, bigger.recipe.size, bigger.recipe.resize) == ({"tokens": 25}, 70, 80)
    own = load_backbone("huggingface", str(checkpoint("dinov2")))
    assert own.recipe.weights_sha256 == bigger.recipe.weights_sha256


def test_float16_is_refused_whatever_the_folder_is_called(checkpoint, tmp_path: Path) -> None:
    folder = tmp_path / "mine"
    folder.symlink_to(checkpoint("dinov3_convnext"))
    with pytest.raises(ValueError, match="DINOv3 models cannot run in float16"):
        load_backbone("huggingface", str(folder), autocast="float16")


def test_weights_may_lie_elsewhere_under_the_same_name(checkpoint) -> None:
    by_name = load_backbone("huggingface", "facebook/dinov3-vits16-pretrain-lvd1689m", weights=checkpoint("dinov3_vit"))
    assert by_name.recipe.model == "facebook/dinov3-vits16-pretrain-lvd1689m"
    assert by_name.provenance["transformers"] == transformers.__version__


def test_what_cannot_be_loaded_is_explained(checkpoint, tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"accept the licence on its page .*`--weights`"):
        load_backbone("huggingface", "facebook/dinov3-vits16-pretrain-lvd1689m")
    with pytest.raises(FileNotFoundError, match=r"weights of a huggingface model must be a folder with config\.json"):
        load_backbone("huggingface", "facebook/dinov2-small", weights=tmp_path / "gone")
    (tmp_path / "bert").mkdir()
    (tmp_path / "bert" / "config.json").write_text(json.dumps({"model_type": "bert"}))
    with pytest.raises(ValueError, match=r"must be of type dinov2, .* of type 'bert'"):
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
    with pytest.raises(ValueError, match=r"these steps are switched off: do_normalize\. State size, crop"):
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
    with pytest.raises(ValueError, match="weights_sha256: expected '0000"):
        rebuild(other)


def test_several_backbones_are_rebuilt_by_prefix(checkpoint) -> None:
    made = BackboneGroup(
        {name: load_backbone("huggingface", str(checkpoint(name)), size=112) for name in ("dinov3_vit", "dinov2")}
    )
    with pytest.raises(ValueError, match=r"belong to several backbones\. Use rebuild_all"):
        rebuild(made.recipes)
    again = BackboneGroup(rebuild_all(made.recipes))
    assert again.recipes == made.recipes
    one = {name: recipe for name, recipe in made.recipes.items() if name.startswith("dinov2.")}
    assert BackboneGroup(rebuild_all(one)).recipes == one
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
        assert_same_outputs(compiled.embed(batch)[name], value)


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
    with pytest.raises(ValueError, match=r"RuntimeError: no C\+\+ compiler\)\. Leave compile out"):
        load_backbone("huggingface", folder, compile=True)
