from pathlib import Path

import numpy as np
import open_clip
import pytest
import torch
from tiny_models import write_clip

from frostbench.embedcache.backbones import load_backbone
from frostbench.embedcache.backbones.text import canonicalise, embed_classes, make_prompts
from frostbench.heads.closed_form.zero_shot import ZeroShot
from frostbench.heads.fitting_rows import Rows

VIT = {"image_size": 32, "layers": 2, "width": 32, "patch_size": 16, "head_width": 16}
TEXT = {"context_length": 16, "vocab_size": 49408, "width": 16, "heads": 2, "layers": 2}
NAMES = ("Sea_Eagle", "heron", "tit")
TEMPLATES = ("a photo of a {}.", "The {}, flying!", "art of {}")


def write_model(folder: Path, **changes: object) -> Path:
    preprocess = {"mean": [0.5] * 3, "std": [0.5] * 3, "interpolation": "bicubic", "resize_mode": "squash"}
    return write_clip(folder, {"embed_dim": 24, "vision_cfg": VIT, "text_cfg": TEXT} | changes, preprocess)


def test_class_vectors_are_open_clips_own(tmp_path: Path) -> None:
    name = f"local-dir:{write_model(tmp_path, init_logit_bias=-10)}"
    ours = embed_classes(name, NAMES, templates=TEMPLATES)
    model = open_clip.create_model(name).eval()
    spoken = [text.replace("_", " ") for text in NAMES]
    expected = open_clip.build_zero_shot_classifier(model, open_clip.get_tokenizer(name), spoken, TEMPLATES).T
    np.testing.assert_allclose(ours.weights, expected.numpy(), atol=1e-5)
    np.testing.assert_allclose(np.linalg.norm(ours.weights, axis=1), 1, atol=1e-6)
    assert ours.scale == pytest.approx(float(model.logit_scale.detach().exp()), rel=1e-6)
    assert ours.bias == pytest.approx(float(model.logit_bias.detach()), rel=1e-6)
    assert ours.bias < -9


def test_they_go_with_vectors_of_the_same_image_tower_and_make_a_head(tmp_path: Path) -> None:
    name = f"local-dir:{write_model(tmp_path)}"
    images = load_backbone("open_clip", name, autocast="float32")
    ours = embed_classes(name, NAMES)
    assert ours.image_sha256 == images.recipe.weights_sha256
    ours.save(tmp_path / "texts.npz")
    batch = torch.randint(0, 256, (5, 3, 32, 32), dtype=torch.uint8)
    x = images.embed(batch)["projection"]
    rows = Rows(x, torch.zeros(5, dtype=torch.int64), torch.ones(5, dtype=torch.float64), 3, NAMES[::-1])
    logits = ZeroShot(file=str(tmp_path / "texts.npz"), scale=ours.scale).fit(rows)(x)
    unit = x / x.norm(dim=1, keepdim=True)
    expected = ours.scale * unit @ torch.from_numpy(ours.weights).flip(0).T
    torch.testing.assert_close(logits, expected, rtol=1e-4, atol=1e-4)
    with pytest.raises(ValueError, match=r"must end in \.npz"):
        ours.save(tmp_path / "texts.npy")


def test_prompts_are_canonicalised_where_a_folder_or_a_name_says_so(tmp_path: Path, monkeypatch) -> None:
    plain = f"local-dir:{write_model(tmp_path)}"
    quiet = embed_classes(plain, ["heron"], templates=["a photo of {}"]).weights
    # The path of this test may contain the name of any family, but only the configuration counts.
    assert np.abs(embed_classes(plain, ["HERON!"], templates=["A photo of: {}."]).weights - quiet).max() > 1e-3
    cleaning = f"local-dir:{write_model(tmp_path, text_cfg=TEXT | {'tokenizer_kwargs': {'clean': 'canonicalize'}})}"
    loud = embed_classes(cleaning, ["HERON!"], templates=["A photo of: {}."]).weights
    np.testing.assert_allclose(loud, quiet, atol=1e-6)
    monkeypatch.setitem(
        open_clip.factory._MODEL_CONFIGS, "tiny-SigLIP2", {"embed_dim": 24, "vision_cfg": VIT, "text_cfg": TEXT}
    )
    tag = {"mean": (0.5,) * 3, "std": (0.5,) * 3, "interpolation": "bicubic", "resize_mode": "squash", "url": ""}
    monkeypatch.setitem(open_clip.pretrained._PRETRAINED, "tiny-SigLIP2", {"mine": tag})
    monkeypatch.setattr(open_clip, "get_tokenizer", lambda name: open_clip.SimpleTokenizer(context_length=16))
    file = tmp_path / "open_clip_model.safetensors"
    named = embed_classes("tiny-SigLIP2/mine", ["HERON!"], templates=["A photo of: {}."], weights=file).weights
    np.testing.assert_allclose(named, quiet, atol=1e-6)


@pytest.mark.parametrize("text", ["A photo of a Blue-tit,  (male).", "HERON_bird", "plain"])
def test_canonicalising_is_that_of_open_clip(text: str) -> None:
    assert canonicalise(text) == open_clip.tokenizer.canonicalize_text(text)


@pytest.mark.parametrize(
    ("names", "templates"), [((), ("a {}",)), (("a",), ()), (("a",), ("no name",)), (("a",), ("{} {}",))]
)
def test_wrong_prompts_are_refused(names: tuple[str, ...], templates: tuple[str, ...]) -> None:
    with pytest.raises(ValueError, match="prompts need class names"):
        make_prompts(names, templates)
